"""The verdict on a comparison: by records that are made up, so that what must be said is known."""

from __future__ import annotations

from typing import Any

import pytest

from handful.studies.verdict import few_seeds, verdict

GIB = 2**30


def row(
    sampler: str, mean: float, ci95: float | None = 0.002, seconds: float = 10.0, ram: float = 1.0, **more: Any
) -> dict[str, Any]:
    memory = {"ram": int(ram * GIB), "gpu": None} | more
    test = {"mean": mean, "ci95": ci95}
    return {"sampler": sampler, "test": test, "seconds": {"mean": seconds}, "peak_memory_bytes": memory}


def say(*rows: dict[str, Any], seeds: int = 5, metric: str = "accuracy") -> str:
    return verdict({"metric": metric, "rows": list(rows)}, seeds)


def test_a_clear_winner_at_the_same_cost() -> None:
    assert say(row("rns", 0.750, ram=0.83), row("saint", 0.776, seconds=10.5, ram=0.96)) == (
        "Use GraphSAINT: 2.60 points better than RNS, the next best, at the same cost; "
        "RNS needs the least memory (0.83 GiB against 0.96)."
    )


def test_what_a_winner_costs_is_told() -> None:
    said = say(row("full", 0.71), row("rns", 0.75), row("neighbor", 0.80, seconds=26.0))
    assert said.startswith("Use Neighbour sampling: 5.00 points better than RNS, the next best, at 2.6 times its time;")
    assert said.endswith("all need about the same memory.")


def test_where_intervals_overlap_the_fastest_is_the_one_to_use() -> None:
    rows = row("rns", 0.778, 0.004, seconds=8.0), row("saint", 0.780, 0.003, seconds=12.0), row("full", 0.70)
    assert say(*rows) == (
        "Use RNS: at 77.80 ± 0.40 % it cannot be told from GraphSAINT (78.00 ± 0.30 %) by 5 seeds, "
        "and it is the fastest; all need about the same memory."
    )
    said = say(row("rns", 0.78, 0.01, seconds=10.0), row("saint", 0.785, 0.01, 10.3), row("cluster", 0.784, 0.01, 11))
    assert "Use RNS" in said
    assert "GraphSAINT (78.50 ± 1.00 %) and ClusterGCN (78.40 ± 1.00 %)" in said
    assert "in about the same time as the fastest of them" in said


@pytest.mark.parametrize(("seeds", "words"), [(1, "one seed is too few"), (2, "two seeds are too few")])
def test_few_seeds_give_no_verdict(seeds: int, words: str) -> None:
    said = say(row("rns", 0.60, None), row("full", 0.75, 0.4 if seeds == 2 else None), seeds=seeds)
    assert said.startswith("Full graph is ahead: 15.00 points better than RNS")
    assert words in said
    assert "Use" not in said


def test_an_end_that_is_not_known_is_no_interval() -> None:
    assert say(row("rns", 0.60, float("nan")), row("full", 0.75, None)).startswith("Use Full graph: 15.00 points")


def test_memory_is_the_gpus_where_one_was_used() -> None:
    said = say(row("rns", 0.7, ram=9, gpu=GIB), row("full", 0.8, ram=1, gpu=4 * GIB))
    assert said.endswith("RNS needs the least memory (1.00 GiB against 4.00).")
    assert say(row("rns", 0.8, ram=1), row("full", 0.7, ram=2)).endswith("none needs clearly less memory.")


def test_what_failed_is_not_compared() -> None:
    failed = {"sampler": "cluster", "error": "no memory"}
    assert say(failed, row("rns", 0.7)) == "There are not two methods to compare."
    assert say(failed, row("rns", 0.7), row("full", 0.6)).startswith("Use RNS")


def test_two_seeds_are_explained() -> None:
    assert "three seeds or more" in few_seeds(2)
    assert few_seeds(1) == few_seeds(3) == ""


def test_an_error_is_told_in_its_own_unit_and_the_smaller_one_wins() -> None:
    said = say(row("rns", 5.0, 0.1), row("full", 7.0, 0.1), metric="mae")
    assert said.startswith("Use RNS: 2 of MAE better than Full graph, the next best, at the same cost")
    tied = say(row("rns", 5.0, 2.0), row("full", 7.0, 1.0, seconds=1.0), metric="mae")
    assert "at 7 ± 1 it cannot be told from RNS (5 ± 2) by 5 seeds" in tied
