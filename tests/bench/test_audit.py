from __future__ import annotations

import pytest
import torch

from handful import GAT, GCN, SAGE
from handful.bench.audit import PRODUCTS, Shape, audit_step
from handful.nn.activation import NORMS

pytest.importorskip("triton")
SHAPE = Shape(nodes=5_000, edges=200_000, features=32, classes=7, targets=400)
WIDTH = 64


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("model", [SAGE, GCN, GAT])
def test_a_step_on_a_gpu_makes_no_large_tensor_and_never_waits(model: type, norm: str, directed: bool) -> None:
    """Waiting for the device would fail on tensors without numbers."""
    audit = audit_step(
        model(SHAPE.features, SHAPE.classes, hidden=WIDTH, layers=3, norm=norm), SHAPE, directed=directed
    )
    rows = SHAPE.nodes * WIDTH
    assert max(audit.tensors.values()) <= 2 * rows
    assert audit.tensors[torch.int64] < rows  # a few numbers for every node or edge, none for every activation
    assert audit.tensors.get(torch.float64, 0) < rows
    assert max(audit.tensors.values()) < SHAPE.edges * WIDTH


@pytest.mark.parametrize("way", ["triton", "torch"])
def test_plain_torch_is_cheap_too(way: str) -> None:
    audit = audit_step(SAGE(SHAPE.features, SHAPE.classes, hidden=WIDTH, layers=3), SHAPE, way=way)  # type: ignore[arg-type]
    assert audit.tensors[torch.int64] <= SHAPE.edges


def test_the_peak_counts_what_is_alive_at_once() -> None:
    """Without norm, what a layer keeps for its backward pass is its output alone."""
    peaks = [audit_step(SAGE(32, 7, hidden=WIDTH, layers=n, norm="none"), SHAPE).peak for n in (4, 8, 12)]
    assert peaks[2] - peaks[1] == pytest.approx(peaks[1] - peaks[0], rel=0.05)
    assert (peaks[1] - peaks[0]) / 4 == pytest.approx(SHAPE.nodes * WIDTH * 4, rel=0.05)


def test_a_part_has_its_share_of_nodes_and_the_share_squared_of_edges() -> None:
    assert PRODUCTS.of_parts(10).nodes == PRODUCTS.nodes // 10
    assert PRODUCTS.of_parts(10).edges == PRODUCTS.edges // 100
