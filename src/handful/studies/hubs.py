"""How many hubs should every part of RNS hold? Accuracy, R(w), bias, time and memory against their share."""

from __future__ import annotations

from functools import partial
from typing import Any

from handful.finding import Axis, Cell, Chart, Finding, Series, View, best_two, mean_of, points
from handful.nn import make_model
from handful.samplers import make_sampler
from handful.samplers.hubs import Hubs, inclusion
from handful.statistics import mean_ci95
from handful.studies.budget import Scale, benchmark, train_jobs
from handful.studies.request import Request
from handful.studies.trained import failures, graph_and_metric, setting, trained_finding
from handful.theory import diagnosis
from handful.theory.hubs import expected_edges
from handful.training.metrics import METRICS, Metric
from handful.vocabulary import hues, title

SCALE = Scale(hidden=128, layers=3, epochs=40)
LARGE: tuple[Hubs | None, ...] = (None, 6, 0.01, 0.05, "drawn=0.05", "drawn=0.1", "drawn=0.25", "auto")
VALUES: dict[str, tuple[Hubs | None, ...]] = {
    "smoke": (None, 0.05, "auto"),
    "laptop": LARGE,
    "paper": LARGE,
}
BESIDE = ("full", "saint")
"""Methods to hold it against."""
BATCHES = {"smoke": (4, 1), "laptop": (24, 4), "paper": (50, 100)}
"""Of each sampler in a repeat, and repeats, for R and bias at random initialisations."""


def run(request: Request) -> Finding:
    """RNS with ever more hubs, all else equal; full-graph training and GraphSAINT beside it."""
    graph = request.graph_or("ogbn-arxiv")
    base = benchmark(request, graph, "rns", SCALE)
    options = base.sampler.options()
    samplers = {_job(v): make_sampler("rns", **{**options, "hubs": v}) for v in VALUES[request.budget]}
    jobs = {name: base.with_(sampler=sampler) for name, sampler in samplers.items()}
    jobs |= {name: benchmark(request, graph, name, SCALE) for name in BESIDE}
    outcomes = train_jobs(request, jobs)
    data = base.load(request.seeds[0])
    network = partial(make_model, base.model, data.num_features, data.num_outputs, **base.options)
    batches, repeats = BATCHES[request.budget]
    every = [job.sampler for job in jobs.values()]
    measured = diagnosis.diagnose(data, every, network, batches, repeats, request.seeds[0])
    failed, rows = failures(outcomes), []
    for outcome, sampler, terms in zip(outcomes, every, measured, strict=True):
        row: dict[str, Any] = {"name": outcome.name, "label": outcome.name, "R": mean_ci95(terms.values("R"))}
        row["bias"] = mean_ci95(terms.values("bias"))
        if outcome.name in samplers:
            chance = inclusion(data, sampler.options()["hubs"], options["parts"])
            row |= {"hubs": float(chance.sum()), "share": float(chance.mean())}
            row["edges"] = expected_edges(data, options["parts"], chance) / options["parts"]
            row["label"] = _label(sampler.options()["hubs"], row["share"])
        else:
            row["label"] = title(outcome.name)
        if outcome.summary is None:
            row["error"] = failed[outcome.name]
        else:
            row |= {key: outcome.summary[key] for key in ("test", "epoch_seconds", "peak_memory_bytes")}
        rows.append(row)
    name, metric = graph_and_metric(outcomes)
    payload = {"graph": name, "metric": metric, "parts": options["parts"], "rows": rows}
    return trained_finding(
        "hubs",
        outcomes,
        title=f"{name} · RNS with hubs, m = {options['parts']} · {setting(jobs)}",
        words=in_words(rows, METRICS[metric]),
        head=["Hubs", METRICS[metric].label("Test"), "R(w)", "Bias", "Edges of a part", "Epoch (s)", "RAM (GiB)"],
        rows=table_rows(rows, METRICS[metric]),
        payload=payload,
        charts=[hub_chart(payload)],
        labels={row["name"]: row["label"] for row in rows},
    )


