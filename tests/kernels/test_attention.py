from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from handful.adjacency import Adjacency
from handful.kernels import csr
from handful.kernels.attention import attention, attention_torch
from handful.kernels.threads import get_threads, set_threads
from rounding import attention_bounds, size


def rectangle(sources: int, targets: int, edges: int, seed: int = 0) -> Adjacency:
    """Random edges, some of them repeated and some of them self-loops."""
    gen = torch.Generator().manual_seed(seed)
    rows = torch.randint(max(targets, 1), (edges if targets else 0,), generator=gen)
    cols = torch.randint(max(sources, 1), (len(rows),), generator=gen)
    indptr, indices, _ = csr.coo_to_csr(rows.numpy(), cols.numpy(), targets, sources)
    return Adjacency(torch.from_numpy(indptr), torch.from_numpy(indices), sources)


def inputs(
    adj: Adjacency, heads: int, channels: int, dtype: torch.dtype = torch.float64, seed: int = 1
) -> tuple[Tensor, Tensor, Tensor]:
    gen = torch.Generator().manual_seed(seed)
    shapes = (adj.num_sources, heads, channels), (adj.num_sources, heads), (adj.num_targets, heads)
    x, a_src, a_dst = (torch.randn(s, generator=gen, dtype=torch.float64).to(dtype).requires_grad_() for s in shapes)
    return x, a_src, a_dst


def both(adj: Adjacency, tensors: tuple[Tensor, ...], first: int = 0) -> list[list[Tensor]]:
    """Output and gradients of the kernel and of its twin."""
    out = []
    for function in (attention, attention_torch):
        y = function(adj, *tensors, first)  # type: ignore[arg-type]
        seed = torch.randn(y.shape, generator=torch.Generator().manual_seed(7), dtype=torch.float64).to(y.dtype)
        out.append([y, *torch.autograd.grad(y, tensors, seed)])
    return out


