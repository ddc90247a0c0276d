"""How deep should neighbour sampling look? Accuracy, time and memory for fanouts of two, three and four hops."""

from __future__ import annotations

from dataclasses import replace

from handful.report.tables import Cell, best_two, percent
from handful.studies import Finding, Request, presets
from handful.studies.budget import Scale, benchmark, failures, graph_and_metric, graph_of, job, printed, setting, train

SCALE = Scale(hidden=64, layers=4, epochs=40)
"""A quarter of these epochs is neighbour sampling's."""


def run(request: Request) -> Finding:
    """The fanouts of the paper's search space; other hyperparameters are those of its best."""
    graph = graph_of(request, "ogbn-arxiv")
    recipe, model, options = benchmark(request, graph, "neighbor", SCALE)
    fanouts = {
        ",".join(map(str, choice["fanout"])): choice
        for choice in presets.search_space("neighbor")
        if len(choice["fanout"]) <= options["layers"]
    }
    jobs = [
        job(request, f"fanout-{name.replace(',', '-')}", graph, replace(recipe, options=choice), model, options)
        for name, choice in fanouts.items()
    ]
    outcomes = dict(zip(fanouts, train(request, jobs), strict=True))
    done = {name: o.summary for name, o in outcomes.items() if o.summary is not None}
    ranks = dict(zip(done, best_two([s["test"]["mean"] for s in done.values()], highest=True), strict=True))
    failed = failures(list(outcomes.values()))
    rows, payload = [], []
    for fanout, outcome in outcomes.items():
        summary = outcome.summary
        paper = printed("tab:neighbor_fanout_ablation", graph, fanout)
        if summary is None:
            rows.append([Cell(f"[{fanout}]"), Cell("failed"), Cell(""), Cell("")])
            payload.append({"fanout": fanout, "error": failed[outcome.job.name], "paper": paper})
            continue
        seconds, memory = summary["epoch_seconds"]["mean"], summary["peak_memory_bytes"]
        rows.append(
            [
                Cell(f"[{fanout}]"),
                Cell(percent(summary["test"]), ranks[fanout]),
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
    name, metric = graph_and_metric(list(outcomes.values()))
    times = [s["epoch_seconds"]["mean"] for s in done.values()]
    return Finding(
        payload={"graph": name, "metric": metric, "fanouts": payload},
        title=f"{name} · neighbour sampling · {setting(jobs)}",
        head=["Fanout", f"Test {metric.replace('_', ' ')} (%)", "Seconds an epoch", "Peak memory (GiB)"],
        rows=rows,
        words=f"From the shallowest to the deepest an epoch takes {times[-1] / times[0]:.1f} times as long."
        if times
        else "Nothing ran.",
        failed=tuple(failed),
    )