def table_rows(rows: list[dict[str, Any]], metric: Metric) -> list[list[Cell]]:
    """A row for every choice of hubs, and for the methods beside it."""
    ranks = best_two([mean_of(row.get("test")) for row in rows], metric.higher_is_better)
    out = []
    for row, rank in zip(rows, ranks, strict=True):
        cells = [Cell(row["label"])]
        cells.append(Cell(f"failed: {row['error']}") if "error" in row else Cell(metric.text(row["test"]), rank))
        cells += [Cell(f"{row[term]['mean']:.3g}") for term in ("R", "bias")]
        cells.append(Cell(f"{row['edges']:,.0f}" if "edges" in row else ""))
        if "error" in row:
            cells += [Cell(""), Cell("")]
        else:
            cells.append(Cell(f"{row['epoch_seconds']['mean']:.2f}"))
            cells.append(Cell(f"{row['peak_memory_bytes']['ram'] / 2**30:.2f}"))
        out.append(cells)
    return out


def hub_chart(result: dict[str, Any]) -> Chart:
    """Accuracy, R, bias, seconds and memory against the hubs; the methods beside it as categories of their own."""
    rows, metric = result["rows"], METRICS[result["metric"]]
    names = [row["label"] for row in rows]
    x = Axis("hubs in every part", of=names)
    hue, *others = hues(["rns-hubs", *BESIDE])
    groups = [(title("rns-hubs"), [row for row in rows if "share" in row], hue)]
    groups += [
        (title(name), [row for row in rows if row["name"] == name], color)
        for name, color in zip(BESIDE, others, strict=True)
    ]

    def series(value: Any, scale: float = 1.0) -> list[Series]:
        return [points(name, [r["label"] for r in of], [value(r) for r in of], c, scale) for name, of, c in groups]

    views = [
        View(
            "test",
            "dot",
            x,
            Axis(metric.label("test")),
            series(lambda row: row.get("test"), metric.scale),
        ),
        View("R", "dot", x, Axis("R(w)", zero=True), series(lambda row: row["R"])),
        View("bias", "dot", x, Axis("bias |L_full − L̄|", zero=True), series(lambda row: row["bias"])),
        View("seconds", "bar", x, Axis("seconds per epoch"), series(lambda row: mean_of(row.get("epoch_seconds")))),
        View("memory", "bar", x, Axis("peak RAM (GiB)"), series(_ram)),
    ]
    return Chart("hubs", f"{result['graph']}: RNS with hubs", views)


def in_words(rows: list[dict[str, Any]], metric: Metric) -> str:
    """What the best choice of hubs gains over none, and what it costs; and the same of ``auto``."""
    done = [row for row in rows if mean_of(row.get("test")) is not None and "share" in row]
    plain = next((row for row in done if row["hubs"] == 0 and row["name"] == _job(None)), None)
    helped = [row for row in done if row is not plain]
    if plain is None or not helped:
        return "Without RNS both with and without hubs there is nothing to compare."
    best = (max if metric.higher_is_better else min)(helped, key=lambda row: row["test"]["mean"])
    told = [best, *(row for row in helped if row["name"] == _job("auto") and row is not best)]
    return "Against no hubs: " + "; ".join(f"{row['label']}: {_against(row, plain, metric)}" for row in told) + "."


def _against(row: dict[str, Any], plain: dict[str, Any], metric: Metric) -> str:
    gain = f"{metric.signed(row['test']['mean'] - plain['test']['mean'])} {metric.unit}"
    times = row["epoch_seconds"]["mean"] / plain["epoch_seconds"]["mean"]
    less = plain["R"]["mean"] / row["R"]["mean"] if row["R"]["mean"] else float("inf")
    return f"{gain}, R {less:.2g} times smaller, an epoch {times:.2f} times as long"


def _ram(row: dict[str, Any]) -> float | None:
    return row["peak_memory_bytes"]["ram"] / 2**30 if "peak_memory_bytes" in row else None


def _job(hubs: Hubs | None) -> str:
    return f"hubs-{'none' if hubs is None else hubs}"


def _label(hubs: Hubs | None, share: float) -> str:
    if hubs is None:
        return "none"
    text = f"{100 * share:.2g}%"
    if isinstance(hubs, float):
        return f"largest {text}"
    return f"drawn {text}" if str(hubs).startswith("drawn") else f"{hubs} ({text})"
