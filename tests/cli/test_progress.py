from __future__ import annotations

from handful import Experiment
from handful.cli.progress import Bar, EpochProgress

GRAPH = "synthetic?nodes=200&degree=6&features=8&classes=3"


def test_a_bar_counts_what_all_jobs_have_done() -> None:
    with Bar("epochs", 10) as bar:
        bar.job("full", 3, "seed 1")
        bar.job("rns", 2, "seed 1")
        bar.job("full", 4, "seed 2, val 70.00")
        (task,) = bar.bar.tasks
        assert (task.completed, task.total, task.description) == (6, 10, "full: seed 2, val 70.00")
        bar.trial("rns parts=2", 1, 5)
        assert task.completed == 7
        bar.step("one more")
        assert (task.completed, task.description) == (8, "one more")
        bar.at(2, 4, "anew")
        assert (task.completed, task.total) == (2, 4)
    assert bar.bar.finished or not bar.bar.live.is_started


def test_epochs_of_all_seeds_are_counted_though_one_stops_early() -> None:
    experiment = Experiment(GRAPH, hidden=4, layers=1, lr=1e-9, epochs=6, patience=1, seeds=(1, 2, 3))
    with EpochProgress(6, (1, 2, 3)) as progress:
        summary = experiment.run(callbacks=[progress])
        (task,) = progress.bar.tasks
        assert any(run.epochs < 6 for run in summary.runs)
        assert (task.completed, task.total) == (18, 18)
        last = summary.runs[-1]
        assert f"val {100 * last.val:.2f} test {100 * last.test:.2f} at {last.best_epoch}" in task.description
        assert task.description.startswith("seed 3")