def bounds(adj: Adjacency, tensors: tuple[Tensor, ...]) -> tuple[float, ...]:
    """What rounding explains of the difference of the two; a node is a source of its own too."""
    n = int(adj.indptr.diff().max()) + 1 if adj.num_targets else 1
    k = int(adj.indices.bincount(minlength=1).max()) + 1
    shape = adj.num_targets, *tensors[0].shape[1:]
    grad = torch.randn(shape, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    return attention_bounds(*tensors, grad, n, k)


@settings(max_examples=40)
@given(
    targets=st.integers(0, 12),
    extra=st.integers(0, 8),
    edges=st.integers(0, 60),
    heads=st.integers(1, 4),
    channels=st.integers(1, 20),
    seed=st.integers(0, 1000),
)
def test_equals_the_torch_twin(targets: int, extra: int, edges: int, heads: int, channels: int, seed: int) -> None:
    adj = rectangle(targets + extra, targets, edges, seed)
    tensors = inputs(adj, heads, channels, seed=seed)
    for mine, twin, bound in zip(*both(adj, tensors), bounds(adj, tensors), strict=True):
        assert size(mine - twin) <= bound


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_equals_the_torch_twin_on_many_rows(dtype: torch.dtype) -> None:
    adj = rectangle(3000, 2500, 40_000)
    tensors = inputs(adj, 2, 33, dtype)
    for mine, twin, bound in zip(*both(adj, tensors), bounds(adj, tensors), strict=True):
        assert mine.dtype == dtype
        assert size(mine.double() - twin.double()) <= bound


def test_gradcheck() -> None:
    adj = rectangle(7, 5, 20)
    tensors = inputs(adj, 2, 3)
    assert torch.autograd.gradcheck(lambda *t: attention(adj, *t), tensors)


def test_can_be_differentiated_twice() -> None:
    adj = rectangle(6, 4, 15)
    tensors = inputs(adj, 2, 2)
    assert torch.autograd.gradgradcheck(lambda *t: attention(adj, *t), tensors)


def test_gradient_of_one_input_alone() -> None:
    adj = rectangle(6, 4, 15)
    x, a_src, a_dst = inputs(adj, 2, 2)
    whole = torch.autograd.grad(attention(adj, x, a_src, a_dst).square().sum(), a_dst)[0]
    alone = torch.autograd.grad(attention(adj, x.detach(), a_src.detach(), a_dst).square().sum(), a_dst)[0]
    torch.testing.assert_close(whole, alone)
    with_graph = torch.autograd.grad(
        attention(adj, x.detach(), a_src.detach(), a_dst).square().sum(), a_dst, create_graph=True
    )[0]
    torch.testing.assert_close(whole, with_graph)


def test_a_node_without_edges_attends_to_itself_alone() -> None:
    adj = Adjacency(torch.tensor([0, 0, 1]), torch.tensor([0], dtype=torch.int32), 2)
    x, a_src, a_dst = inputs(adj, 3, 4)
    torch.testing.assert_close(attention(adj, x, a_src, a_dst)[0], x[0])


def test_a_self_loop_counts_once() -> None:
    edges = torch.tensor([0, 0, 1], dtype=torch.int32)
    with_loops = Adjacency(torch.tensor([0, 3, 3]), edges, 2)
    without = Adjacency(torch.tensor([0, 1, 1]), edges[2:], 2)
    tensors = inputs(with_loops, 2, 3)
    torch.testing.assert_close(attention(with_loops, *tensors), attention(without, *tensors))


def test_large_scores_do_not_overflow() -> None:
    adj = rectangle(50, 40, 300)
    x, a_src, a_dst = (t.detach().float() for t in inputs(adj, 2, 5))
    out = attention(adj, x, a_src * 1e4, a_dst * 1e4)
    assert out.isfinite().all()
    torch.testing.assert_close(out, attention_torch(adj, x, a_src * 1e4, a_dst * 1e4))


def test_chunks_of_rows_make_the_whole() -> None:
    adj = rectangle(30, 30, 200)
    x, a_src, a_dst = inputs(adj, 2, 5)
    whole = attention(adj, x, a_src, a_dst)
    chunks = [attention(adj.rows(lo, lo + 10), x, a_src, a_dst[lo : lo + 10], first=lo) for lo in (0, 10, 20)]
    assert torch.equal(whole, torch.cat(chunks))
    for mine, twin in zip(*both(adj.rows(10, 20), (x, a_src, a_dst[10:20]), first=10), strict=True):
        torch.testing.assert_close(mine, twin)


def test_ignores_edge_weights() -> None:
    adj = rectangle(10, 10, 40)
    weighted = Adjacency(adj.indptr, adj.indices, 10, weight=torch.rand(40), normalized=True)
    tensors = inputs(adj, 2, 3)
    assert torch.equal(attention(adj, *tensors), attention(weighted, *tensors))


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_does_not_depend_on_the_number_of_threads(threads: int) -> None:
    adj = rectangle(5000, 5000, 60_000)
    tensors = inputs(adj, 2, 9, torch.float32)
    before = get_threads()
    results = []
    try:
        for count in (before, threads):
            set_threads(count)
            y = attention(adj, *tensors)
            results.append([y, *torch.autograd.grad(y.square().sum(), tensors)])
    finally:
        set_threads(before)
    for a, b in zip(*results, strict=True):
        assert torch.equal(a, b)


def test_keeps_no_tensor_of_edges() -> None:
    adj = rectangle(20, 20, 50_000)
    kept: list[int] = []

    def pack(t: Tensor) -> Tensor:
        kept.append(t.numel())
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        attention(adj, *inputs(adj, 2, 3))
    assert kept
    assert max(kept) <= 20 * 2 * 3


@pytest.mark.parametrize(("heads", "channels"), [(1, 16), (4, 8)])
def test_equals_pyg_gatconv(heads: int, channels: int) -> None:
    nn = pytest.importorskip("torch_geometric.nn")
    torch.manual_seed(0)
    adj = rectangle(60, 60, 400)
    conv = nn.GATConv(12, channels, heads=heads, bias=False).double()
    x = torch.randn(60, 12, dtype=torch.float64, requires_grad=True)
    theirs = conv(x, adj.edge_index)
    h = (x @ conv.lin.weight.T).view(60, heads, channels)
    ours = attention(adj, h, (h * conv.att_src).sum(-1), (h * conv.att_dst).sum(-1)).flatten(1)
    torch.testing.assert_close(ours, theirs)
    seed = torch.randn_like(theirs)
    wanted = [x, conv.lin.weight, conv.att_src, conv.att_dst]
    for a, b in zip(torch.autograd.grad(ours, wanted, seed), torch.autograd.grad(theirs, wanted, seed), strict=True):
        torch.testing.assert_close(a, b)


def test_says_what_is_wrong_with_the_shapes() -> None:
    adj = rectangle(6, 4, 10)
    x, a_src, a_dst = inputs(adj, 2, 3)
    with pytest.raises(ValueError, match="6 sources"):
        attention(adj, x[:5], a_src, a_dst)
    with pytest.raises(ValueError, match="6 sources"):
        attention(adj, x, a_src[:, :1], a_dst)
    with pytest.raises(ValueError, match="not among"):
        attention(adj, x, a_src, a_dst, first=3)
