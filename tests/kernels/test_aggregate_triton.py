from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from handful.adjacency import Adjacency
from handful.kernels import csr, dispatch
from handful.kernels.aggregate import Scaled
from handful.kernels.aggregate_numba import spmm as spmm_numba
from rounding import assert_within, sum_bound

aggregate_triton = pytest.importorskip("handful.kernels.aggregate_triton")

pytestmark = pytest.mark.triton
DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]


def csr_of(degrees: list[int], sources: int, gen: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    indptr = torch.zeros(len(degrees) + 1, dtype=torch.int64)
    indptr[1:] = torch.tensor(degrees, dtype=torch.int64).cumsum(0)
    return indptr, torch.randint(sources, (int(indptr[-1]),), generator=gen, dtype=torch.int32)


@settings(max_examples=30)
@given(
    degrees=st.lists(st.sampled_from([0, 1, 2, 5, 16, 17, 70]), max_size=8),
    sources=st.integers(1, 12),
    width=st.sampled_from([0, 1, 3, 8, 130]),
    dtype=st.sampled_from(DTYPES),
    used=st.tuples(*[st.booleans()] * 5),
    chunk=st.sampled_from([16, 1024]),
    seed=st.integers(0, 1000),
)
def test_equals_the_numba_twin(
    degrees: list[int],
    sources: int,
    width: int,
    dtype: torch.dtype,
    used: tuple[bool, ...],
    chunk: int,
    seed: int,
) -> None:
    """Odd widths, empty rows, rows longer than a chunk, weights, scales, rectangles, columns of wider matrices."""
    gen = torch.Generator().manual_seed(seed)
    indptr, indices = csr_of(degrees, sources, gen)
    sizes = (len(indices), len(degrees), sources, width)
    weight, left, right, bias = (
        torch.rand(size, generator=gen) if use else None for size, use in zip(sizes, used, strict=False)
    )
    x = torch.randn(sources, width + 2, generator=gen, dtype=torch.float64).to(dtype)[:, 1 : width + 1]
    base = torch.randn(len(degrees), width + 1, generator=gen).to(dtype)[:, 1:] if used[4] else None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(aggregate_triton, "CHUNK", chunk)
        mine = aggregate_triton.spmm(Scaled(indptr, indices, weight, left, right), x, base, bias)
    exact = (x.double(), None if base is None else base.double(), bias)
    theirs = spmm_numba(Scaled(indptr, indices, weight, left, right), *exact)
    assert mine.dtype == dtype
    sizes = (exact[0].abs(), None if exact[1] is None else exact[1].abs(), bias)
    terms = spmm_numba(Scaled(indptr, indices, weight, left, right), *sizes)  # weights, scales and bias are positive
    assert_within(mine, theirs, sum_bound(dtype, terms, max(degrees, default=0) + 2))


def test_gradcheck_of_a_directed_rectangle_with_weights() -> None:
    gen = torch.Generator().manual_seed(1)
    rows, cols = (torch.randint(top, (20,), generator=gen).numpy() for top in (4, 6))
    indptr, indices, _ = csr.coo_to_csr(rows, cols, 4, 6)
    adj = Adjacency(torch.from_numpy(indptr), torch.from_numpy(indices), 6, weight=torch.rand(20, generator=gen))
    x = torch.randn(6, 3, generator=gen, dtype=torch.float64, requires_grad=True)
    left = torch.rand(4, generator=gen)
    with dispatch.use("triton"):
        assert torch.autograd.gradcheck(lambda x: adj.matmul(x, left=left), (x,), fast_mode=True)
