"""Any model is called in one way, and all that a step draws comes from its seed."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import GraphSAGE

import handful as hf
from graphs import make_graph
from handful.batch import Batch
from handful.training.module import logits_of, seed_step, takes_batch
from small import full_batch, small_sage


class OnBatches(nn.Module):
    """A module of one's own that wants to see the batch."""

    takes_batch = True

    def forward(self, batch: Batch) -> Tensor:
        return batch.x * batch.num_nodes


def test_who_takes_a_batch(graph: hf.Graph) -> None:
    assert takes_batch(small_sage(graph))
    assert takes_batch(OnBatches())
    assert not takes_batch(GraphSAGE(4, 4, 1, 4))
    batch = full_batch(graph)
    assert torch.equal(logits_of(OnBatches(), batch), batch.x * graph.num_nodes)


@pytest.mark.parametrize("sampler", [hf.RandomNodes(2), hf.Neighbors((3, 2), 20)])
def test_a_pyg_module_sees_features_and_edges_of_all_that_was_sampled(sampler: hf.Sampler) -> None:
    graph = make_graph(60)
    graph = graph.replace(x=graph.x.to(torch.float16))
    model = GraphSAGE(graph.num_features, 8, 2, 4).eval()
    for batch in sampler.epoch(graph, 0, 0):
        edges = torch.cat([layer.edge_index for layer in batch.layers], 1).unique(dim=1)
        expected = model(graph.x[batch.nodes].float(), edges)
        torch.testing.assert_close(logits_of(model, batch), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["handful", "pyg"])
def test_the_seed_draws_the_dropout(graph: hf.Graph, kind: str) -> None:
    model = small_sage(graph) if kind == "handful" else GraphSAGE(graph.num_features, 8, 2, 4, dropout=0.5)
    batch, found = full_batch(graph), []
    for seed in (3, 3, 4):
        seed_step(model, seed)
        found.append(logits_of(model, batch))
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])
    assert hasattr(model, "step_seed") == (kind == "handful")
