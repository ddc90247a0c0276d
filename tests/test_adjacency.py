from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from handful.adjacency import Adjacency
from handful.graph import Graph
from handful.kernels.csr import coo_to_csr, reverses
from handful.samplers.full import full_adjacency

KINDS = ("rectangular", "directed", "symmetric", "looped", "empty")


def make(kind: str, weighted: bool = False, dtype: torch.dtype = torch.float64) -> Adjacency:
    rng = np.random.default_rng(KINDS.index(kind))
    targets, sources, edges = {"rectangular": (3, 6, 9), "empty": (2, 4, 0)}.get(kind, (5, 5, 8))
    i, j = rng.integers(0, targets, edges), rng.integers(0, sources, edges)
    w = 0.5 + (i + 1) * (j + 1) / 7  # The same for an edge and its reverse.
    if kind == "looped":
        i, j, w = np.append(i, [1, 3]), np.append(j, [1, 3]), np.append(w, [2.0, 3.0])
    elif kind != "rectangular":
        keep = i != j
        i, j, w = i[keep], j[keep], w[keep]
    if kind == "symmetric":
        i, j, w = np.append(i, j), np.append(j, i), np.append(w, w)
    assert len(i) or kind == "empty"
    indptr, indices, order = coo_to_csr(i, j, targets, sources, with_order=True)
    weight = torch.from_numpy(w[order]).to(dtype) if weighted else None
    symmetric = kind == "symmetric"
    if symmetric:
        reverse = reverses(indptr, indices, with_order=True)
        assert reverse is not None
        assert np.array_equal(w[order], w[order][reverse])
    loops = kind in ("looped", "rectangular")
    return Adjacency(torch.from_numpy(indptr), torch.from_numpy(indices), sources, weight, symmetric, loops)


def dense(adj: Adjacency) -> Tensor:
    out = torch.zeros(adj.num_targets, adj.num_sources, dtype=torch.float64)
    values = torch.ones(adj.num_edges) if adj.weight is None else adj.weight
    sources, targets = adj.edge_index
    return out.index_put_((targets, sources), values.double(), accumulate=True)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("scaled", [False, True])
def test_matmul_and_its_gradients(kind: str, weighted: bool, scaled: bool) -> None:
    adj = make(kind, weighted)
    rng = np.random.default_rng(9)
    x = torch.from_numpy(rng.normal(size=(adj.num_sources, 2))).requires_grad_()
    left = torch.from_numpy(rng.normal(size=adj.num_targets)) if scaled else None
    right = torch.from_numpy(rng.normal(size=adj.num_sources)) if scaled else None
    matrix = dense(adj)
    if left is not None and right is not None:
        matrix = left[:, None] * matrix * right
    torch.testing.assert_close(adj.matmul(x, left, right), matrix @ x)
    assert torch.autograd.gradcheck(lambda v: adj.matmul(v, left, right), x)
    # The product is linear, so its second derivative is seen only through something that is not.
    assert torch.autograd.gradgradcheck(lambda v: adj.matmul(v**2, left, right) ** 2, x)


@pytest.mark.parametrize("kind", KINDS)
def test_transposed(kind: str) -> None:
    adj = make(kind, weighted=True)
    indptr, indices, weight = adj.transposed
    back = Adjacency(indptr, indices, adj.num_targets, weight)
    assert torch.equal(dense(back), dense(adj).T)


def test_wrong_number_of_rows_is_refused() -> None:
    adj = make("rectangular")
    with pytest.raises(ValueError, match="x has 5 rows for 6 sources"):
        adj.matmul(torch.ones(5, 1))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("weighted", [False, True])
