"""Choosing m: noise does not decide, memory does."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from handful.errors import HandfulError
from handful.studies.jobs import Job
from handful.studies.parts import Point, better, measured, recommend

NOISE = np.array([-0.004, 0.001, 0.003])


def curve(means: dict[int, float], memory: Callable[[int], int] = lambda m: 100 // m) -> Callable[[int], Point]:
    """A ``measure`` whose seeds all differ in the same way, and a little by m, as paired runs do."""

    def measure(m: int) -> Point:
        wobble = np.random.default_rng(m).normal(0, 1e-4, 3)
        return Point(m, tuple(means[m] + NOISE + wobble), 1.0, memory(m))

    return measure


def test_better_is_a_paired_one_sided_t_test() -> None:
    rng = np.random.default_rng(0)
    decided = []
    for _ in range(300):
        old = rng.normal(0.7, 0.02, 5)
        new = old + rng.normal(0.004, 0.005, 5)
        decided.append(better(new, old))
        assert decided[-1] == bool(stats.ttest_rel(new, old, alternative="greater").pvalue < 0.05)
    assert 0 < np.mean(decided) < 1


def test_the_same_is_not_better() -> None:
    assert not better([0.7, 0.7], [0.7, 0.7])
    assert better([0.71, 0.81], [0.70, 0.80])


def test_m_is_raised_until_nothing_is_won() -> None:
    means = {1: 0.60, 2: 0.70, 4: 0.75, 8: 0.75, 16: 0.74, 32: 0.9}
    chosen, points = recommend(curve(means))
    assert chosen == 4
    assert [p.m for p in points] == [1, 2, 4, 8, 16]  # 32 is never tried


def test_one_flat_step_does_not_end_the_search() -> None:
    means = {1: 0.60, 2: 0.70, 4: 0.70, 8: 0.75, 16: 0.74, 32: 0.74}
    assert recommend(curve(means))[0] == 8


def test_the_whole_graph_is_taken_where_it_is_better() -> None:
    means = {1: 0.72, 2: 0.70, 4: 0.68, 8: 0.66}
    chosen, points = recommend(curve(means))
    assert (chosen, [p.m for p in points]) == (1, [1, 2, 4, 8])


def test_most_is_the_last_that_is_tried() -> None:
    means = {1: 0.1, 2: 0.2, 4: 0.3, 8: 0.4}
    assert recommend(curve(means), most=4)[0] == 4


def test_what_does_not_fit_is_not_taken_and_one_part_is_not_tried_then() -> None:
    means = {1: 0.9, 2: 0.8, 4: 0.7, 8: 0.7, 16: 0.7}
    chosen, points = recommend(curve(means), memory=30)
    assert (chosen, [p.m for p in points]) == (4, [2, 4, 8, 16])
    assert recommend(curve(means), memory=60)[0] == 2  # one part takes 100
    assert recommend(curve(means), most=16, memory=1)[0] is None


def test_a_run_that_breaks_off_is_passed_over() -> None:
    fine = curve({4: 0.7, 8: 0.7, 16: 0.7})

    def measure(m: int) -> Point:
        return fine(m) if m > 2 else Point(m, (), float("nan"), 0, "stopped with exit code -9")

    chosen, points = recommend(measure)
    assert chosen == 4
    assert points[0].to_json() == {
        "m": 2,
        "val": None,
        "seconds": None,
        "peak_memory_bytes": None,
        "error": "stopped with exit code -9",
    }


def test_one_seed_cannot_tell(tmp_path: object) -> None:
    with pytest.raises(HandfulError, match="at least two seeds"):
        measured(Job("rns", "debian", "rns", settings={"epochs": 1}), tmp_path)  # type: ignore[arg-type]
