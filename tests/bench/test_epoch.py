from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from graphs import make_graph
from handful import Experiment, RandomNodes
from handful.bench import epoch as bench
from handful.bench.epoch import (
    PIECES,
    bench_epoch,
    epoch_table,
    floor_epochs,
    floor_of,
    handful_epochs,
    profile,
)
from handful.bench.pyg import pyg_epoch
from handful.training import optim
from handful.vocabulary import BENCHED

pytest.importorskip("torch_geometric")

SMALL = Experiment(
    "synthetic?nodes=200&degree=6&features=8&classes=3", hidden=8, layers=3, sampler=RandomNodes(2), seeds=(0,)
)
CPU = torch.device("cpu")


@pytest.mark.slow
def test_every_way_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    # The profiler takes seconds to start, and torch compiles products in bfloat16 for as long.
    monkeypatch.setattr(bench, "profile", lambda epoch: dict.fromkeys((*PIECES, "other"), 0.2))
    monkeypatch.setattr(bench, "native_bfloat16", lambda: False)
    said: list[str] = []
    result = bench_epoch(SMALL, rounds=1, say=said.append)
    assert (result["nodes"], result["parts"], result["rounds"]) == (200, 2, 1)
    ways = [name for name in BENCHED if name != "floor_bf16"]
    assert list(result["seconds"]) == ways
    assert all(seconds > 0 for seconds in result["seconds"].values())
    ratio = result["seconds"]["pyg_csr"] / result["seconds"]["handful_fp32"]
    assert result["ratio"]["pyg_csr_over_handful_fp32"] == ratio  # there was one round
    assert len(said) == 2 * len(ways)
    table = epoch_table(result)
    assert [row[0].text for row in table.rows] == [BENCHED[name] for name in ways]
    assert {len(row) for row in table.rows} == {len(table.head)}
    floor = next(row for row in table.rows if row[0].text == "floor fp32")
    assert floor[2].text == "1.00"


@pytest.mark.slow
def test_the_ways_train_the_same_model() -> None:
    """As many trained numbers in as many steps."""
    graph = make_graph()
    ours = SMALL.make_model(graph, 0)
    seen: list[int] = []

    def count(step: Callable[[torch.optim.Adam], object]) -> Callable[[torch.optim.Adam], object]:
        def counted(self: torch.optim.Adam) -> object:
            seen.append(sum(p.numel() for group in self.param_groups for p in group["params"]))
            return step(self)

        return counted

    with pytest.MonkeyPatch.context() as patch:
        for kind in (torch.optim.Adam, optim._without_compile_guards(torch.optim.Adam)):
            patch.setattr(kind, "step", count(kind.step))
        ways = [pyg_epoch(SMALL, graph), pyg_epoch(SMALL, graph, csr=True), *handful_epochs(SMALL, graph).values()]
        for epoch in ways:
            epoch()
    assert set(seen) == {sum(p.numel() for p in ours.parameters())}
    assert len(seen) == 2 * len(ways)


@pytest.mark.slow
def test_the_floor_is_products_and_nothing_else() -> None:
    shares = profile(floor_epochs([8, 64, 4], [4000, 4000], 1, CPU)["floor_fp32"])
    assert list(shares) == [*PIECES, "other"]
    assert all(0 <= share <= 1 for share in shares.values())
    assert shares["products"] > 0
    assert shares["aggregation"] == shares["optimiser"] == 0


def test_a_way_stands_on_the_floor_of_its_precision_where_there_is_one() -> None:
    assert floor_of("handful_bf16", dict.fromkeys(BENCHED)) == "floor_bf16"
    assert floor_of("handful_bf16", {"floor_fp32": 1.0}) == "floor_fp32"
    assert floor_of("pyg_csr", dict.fromkeys(BENCHED)) == "floor_fp32"


def test_the_table_of_a_gpu_has_its_memory() -> None:
    seconds = {name: float(i + 1) for i, name in enumerate(BENCHED)}
    told: dict[str, Any] = {
        "graph": "made-up", "nodes": 10, "edges": 20, "parts": 2, "rounds": 3, "threads": 2, "device": "a GPU",
        "seconds": seconds, "peak_bytes": dict.fromkeys(BENCHED, 2**30), "pieces": {},
    }  # fmt: skip
    table = epoch_table(told)
    assert {len(row) for row in table.rows} == {len(table.head)}
    ours = table.rows[list(BENCHED).index("handful_fp32")]
    over = 3 / (1 + list(BENCHED).index("floor_fp32"))
    assert [cell.text for cell in ours[1:]] == ["3.0000", f"{over:.2f}", "0.67", "1.00"]