def test_the_mean_divides_by_the_sum_of_the_weights(kind: str, weighted: bool) -> None:
    adj = make(kind, weighted)
    x = torch.randn(adj.num_sources, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    a = dense(adj)
    total = torch.where(a.sum(1) > 0, a.sum(1), 1)
    torch.testing.assert_close(adj.mean(x), a @ x / total[:, None], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("weighted", [False, True])
def test_the_mean_with_loops_and_its_gradient_are_the_dense_ones(kind: str, weighted: bool) -> None:
    adj = make(kind, weighted)
    x = torch.randn(adj.num_sources, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    a = dense(adj)
    loops = torch.arange(adj.num_targets)
    a[loops, loops] += (a[loops, loops] == 0).double()
    matrix = a / a.sum(1, keepdim=True)
    # Scales are float32: the division and its sum of at most 4 weights round to 5·2⁻²⁴ of each term.
    close = {"rtol": 0.0, "atol": 5 * 2**-24 * float((matrix @ x.abs()).max())}
    mine, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    out, expected = adj.mean_with_loops(mine), matrix @ theirs
    torch.testing.assert_close(out, expected, **close)
    slope = torch.arange(out.numel(), dtype=torch.float64).view_as(out) / out.numel()
    (grad,) = torch.autograd.grad(out, mine, slope)
    (expected_grad,) = torch.autograd.grad(expected, theirs, slope)
    torch.testing.assert_close(grad, expected_grad, rtol=0.0, atol=5 * 2**-24 * float(matrix.sum(0).max()))
    if adj.num_targets == adj.num_sources:  # by chunks, as exact inference goes
        chunks = torch.cat([adj.rows(0, 2).mean_with_loops(x), adj.rows(2, 5).mean_with_loops(x)])
        torch.testing.assert_close(chunks, expected, **close)


def test_the_mean_of_weights_that_sum_to_0_is_0() -> None:
    adj = Adjacency(torch.tensor([0, 2, 3]), torch.tensor([0, 1, 0]), 2, weight=torch.tensor([0.0, 0.0, 5.0]))
    assert adj.mean(torch.tensor([[1.0], [3.0]])).tolist() == [[0.0], [1.0]]


def test_normalized_weights_are_the_mean() -> None:
    base = make("rectangular", weighted=True)
    adj = Adjacency(base.indptr, base.indices, base.num_sources, base.weight, normalized=True)
    x = torch.ones(6, 1, dtype=torch.float64)
    torch.testing.assert_close(adj.mean(x), dense(base) @ x)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["directed", "symmetric", "looped"])
def test_gcn_scale_is_pygs(kind: str, weighted: bool) -> None:
    adj = make(kind, weighted, torch.float32)
    if kind == "looped":  # PyG merges repeated loops into one; neither graph here has any.
        loops = adj.edge_index[:, adj.edge_index[0] == adj.edge_index[1]]
        assert len(loops[0].unique()) == loops.shape[1]
    edges, norm = gcn_norm(adj.edge_index, adj.weight, adj.num_sources)
    expected = torch.zeros(5, 5).index_put_((edges[1], edges[0]), norm, accumulate=True)
    scale = adj.gcn_scale
    ours = scale[:, None] * (dense(adj).float() + torch.diag(adj.loop)) * scale
    torch.testing.assert_close(ours, expected)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["directed", "symmetric", "looped"])
def test_gcn_is_pygs_and_its_rows_are_its_chunks(kind: str, weighted: bool) -> None:
    adj = make(kind, weighted, torch.float32)
    x = torch.randn(5, 3, generator=torch.Generator().manual_seed(2))
    edges, norm = gcn_norm(adj.edge_index, adj.weight, 5)
    expected = torch.zeros(5, 5).index_put_((edges[1], edges[0]), norm, accumulate=True) @ x
    torch.testing.assert_close(adj.gcn(x), expected)
    torch.testing.assert_close(torch.cat([adj.rows(0, 2).gcn(x), adj.rows(2, 5).gcn(x)]), expected)
    torch.testing.assert_close(adj.rows(1, 5).rows(1, 3).gcn(x), expected[2:4])


def test_gcn_scale_of_a_rectangle() -> None:
    adj = make("rectangular")
    degree = torch.arange(6.0)
    told = Adjacency(adj.indptr, adj.indices, 6, has_loops=False, source_degree=degree)
    torch.testing.assert_close(told.gcn_scale[1:], degree[1:].rsqrt())
    assert told.gcn_scale[0] == 0
    with pytest.raises(ValueError, match="give it source_degree"):
        _ = adj.gcn_scale


def test_loop_marks_who_lacks_one() -> None:
    adj = make("looped")
    expected = [0.0 if dense(adj)[v, v] else 1.0 for v in range(5)]
    assert adj.loop.tolist() == expected
    assert 0.0 in expected
    assert adj.rows(1, 4).loop.tolist() == expected[1:4]
    assert make("directed").loop.tolist() == [1.0] * 5


@pytest.mark.parametrize("kind", KINDS)
def test_square_and_rows(kind: str) -> None:
    adj = make(kind, weighted=True)
    square = adj.square()
    assert square.num_targets == adj.num_sources
    assert torch.equal(dense(square)[: adj.num_targets], dense(adj))
    assert not dense(square)[adj.num_targets :].any()
    x = torch.randn(adj.num_sources, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    x.requires_grad_()
    for lo in range(square.num_targets):
        for hi in range(lo, square.num_targets + 1):
            part = square.rows(lo, hi)
            assert torch.equal(dense(part), dense(square)[lo:hi])
            assert torch.equal(part.own(x), x[lo:hi])
    chunks = torch.cat([square.rows(v, v + 1).matmul(x) for v in range(square.num_targets)])
    torch.testing.assert_close(chunks, square.matmul(x))
    torch.testing.assert_close(
        torch.autograd.grad(chunks.square().sum(), x), torch.autograd.grad(square.matmul(x).square().sum(), x)
    )


def test_full_adjacency_of_a_graph() -> None:
    graph = Graph.from_edge_index(np.array([[0, 1, 1], [1, 0, 1]]), 3, edge_weight=np.array([1.0, 1.0, 2.0]))
    adj = full_adjacency(graph)
    assert adj.symmetric
    assert adj.has_loops
    assert dense(adj).tolist() == [[0, 1, 0], [1, 2, 0], [0, 0, 0]]
    assert torch.equal(adj.edge_index, graph.edge_index)
    assert adj.to("cpu") is adj


def test_a_mean_added_to_something_has_both_gradients() -> None:
    adj = make("rectangular")
    gen = torch.Generator().manual_seed(0)
    x = torch.randn(adj.num_sources, 3, dtype=torch.float64, generator=gen, requires_grad=True)
    base = torch.randn(adj.num_targets, 3, dtype=torch.float64, generator=gen, requires_grad=True)
    torch.testing.assert_close(adj.mean(x, base=base), base + adj.mean(x))
    assert torch.autograd.gradcheck(lambda x, base: adj.mean(x, base=base), (x, base))
    assert torch.autograd.gradgradcheck(lambda x, base: adj.mean(x, base=base).square(), (x, base))
    with pytest.raises(ValueError, match="base must be"):
        adj.mean(x, base=base[1:])
