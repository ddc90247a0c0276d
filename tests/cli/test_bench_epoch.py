from __future__ import annotations

import pytest
import torch

from graphs import make_graph
from handful.cli.bench_epoch import LABELS, PIECES, floor_epochs, handful_epochs, measure, profile, pyg_epochs
from handful.nn import make_model

pytest.importorskip("torch_geometric")


def test_every_way_is_measured() -> None:
    said: list[str] = []
    result = measure(make_graph(), parts=2, hidden=8, layers=2, rounds=1, seed=0, say=said.append)
    assert list(result["seconds"]) == list(LABELS)
    assert all(seconds > 0 for seconds in result["seconds"].values())
    ratio = result["seconds"]["pyg_csr"] / result["seconds"]["handful_fp32"]
    assert result["ratio"]["pyg_csr_over_handful_fp32"] == ratio
    for pieces in result["pieces"].values():
        assert list(pieces) == [*PIECES, "other"]
        assert sum(pieces.values()) == pytest.approx(1, abs=0.3)
    assert any("PyG" in text for text in said)


def test_the_ways_train_the_same_model() -> None:
    """As many trained numbers, and a loss that falls."""
    graph = make_graph()
    ours = make_model("sage", graph.num_features, graph.num_outputs, hidden=8, layers=3, residual=True)
    seen: list[int] = []
    step = torch.optim.Adam.step

    def count(self: torch.optim.Adam) -> object:
        seen.append(sum(p.numel() for group in self.param_groups for p in group["params"]))
        return step(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.optim.Adam, "step", count)
        for ways in (pyg_epochs(graph, 2, 8, 3, 0), handful_epochs(graph, 2, 8, 3, 0)):
            for epoch in ways.values():
                epoch()
    assert set(seen) == {sum(p.numel() for p in ours.parameters())}
    assert len(seen) == 4 * 2


def test_the_floor_is_products_and_nothing_else() -> None:
    shares = profile(floor_epochs(make_graph(n=4000), 1, 64, 2)["floor_fp32"])
    assert shares["products"] > 0.5
    assert shares["aggregation"] == shares["optimiser"] == 0
