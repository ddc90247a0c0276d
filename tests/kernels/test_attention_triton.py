from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from handful.adjacency import Adjacency
from handful.kernels import csr, dispatch
from handful.kernels.attention import attention
from rounding import attention_bounds, size

aggregate_triton = pytest.importorskip("handful.kernels.aggregate_triton")

pytestmark = pytest.mark.triton
DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]


def rectangle(sources: int, targets: int, edges: int, seed: int) -> Adjacency:
    """Random edges; the first target has half of them."""
    gen = torch.Generator().manual_seed(seed)
    rows = torch.randint(max(targets, 1), (edges if targets else 0,), generator=gen)
    rows[: edges // 2] = 0
    cols = torch.randint(max(sources, 1), (len(rows),), generator=gen)
    indptr, indices, _ = csr.coo_to_csr(rows.numpy(), cols.numpy(), targets, sources)
    return Adjacency(torch.from_numpy(indptr), torch.from_numpy(indices), sources)


def inputs(adj: Adjacency, heads: int, channels: int, dtype: torch.dtype) -> tuple[Tensor, ...]:
    gen = torch.Generator().manual_seed(1)
    shapes = (adj.num_sources, heads, channels), (adj.num_sources, heads), (adj.num_targets, heads)
    return tuple(torch.randn(s, generator=gen, dtype=torch.float64).to(dtype).requires_grad_() for s in shapes)


@settings(max_examples=15)
@given(
    targets=st.integers(0, 6),
    extra=st.integers(0, 5),
    edges=st.sampled_from([0, 3, 20, 50]),
    heads=st.integers(1, 3),
    channels=st.sampled_from([1, 3, 9]),
    chunk=st.sampled_from([16, 1024]),
    dtype=st.sampled_from(DTYPES),
    seed=st.integers(0, 1000),
)
def test_equals_the_numba_twin(
    targets: int, extra: int, edges: int, heads: int, channels: int, chunk: int, dtype: torch.dtype, seed: int
) -> None:
    adj = rectangle(targets + extra, targets, edges, seed)
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(aggregate_triton, "CHUNK", chunk)
        for which in ("numba", "triton"):
            tensors = inputs(adj, heads, channels, dtype)
            if which == "numba" and dtype == torch.float16:  # numba has none: it computes the same numbers in float32
                tensors = tuple(t.detach().float().requires_grad_() for t in tensors)
            with dispatch.use(which):  # type: ignore[arg-type]
                out = attention(adj, *tensors, first=extra)
                grad = torch.randn(out.shape, generator=torch.Generator().manual_seed(7)).to(dtype).to(out.dtype)
                found[which] = [t.to(dtype) for t in (out.detach(), *torch.autograd.grad(out, tensors, grad))]
    n = int(adj.indptr.diff().max()) + 1 if targets else 1
    k = int(adj.indices.bincount(minlength=1).max()) + 1
    bounds = attention_bounds(*inputs(adj, heads, channels, dtype), grad, n, k)
    for mine, theirs, bound in zip(found["triton"], found["numba"], bounds, strict=True):
        assert size(mine.double() - theirs.double()) <= bound


def test_gradcheck() -> None:
    adj = rectangle(6, 4, 14, 0)
    with dispatch.use("triton"):
        assert torch.autograd.gradcheck(lambda *t: attention(adj, *t), inputs(adj, 2, 3, torch.float64), fast_mode=True)
