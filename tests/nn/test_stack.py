"""Stacks: layers in order on a batch's adjacencies, and the same by chunks."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import handful as hf
from graphs import make_graph
from handful.adjacency import Adjacency
from handful.nn.stack import Stack
from small import dense_mean, full_batch


class Sums(Stack):
    """h → Wᵢ (own + mean), so that every layer can be told from the others."""

    def __init__(self, features: int, layers: int) -> None:
        super().__init__(features, features, layers=layers)
        self.scales = nn.ModuleList(nn.Linear(features, features) for _ in range(layers))

    trimmable = True

    def blocks(self) -> list[list[nn.Module]]:
        return [[scale] for scale in self.scales]

    def embed(self, x: Tensor) -> Tensor:
        return x + 1

    def layer(self, i: int, adj: Adjacency, h: Tensor) -> Tensor:
        return self.scales[i](adj.own(h) + adj.mean(h))

    def head(self, h: Tensor) -> Tensor:
        return 2 * h


def by_hand(model: Sums, graph: hf.Graph) -> Tensor:
    h, mean = graph.x + 1, dense_mean(graph)
    for scale in model.scales:
        h = scale(h + mean @ h)
    return 2 * h


@pytest.mark.parametrize("layers", [1, 3])
def test_embed_layers_head(layers: int) -> None:
    graph = make_graph(40, undirected=False)
    model = Sums(graph.num_features, layers)
    assert model.depth == layers
    expected = by_hand(model, graph)
    torch.testing.assert_close(model(full_batch(graph)), expected, rtol=1e-4, atol=1e-4)
    for chunk in (1, 13, 1000):
        torch.testing.assert_close(hf.infer(model, graph, chunk), expected.detach(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("hops", [1, 2, 3, 4])
def test_a_stack_of_rectangles_gives_the_targets_alone(hops: int) -> None:
    """With all neighbours of as many hops as there are layers, or more, that is exact."""
    graph = make_graph(40)
    model = Sums(graph.num_features, 2)
    exact = by_hand(model, graph)
    for batch in hf.Neighbors((-1,) * hops, 10, trimmed=True).epoch(graph, 0, 0):
        out = model(batch)
        assert len(out) == len(batch.targets)
        same = torch.allclose(out, exact[batch.nodes[batch.targets]], rtol=1e-4, atol=1e-4)
        assert same == (hops >= 2)
