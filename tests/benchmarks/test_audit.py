from __future__ import annotations

from collections import Counter
from typing import Any, get_args

import pytest
import torch

from graphs import make_graph
from handful import RandomNodes, Settings, make_model
from handful.kernels.dispatch import use
from handful.nn.backbone import Norm
from handful.training.execution import gather
from handful.training.fit import begin
from handful.training.loop import train_epoch
from scripts import script

pytest.importorskip("triton")
audit_step, counted_waits, PRODUCTS, Shape = (
    getattr(script("audit"), name) for name in ("audit_step", "counted_waits", "PRODUCTS", "Shape")
)
SHAPE = Shape(nodes=5_000, edges=200_000, features=32, classes=7, targets=400)
WIDTH = 64


BACKBONES = [(name, {"norm": norm}) for name in ("sage", "gcn", "gat") for norm in get_args(Norm)]
BACKBONES += [("sgformer", {}), ("graphland-sage", {})]
"""Every backbone with every norm that it takes."""


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize(("name", "options"), BACKBONES)
def test_a_step_on_a_gpu_makes_no_large_tensor_and_never_waits(
    name: str, options: dict[str, Any], directed: bool
) -> None:
    """Waiting for the device would fail on tensors without numbers."""
    model = make_model(name, SHAPE.features, SHAPE.classes, hidden=WIDTH, layers=3, **options)
    audit = audit_step(model, SHAPE, directed=directed)
    rows = SHAPE.nodes * WIDTH
    assert max(audit.tensors.values()) <= 2 * rows
    assert audit.tensors[torch.int64] < rows  # a few numbers for every node or edge, none for every activation
    assert audit.tensors.get(torch.float64, 0) < rows
    assert max(audit.tensors.values()) < SHAPE.edges * WIDTH


@pytest.mark.parametrize("way", ["triton", "torch"])
def test_plain_torch_is_cheap_too(way: str) -> None:
    model = make_model("sage", SHAPE.features, SHAPE.classes, hidden=WIDTH, layers=3)
    audit = audit_step(model, SHAPE, way=way)  # type: ignore[arg-type]
    assert audit.tensors[torch.int64] <= SHAPE.edges


def test_the_peak_counts_what_is_alive_at_once() -> None:
    """Without norm, what a layer keeps for its backward pass is its output alone."""
    peaks = [audit_step(make_model("sage", 32, 7, hidden=WIDTH, layers=n, norm="none"), SHAPE).peak for n in (4, 8, 12)]
    assert peaks[2] - peaks[1] == pytest.approx(peaks[1] - peaks[0], rel=0.05)
    assert (peaks[1] - peaks[0]) / 4 == pytest.approx(SHAPE.nodes * WIDTH * 4, rel=0.05)


def test_a_part_has_its_share_of_nodes_and_the_share_squared_of_edges() -> None:
    assert PRODUCTS.of_parts(10).nodes == PRODUCTS.nodes // 10
    assert PRODUCTS.of_parts(10).edges == PRODUCTS.edges // 100


PER_EPOCH = Counter({"cpu": 1, "tolist": 1})
"""When the host waits in an epoch of batches: for the training nodes, and for the sizes of all parts together. Beside
that it waits once in every part for what this is cut to."""


@pytest.mark.triton
@pytest.mark.parametrize(
    ("options", "trimmed", "more"),
    [
        ({}, False, Counter()),
        ({}, True, Counter({"tolist": 3})),
        ({"stratify": True, "drop_last": True}, True, Counter({"tolist": 3, "cpu": 1})),  # the classes, too
    ],
)
def test_an_epoch_of_batches_waits_for_a_gpu_a_few_times(
    options: dict[str, Any], trimmed: bool, more: Counter[str]
) -> None:
    graph = make_graph(14, degree=2, weighted=True)
    model, sampler = make_model("sage", 8, 4, hidden=8, layers=2, norm="ln"), RandomNodes(3, **options)
    list(sampler.sample(graph, 0, 0))  # what is found once for a graph is found here
    graph.train_nodes  # noqa: B018
    with use("triton"), counted_waits() as waits:
        batches = list(gather(graph, sampler.sample(graph, 0, 0), model, trimmed))
    assert len(batches) == 3
    assert waits == PER_EPOCH + more


@pytest.mark.triton
def test_an_epoch_of_training_waits_for_a_gpu_a_few_times() -> None:
    graph = make_graph(14, degree=2)
    graph.has_loops, graph.train_nodes  # noqa: B018
    loop = begin(make_model("sage", 8, 4, hidden=8, layers=2, norm="ln"), graph, RandomNodes(2), Settings())
    with use("triton"), counted_waits() as waits:
        train_epoch(loop)
    assert loop.steps == 2
    assert waits == PER_EPOCH + Counter({"tolist": 2, "_local_scalar_dense": 2})  # a step waits for its loss
