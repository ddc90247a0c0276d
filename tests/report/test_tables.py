from __future__ import annotations

import numpy as np

from handful.report.curves import mean_curve
from handful.report.tables import Cell, best_two, markdown


def test_best_and_second_best_either_way_with_ties() -> None:
    assert best_two([0.5, 0.9, 0.7, 0.9], highest=True) == [0, 1, 2, 1]
    assert best_two([5.0, 2.0, 3.0], highest=False) == [0, 1, 2]
    assert best_two([1.0], highest=True) == [1]


def test_markdown_marks_ranks() -> None:
    text = markdown(["Method", "Test"], [[Cell("A"), Cell("1", 1)], [Cell("B"), Cell("2", 2)]])
    assert text.splitlines() == ["| Method | Test |", "| --- | ---: |", "| A | **1** |", "| B | *2* |"]


def test_mean_curve_goes_as_far_as_every_seed() -> None:
    first = [{"seconds": 1.0, "val": 0.1}, {"seconds": 2.0, "val": 0.2}, {"seconds": 3.0, "val": 0.3}]
    second = [{"seconds": 3.0, "val": 0.3}, {"seconds": 4.0, "val": 0.4}]
    x, y = mean_curve([first, second], "seconds")
    np.testing.assert_allclose(x, [2.0, 3.0])
    np.testing.assert_allclose(y, [[0.1, 0.2], [0.3, 0.4]])
    assert len(mean_curve([], "seconds")[0]) == 0
