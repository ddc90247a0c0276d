from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from graphs import make_graph
from handful import Experiment, RandomNodes
from handful.bench.epoch import (
    LABELS,
    PIECES,
    bench_epoch,
    epoch_table,
    floor_epochs,
    handful_epochs,
    profile,
)
from handful.bench.pyg import pyg_epoch
from handful.training import optim

pytest.importorskip("torch_geometric")

SMALL = Experiment(
    "synthetic?nodes=200&degree=6&features=8&classes=3", hidden=8, layers=3, sampler=RandomNodes(2), seeds=(0,)
)


@pytest.mark.slow
def test_every_way_is_measured() -> None:
    said: list[str] = []
    result = bench_epoch(SMALL, rounds=1, say=said.append)
    assert (result["nodes"], result["parts"], result["rounds"]) == (200, 2, 1)
    assert list(result["seconds"]) == list(LABELS)
    assert all(seconds > 0 for seconds in result["seconds"].values())
    ratio = result["seconds"]["pyg_csr"] / result["seconds"]["handful_fp32"]
    assert result["ratio"]["pyg_csr_over_handful_fp32"] == ratio
    for pieces in result["pieces"].values():
        assert list(pieces) == [*PIECES, "other"]
        assert sum(pieces.values()) == pytest.approx(1, abs=0.3)
    assert any("PyG" in text for text in said)
    table = epoch_table(result)
    assert [row[0].text for row in table.rows] == list(LABELS.values())
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
        for kind in (torch.optim.Adam, optim._uncompiled(torch.optim.Adam)):
            patch.setattr(kind, "step", count(kind.step))
        for epoch in (pyg_epoch(SMALL, graph, 2), pyg_epoch(SMALL, graph, 2, csr=True)):
            assert epoch() == 1.0
        for epoch in handful_epochs(SMALL, graph, 0).values():
            epoch()
    assert set(seen) == {sum(p.numel() for p in ours.parameters())}
    assert len(seen) == 4 * 2


def test_the_floor_is_products_and_nothing_else() -> None:
    shares = profile(floor_epochs([8, 64, 4], 4000, 1)["floor_fp32"])
    assert shares["products"] > 0
    assert shares["aggregation"] == shares["optimiser"] == 0
