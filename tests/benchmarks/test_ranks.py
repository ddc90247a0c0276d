from __future__ import annotations

import pytest

from handful import Experiment, RandomNodes, ranks
from handful.kernels.threads import get_threads, set_threads
from scripts import script

bench = script("ranks")
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
        found = bench.measure(SMALL, rounds=1)
    finally:
        set_threads(before)
    for work in bench.WORK:
        for way in ("alone", "together"):
            assert found[work][way]["seconds"] > 0
            assert found[work][way]["cpu"] > 0


def test_while_one_works_alone_there_are_no_others() -> None:
    seen: list[tuple[int, int]] = []
    seconds, cpu = bench.timed(lambda: seen.append((ranks.rank(), ranks.size())), alone=True)
    assert seen == [(0, 1)]
    assert seconds > 0
    assert cpu >= 0


@pytest.mark.slow
def test_two_ranks_against_one() -> None:
    result = bench.bench_ranks(SMALL, processes=2, rounds=1)
    assert (result["graph"], result["processes"], result["parts"], result["parts_per_step"]) == ("synthetic", 2, 4, 2)
    for work in bench.WORK:
        ways = result[work]
        assert ways["ratio"]["seconds"] == ways["alone"]["seconds"] / ways["together"]["seconds"]
