"""GraphLand's GraphSAGE against its definition, written with nn.Sequential and a dense mean."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import handful as hf
from graphs import make_graph
from handful.nn import GraphLandSAGE
from handful.random import derive_seed
from handful.training.loop import batch_loss
from small import dense_mean, full_batch


class Plain(nn.Module):
    """The definition, dropout off."""

    def __init__(self, features: int, classes: int, d: int, layers: int) -> None:
        super().__init__()
        self.input = nn.Sequential(nn.Linear(features, d), nn.GELU(), nn.Linear(d, d))
        self.norms = nn.ModuleList(nn.LayerNorm(d) for _ in range(layers))
        self.mlps = nn.ModuleList(nn.Sequential(nn.Linear(2 * d, d), nn.GELU(), nn.Linear(d, d)) for _ in range(layers))
        self.output = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, d), nn.GELU(), nn.Linear(d, classes))

    def forward(self, graph: hf.Graph) -> Tensor:
        h, mean = self.input(graph.x), dense_mean(graph)
        for norm, mlp in zip(self.norms, self.mlps, strict=True):
            z = norm(h)
            h = h + mlp(torch.cat([z, mean @ z], 1))
        return self.output(h)


def twin(model: GraphLandSAGE, plain: Plain) -> None:
    """Give ``model`` the weights of ``plain``, which are made in the same order."""
    ours, theirs = list(model.parameters()), list(plain.parameters())
    assert [p.shape for p in ours] == [p.shape for p in theirs]
    for mine, other in zip(ours, theirs, strict=True):
        mine.data = other.data.clone()


@pytest.mark.parametrize("undirected", [True, False])
def test_equals_its_definition_and_so_do_its_gradients(undirected: bool) -> None:
    graph = make_graph(70, undirected=undirected)
    torch.manual_seed(1)
    plain = Plain(graph.num_features, graph.num_classes, 12, 3)
    model = GraphLandSAGE(graph.num_features, graph.num_classes, hidden=12, dropout=0.0)
    twin(model, plain)
    ours, theirs = model(full_batch(graph)), plain(graph)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    weight = torch.randn_like(ours)
    (ours * weight).sum().backward()
    (theirs * weight).sum().backward()
    for mine, other in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, other.grad, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("chunk", [1, 17, 1000])
def test_inference_in_chunks_is_exact(chunk: int) -> None:
    graph = make_graph(60, undirected=False)
    model = GraphLandSAGE(graph.num_features, graph.num_classes, hidden=8).eval()
    torch.testing.assert_close(hf.infer(model, graph, chunk), model(full_batch(graph)).detach(), rtol=1e-4, atol=1e-5)


def test_it_drops_in_the_embedding_and_twice_a_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = make_graph(60)
    model = GraphLandSAGE(graph.num_features, graph.num_classes, hidden=8, layers=2, dropout=0.3)
    model.step_seed = 5
    seeds: list[int] = []

    def record(x: Tensor, p: float, training: bool, seed: int) -> Tensor:
        assert (p, training) == (0.3, True)
        seeds.append(seed)
        return x

    monkeypatch.setattr("handful.nn.graphland.drop", record)
    model(full_batch(graph))
    assert seeds == [derive_seed(5, *where) for where in ((0, 0), (1, 0), (1, 1), (2, 0), (2, 1))]


def test_it_trains_on_subgraphs_and_on_sampled_neighbourhoods(graph: hf.Graph) -> None:
    for sampler in (hf.RandomNodes(2), hf.make_sampler("neighbor", fanout=(5, 5, 5), batch_size=64)):
        torch.manual_seed(0)
        model = hf.make_model("graphland-sage", graph.num_features, graph.num_outputs, hidden=16)
        assert hf.fit(model, graph, sampler, epochs=20, lr=1e-2).test > 0.8


def test_bf16_is_close_to_fp32() -> None:
    graph = make_graph(60)
    torch.manual_seed(0)
    model = GraphLandSAGE(graph.num_features, graph.num_classes, hidden=16, dropout=0.0)
    wide, narrow = (batch_loss(model, full_batch(graph), precision) for precision in ("fp32", "bf16"))
    assert wide != narrow
    torch.testing.assert_close(wide, narrow, rtol=0.03, atol=0.03)
    narrow.backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
