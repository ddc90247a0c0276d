from __future__ import annotations

import pytest

from handful import Experiment, RandomNodes, ranks
from handful.bench.ranks import WORK, bench_ranks, measure, ranks_table, timed
from handful.kernels.threads import get_threads, set_threads

SMALL = Experiment(
    "synthetic?nodes=200&degree=6&features=8&classes=3",
    hidden=8,
    layers=2,
    sampler=RandomNodes(4),
    parts_per_step=2,
    seeds=(0,),
)


def test_both_ways_are_measured() -> None:
    before = get_threads()
    try:
        found = measure(SMALL, rounds=1)
    finally:
        set_threads(before)
    for work in WORK:
        for way in ("alone", "together"):
            assert found[work][way]["seconds"] > 0
            assert found[work][way]["cpu"] > 0


def test_while_one_works_alone_there_are_no_others() -> None:
    seen: list[tuple[int, int]] = []
    seconds, cpu = timed(lambda: seen.append((ranks.rank(), ranks.size())), alone=True)
    assert seen == [(0, 1)]
    assert seconds > 0
    assert cpu >= 0


@pytest.mark.slow
def test_two_ranks_against_one() -> None:
    result = bench_ranks(SMALL, processes=2, rounds=1)
    assert (result["graph"], result["processes"], result["parts"], result["parts_per_step"]) == ("synthetic", 2, 4, 2)
    for work in WORK:
        ways = result[work]
        assert ways["ratio"]["seconds"] == ways["alone"]["seconds"] / ways["together"]["seconds"]
    table = ranks_table(result)
    assert [row[0].text for row in table.rows] == list(WORK)
