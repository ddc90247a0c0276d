"""The validation metric of full-graph training and of RNS, over epochs and over seconds."""

from __future__ import annotations

from handful.report.curves import curves_figure, mean_curve
from handful.report.tables import Cell, best_two, percent
from handful.statistics import mean_ci95
from handful.studies import Finding, Request, presets
from handful.studies.budget import Scale, failures, graph_and_metric, graph_of, pair, setting, train

SCALE = Scale(hidden=128, layers=3, epochs=100)
TITLES = {"full": "Full graph", "rns": "RNS"}


def run(request: Request) -> Finding:
    """Both are evaluated after every epoch; the paper shows 200."""
    graph = graph_of(request, "ogbn-products")
    length = presets.protocol("fig:val_accuracy_training_dynamics") if request.budget == "paper" else {}
    jobs = pair(request, graph, SCALE, evaluate_every=1, **length)
    outcomes = train(request, jobs)
    done = [o for o in outcomes if o.summary is not None]
    curves = {o.job.name: o.histories() for o in done}
    lines = []
    for name, histories in curves.items():
        epochs, values = mean_curve(histories, "epoch")
        seconds, _ = mean_curve(histories, "seconds")
        lines.append(
            {"method": name, "epoch": epochs.tolist(), "seconds": seconds.tolist(), "val": values.mean(0).tolist()}
        )
    best = {name: mean_ci95([max(line["val"] or 0.0 for line in h) for h in runs]) for name, runs in curves.items()}
    took = {name: mean_ci95([h[-1]["seconds"] for h in runs])["mean"] for name, runs in curves.items()}
    ranks = best_two([value["mean"] for value in best.values()], highest=True)
    (graph, metric), failed = graph_and_metric(outcomes), failures(outcomes)
    pictures = {
        f"curves-{against}.svg": curves_figure(
            {TITLES[name]: runs for name, runs in curves.items()},
            metric,
            f"{graph}: validation through training",
            against,
        )
        for against in ("epoch", "seconds")
    }
    return Finding(
        payload={"graph": graph, "metric": metric, "curves": lines, "best": best, "seconds": took, "failed": failed},
        title=f"{graph} · {setting(jobs)}",
        head=["Method", f"Best validation {metric.replace('_', ' ')} (%)", "Seconds"],
        rows=[
            [Cell(TITLES[name]), Cell(percent(best[name]), rank), Cell(f"{took[name]:.1f}")]
            for name, rank in zip(curves, ranks, strict=True)
        ]
        + [[Cell(TITLES[name]), Cell(f"failed: {why}"), Cell("")] for name, why in failed.items()],
        words=in_words(took),
        pictures=pictures if curves else {},
        failed=tuple(failed),
    )


def in_words(seconds: dict[str, float]) -> str:
    """How long the same number of epochs took."""
    if set(seconds) != set(TITLES):
        return "Without both runs there is nothing to compare."
    return f"The same epochs take RNS {seconds['rns'] / seconds['full']:.2f} times as long, with {TITLES['full']} as 1."
