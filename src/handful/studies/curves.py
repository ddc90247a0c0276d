"""The validation metric of full-graph training and of RNS, over epochs and over seconds."""

from __future__ import annotations

from handful.finding import Cell, Finding, best_two
from handful.statistics import mean_ci95
from handful.studies import presets
from handful.studies.budget import Scale, pair, train_jobs
from handful.studies.request import Request
from handful.studies.trained import failures, graph_and_metric, mean_curve, setting, trained_finding
from handful.training.metrics import METRICS
from handful.vocabulary import title

SCALE = Scale(hidden=128, layers=3, epochs=100)


def run(request: Request) -> Finding:
    """Both are evaluated after every epoch; the paper shows 200."""
    graph = request.graph_or("ogbn-products")
    length = presets.protocol("fig:val_accuracy_training_dynamics") if request.budget == "paper" else {}
    jobs = pair(request, graph, SCALE, evaluate_every=1, **length)
    outcomes = train_jobs(request, jobs)
    done = {o.name: (o.summary, o.histories()) for o in outcomes if o.summary is not None}
    lines = []
    for name, (_, histories) in done.items():
        epochs, values = mean_curve(histories, "epoch")
        seconds, _ = mean_curve(histories, "seconds")
        lines.append(
            {"method": name, "epoch": epochs.tolist(), "seconds": seconds.tolist(), "val": values.mean(0).tolist()}
        )
    best = {name: summary["val"] for name, (summary, _) in done.items()}
    took = {name: mean_ci95([h[-1]["seconds"] for h in runs])["mean"] for name, (_, runs) in done.items()}
    (graph, metric), failed = graph_and_metric(outcomes), failures(outcomes)
    judge = METRICS[metric]
    ranks = best_two([value["mean"] for value in best.values()], judge.higher_is_better)
    rows = [
        [Cell(title(name)), Cell(judge.text(best[name]), rank), Cell(f"{took[name]:.1f}")]
        for name, rank in zip(done, ranks, strict=True)
    ]
    return trained_finding(
        "curves",
        outcomes,
        title=f"{graph} · {setting(jobs)}",
        words=in_words(took),
        head=["Method", judge.label("Best validation"), "Seconds"],
        rows=[*rows, *([Cell(title(name)), Cell(f"failed: {why}"), Cell("")] for name, why in failed.items())],
        payload={"graph": graph, "metric": metric, "curves": lines, "best": best, "seconds": took, "failed": failed},
    )


def in_words(seconds: dict[str, float]) -> str:
    """How long the same number of epochs took."""
    if set(seconds) != {"full", "rns"}:
        return "Without both runs there is nothing to compare."
    return f"The same epochs take RNS {seconds['rns'] / seconds['full']:.2f} times as long as the full graph."
