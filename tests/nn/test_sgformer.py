"""SGFormer against its definition, written out densely: attention as an N × N matrix, the GCN as another."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import handful as hf
from graphs import make_graph
from handful.nn import SGFormer
from handful.nn.sgformer import Branch, GlobalAttention
from handful.training.loop import batch_loss
from small import dense_gcn, full_batch


def dense_attention(layer: GlobalAttention, h: Tensor) -> Tensor:
    """Row i is Σ_j (q̂_i · k̂_j) v_j + N v_i over Σ_j q̂_i · k̂_j + N, head by head."""
    n, d = h.shape
    q, k = layer.query(h), layer.key(h)
    q, k = q / torch.linalg.norm(q), k / torch.linalg.norm(k)
    out = torch.zeros_like(h)
    for head in range(layer.heads):
        columns = slice(head * d, (head + 1) * d)
        v = h if layer.value is None else layer.value(h)[:, columns]
        scores = q[:, columns] @ k[:, columns].T
        out += (scores @ v + n * v) / (scores.sum(1, keepdim=True) + n)
    return out / layer.heads


def reference(model: SGFormer, graph: hf.Graph, alpha: float, w: float, residual: bool) -> Tensor:
    """The definition, dropout off, BatchNorm by the batch."""

    def bn_or_ln(branch: Branch, i: int, h: Tensor) -> Tensor:
        norm = branch.acts[i].norm
        if isinstance(norm, torch.nn.BatchNorm1d):
            h = (h - h.mean(0)) / (h.var(0, unbiased=False) + norm.eps).sqrt() * norm.weight + norm.bias
        elif norm is not None:
            h = F.layer_norm(h, h.shape[1:], norm.weight, norm.bias)
        return h if branch is trans and i and not model.options["use_act"] else F.relu(h)

    trans, gnn = model.attention, model.graph
    t = bn_or_ln(trans, 0, trans.input(graph.x))
    for i, layer in enumerate(trans.layers):
        attended = dense_attention(layer, t)
        t = bn_or_ln(trans, i + 1, alpha * attended + (1 - alpha) * t if residual else attended)
    if gnn is None:
        return model.output(t)
    a = dense_gcn(graph)
    g = first = bn_or_ln(gnn, 0, gnn.input(graph.x))
    for i, conv in enumerate(gnn.layers):
        taken = torch.cat([a @ g, first], 1) if model.options["use_init"] else a @ g
        g = bn_or_ln(gnn, i + 1, taken @ conv.linear.weight.T + conv.linear.bias)
        g = g + first if residual else g
    return model.output(w * g + (1 - w) * t)


OPTIONS = [
    {},
    {"layers": 2, "heads": 3, "gnn_layers": 2},
    {"alpha": 0.3, "graph_weight": 0.8, "norm": "ln"},
    {"residual": False, "use_weight": False, "heads": 2},
    {"use_graph": False, "layers": 2},
    {"use_act": True, "layers": 2, "use_init": True},
]


@pytest.mark.parametrize("undirected", [True, False])
@pytest.mark.parametrize("options", OPTIONS)
def test_equals_its_definition_and_so_do_its_gradients(options: dict, undirected: bool) -> None:
    graph = make_graph(70, undirected=undirected).coalesce()
    torch.manual_seed(1)
    model = SGFormer(graph.num_features, graph.num_classes, hidden=12, dropout=0.0, **options)
    ours = model(full_batch(graph))
    named = {"alpha": 0.5, "graph_weight": 0.5, "residual": True} | options
    theirs = reference(model, graph, named["alpha"], named["graph_weight"], named["residual"])
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    weight = torch.randn_like(ours)
    parameters = list(model.parameters())
    ours_grad = torch.autograd.grad((ours * weight).sum(), parameters)
    theirs_grad = torch.autograd.grad((theirs * weight).sum(), parameters)
    for a, b in zip(ours_grad, theirs_grad, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=2e-4)


@pytest.mark.parametrize("chunk", [1, 17, 1000])
@pytest.mark.parametrize("options", OPTIONS)
def test_inference_in_chunks_is_exact(options: dict, chunk: int) -> None:
    graph = make_graph(60)
    model = SGFormer(graph.num_features, graph.num_classes, hidden=8, **options)
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm1d):
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2)
    direct = model.eval()(full_batch(graph)).detach()
    torch.testing.assert_close(hf.infer(model, graph, chunk), direct, rtol=1e-4, atol=1e-5)


def test_it_depends_on_the_number_of_nodes_in_the_batch() -> None:
    layer = GlobalAttention(6, 2, use_weight=True)
    h = torch.randn(20, 6)
    all_of_them, half = (layer.attend(some, layer.sums(some), len(some)) for some in (h, h[:10]))
    assert not torch.allclose(all_of_them[:10], half, atol=1e-4)


def test_it_trains_on_shared_subgraphs_and_refuses_rectangles(graph: hf.Graph) -> None:
    torch.manual_seed(0)
    model = hf.make_model("sgformer", graph.num_features, graph.num_outputs, hidden=16)
    assert hf.fit(model, graph, hf.RandomNodes(2), epochs=15, lr=1e-2).test > 0.8
    hf.fit(model, graph, hf.Neighbors((3, 3), 20), epochs=2)  # on all that was sampled, as PyG's loader gives it
    trimmed = hf.Neighbors((3, 3), 20, trimmed=True)
    with pytest.raises(hf.SamplerError, match="share one subgraph"):
        model(next(trimmed.epoch(graph, 0, 0)))
    with pytest.raises(hf.SamplerError, match="sgformer sees all nodes of a batch"):
        hf.fit(model, graph, trimmed)
    with pytest.raises(hf.SamplerError, match="sgformer sees all nodes of a batch"):
        hf.Experiment("debian", model="sgformer", sampler=trimmed)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"heads": 0}, "heads must lie in"),
        ({"alpha": 1.5}, r"alpha must lie in \[0, 1\]"),
        ({"graph_weight": -1.0}, r"graph_weight must lie in \[0, 1\]"),
        ({"gnn_layer": 2}, "did you mean gnn_layers"),
    ],
)
def test_a_wrong_option_is_named(options: dict, words: str) -> None:
    with pytest.raises(hf.HandfulError, match=words):
        hf.make_model("sgformer", 4, 3, **options)


def test_bf16_is_close_to_fp32() -> None:
    graph = make_graph(60)
    torch.manual_seed(0)
    model = SGFormer(graph.num_features, graph.num_classes, hidden=16, dropout=0.0)
    wide, narrow = (batch_loss(model, full_batch(graph), precision) for precision in ("fp32", "bf16"))
    assert wide != narrow
    torch.testing.assert_close(wide, narrow, rtol=0.03, atol=0.03)
    narrow.backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


def test_its_layers_begin_as_the_original_s() -> None:
    """Its convolutions are plain Linear layers, with torch's own initialisation and no ReLU after the attention."""
    torch.manual_seed(4)
    model = SGFormer(5, 3, hidden=64, gnn_layers=1)
    bound = 1 / 8  # Linear's: one over the root of its inputs
    weight = model.graph.layers[0].linear.weight
    assert weight.abs().max() <= bound
    assert weight.abs().max() > 0.95 * bound
    model.eval()
    h = torch.randn(50, 64)
    assert bool((model.attend(0, h, model.attention.layers[0].sums(h), 50) < 0).any())
