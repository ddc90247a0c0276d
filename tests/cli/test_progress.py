from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console
from rich.text import Text

from handful import Experiment
from handful.cli.progress import Bar, EpochProgress

GRAPH = "synthetic?nodes=200&degree=6&features=8&classes=3"


def test_a_bar_counts_what_all_jobs_have_done() -> None:
    with Bar("epochs", 10) as bar:
        bar.job("full", 3, "seed 1")
        bar.job("rns", 2, "seed 1")
        bar.job("full", 4, "seed 2, val 70.00")
        (task,) = bar.tasks
        assert (task.completed, task.total, task.description) == (6, 10, "full: seed 2, val 70.00")
        bar.trial("rns parts=2", 1, 5)
        assert task.completed == 7
        bar.step("one more")
        assert (task.completed, task.description) == (8, "one more")
        bar.at(2, 4, "anew")
        assert (task.completed, task.total) == (2, 4)
    assert bar.finished or not bar.live.is_started


@pytest.mark.parametrize("word", ["seed 101112 · best val 77.70 at 1000", "neighbor: seed 101112, val 77.70", "x" * 90])
def test_a_bar_is_one_line_of_at_most_80_columns(word: str) -> None:
    bar = Bar("epochs", 5000, word)
    bar.at(1234, 5000, word)
    terminal = Console(width=80, file=StringIO(), force_terminal=True)
    terminal.print(bar.get_renderable())
    (line,) = Text.from_ansi(terminal.file.getvalue()).plain.splitlines()
    assert len(line.rstrip()) <= 80
    assert line.startswith(word[:30])
    assert "1234/5000 epochs" in line


def test_lines_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with Bar("epochs", 10, every=0.0) as bar:
        bar.at(3, 10, "seed 1")
        bar.every = 60.0
        bar.at(4, 10, "seed 1")
    (line,) = capsys.readouterr().err.splitlines()
    assert "3 of 10 epochs" in line
    assert "seed 1" in line


def test_epochs_of_all_seeds_are_counted_though_one_stops_early() -> None:
    experiment = Experiment(GRAPH, hidden=4, layers=1, lr=1e-9, epochs=6, patience=1, seeds=(1, 2, 3))
    with EpochProgress(6, (1, 2, 3)) as progress:
        summary = experiment.run(callbacks=[progress])
        (task,) = progress.tasks
        assert any(run.epochs < 6 for run in summary.runs)
        assert (task.completed, task.total) == (18, 18)
        last = summary.runs[-1]
        assert f"val {100 * last.val:.2f} at {last.best_epoch}" in task.description
        assert task.description.startswith("seed 3")
