"""How deep should neighbour sampling look? Accuracy, time and memory for fanouts of two, three and four hops."""

from __future__ import annotations

from handful.finding import Axis, Cell, Chart, Finding, Series, View, best_two
from handful.samplers import make_sampler
from handful.studies import presets
from handful.studies.beside import paper_number, points_beside
from handful.studies.budget import Scale, benchmark, train_jobs, tuned_each
from handful.studies.request import Request
from handful.studies.trained import failures, graph_and_metric, setting, trained_finding
from handful.training.metrics import METRICS
from handful.vocabulary import hues, title

SCALE = Scale(hidden=64, layers=4, epochs=40)
"""A quarter of these epochs is neighbour sampling's."""


def run(request: Request) -> Finding:
    """The fanouts of the paper's search space; other hyperparameters are those of its best, or tuned for each."""
    graph = request.graph_or("ogbn-arxiv")
    base = benchmark(request, graph, "neighbor", SCALE)
    fanouts = {
        ",".join(map(str, choice["fanout"])): make_sampler("neighbor", **choice)
        for choice in presets.search_space("neighbor")
        if len(choice["fanout"]) <= base.options["layers"]
    }
    same = {f"fanout-{name.replace(',', '-')}": base.with_(sampler=sampler) for name, sampler in fanouts.items()}
    jobs = tuned_each(request, same)
    outcomes = dict(zip(fanouts, train_jobs(request, jobs), strict=True))
    done = {name: o.summary for name, o in outcomes.items() if o.summary is not None}
    name, metric = graph_and_metric(list(outcomes.values()))
    judge = METRICS[metric]
    ranks = dict(zip(done, best_two([s["test"]["mean"] for s in done.values()], judge.higher_is_better), strict=True))
    failed = failures(list(outcomes.values()))
    rows, payload = [], []
    for fanout, outcome in outcomes.items():
        summary = outcome.summary
        paper = paper_number("tab:neighbor_fanout_ablation", graph, fanout)
        if summary is None:
            rows.append([Cell(f"[{fanout}]"), Cell("failed"), Cell(""), Cell("")])
            payload.append({"fanout": fanout, "error": failed[outcome.name], "paper": paper})
            continue
        seconds, memory = summary["epoch_seconds"]["mean"], summary["peak_memory_bytes"]
        rows.append(
            [
                Cell(f"[{fanout}]"),
                Cell(judge.text(summary["test"]), ranks[fanout]),
                Cell(f"{seconds:.2f}"),
                Cell(f"{(memory['gpu'] or memory['ram']) / 2**30:.2f}"),
            ]
        )
        payload.append(
            {
                "fanout": fanout,
                "test": summary["test"],
                "epoch_seconds": seconds,
                "peak_memory_bytes": memory,
                "paper": paper,
            }
        )
    times = [s["epoch_seconds"]["mean"] for s in done.values()]
    good = [row for row in payload if "error" not in row]
    names = [f"[{row['fanout']}]" for row in good]
    x, (hue,), label = Axis("fanout", of=names), hues(["neighbor"]), title("neighbor")
    papers = [(row["paper"] or {}).get("test") for row in good]
    y = Axis(judge.label("test"))
    views = [
        View("test", "dot", x, y, points_beside(label, names, [row["test"] for row in good], papers, hue, judge.scale)),
        View("seconds", "bar", x, Axis("seconds per epoch"), [Series(label, names, times, color=hue)]),
    ]
    return trained_finding(
        "fanout",
        list(outcomes.values()),
        title=f"{name} · neighbour sampling · {setting(jobs)}",
        words=f"From the shallowest to the deepest an epoch takes {times[-1] / times[0]:.1f} times as long."
        if times
        else "Nothing ran.",
        head=["Fanout", judge.label("Test"), "Seconds per epoch", "Peak memory (GiB)"],
        rows=rows,
        payload={"graph": name, "metric": metric, "fanouts": payload},
        charts=[Chart("fanout", f"{name}: how deep to look", views)],
        labels={f"fanout-{fanout.replace(',', '-')}": f"fanout [{fanout}]" for fanout in fanouts},
    )
