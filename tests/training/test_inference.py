"""Layer-wise inference in chunks equals a direct forward pass."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.nn import GraphSAGE

import handful as hf
from graphs import make_graph
from handful.nn.backbone import Backbone
from handful.training.execution import infer_sampled
from handful.training.inference import infer
from small import full_batch, small_sage


@pytest.mark.parametrize("chunk", [1, 7, 64, 10_000])
@pytest.mark.parametrize("cls", [hf.SAGE, hf.GCN, hf.GAT])
@pytest.mark.parametrize("kind", ["undirected", "directed", "weighted", "looped"])
def test_chunks_equal_a_direct_forward(cls: type[Backbone], kind: str, chunk: int) -> None:
    graph = make_graph(60, undirected=kind == "undirected", weighted=kind == "weighted")
    if kind == "looped":
        loops = torch.arange(0, 60, 2).repeat(2, 1)
        graph = hf.Graph.from_edge_index(
            torch.cat([graph.edge_index, loops], 1),
            x=graph.x, y=graph.y, train_mask=graph.train_mask, val_mask=graph.val_mask, test_mask=graph.test_mask,
        )  # fmt: skip
    model = cls(graph.num_features, graph.num_classes, hidden=8, layers=3, residual=True, output_projection=True)
    for act in model.acts:
        act.norm.running_mean.normal_()
        act.norm.running_var.uniform_(0.5, 2)
    model.eval()
    direct = model(full_batch(graph))
    model.train()
    torch.testing.assert_close(infer(model, graph, chunk), direct.detach(), rtol=1e-4, atol=1e-5)
    assert model.training


def test_a_pyg_module_is_run_on_the_whole_graph() -> None:
    graph = make_graph(60)
    model = GraphSAGE(graph.num_features, 8, 2, graph.num_classes, dropout=0.5).eval()
    expected = model(graph.x, graph.edge_index).detach()
    torch.testing.assert_close(infer(model.train(), graph), expected)


def test_it_keeps_no_gradients_and_gives_float32() -> None:
    graph = make_graph(60)
    logits = infer(small_sage(graph).double(), graph.replace(x=graph.x.half()))
    assert not logits.requires_grad
    assert logits.dtype == torch.float32


def test_sampled_outputs_are_those_of_the_targets_in_their_order() -> None:
    graph = make_graph(60)
    model, sampler = small_sage(graph), hf.Neighbors((-1, -1), 7)
    nodes = torch.tensor([3, 50, 11, 0])
    logits = infer_sampled(model, graph, sampler.evaluation(graph, nodes, 0))
    torch.testing.assert_close(logits, infer(model, graph)[nodes], rtol=1e-4, atol=1e-5)
    assert infer_sampled(model, graph, iter([])).shape == (0, graph.num_outputs)
    assert model.training
