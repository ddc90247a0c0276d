from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from handful.kernels.aggregate import Scaled, spmm, spmm_torch
from handful.kernels.aggregate_numba import spmm as spmm_numba
from handful.kernels.csr import coo_to_csr
from handful.kernels.threads import get_threads, set_threads
from rounding import assert_within, sum_bound


@pytest.fixture
def threads() -> Iterator[None]:
    before = get_threads()
    yield
    set_threads(before)


def random_csr(rng: np.random.Generator, rows: int, cols: int, edges: int) -> tuple[Tensor, Tensor]:
    i, j = rng.integers(0, rows, edges), rng.integers(0, cols, edges)
    indptr, indices, _ = coo_to_csr(i, j, rows, cols)
    return torch.from_numpy(indptr), torch.from_numpy(indices)


@settings(max_examples=60)
@given(
    st.integers(1, 7), st.integers(1, 7), st.integers(0, 25), st.integers(0, 4), st.tuples(*[st.booleans()] * 3),
    st.sampled_from([torch.float32, torch.float64]), st.integers(0, 1000),
)  # fmt: skip
def test_numba_torch_and_dense_agree(
    rows: int, cols: int, edges: int, features: int, used: tuple[bool, bool, bool], dtype: torch.dtype, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    indptr, indices = random_csr(rng, rows, cols, edges)
    sizes = (edges, rows, cols)
    weight, left, right = (
        torch.from_numpy(rng.normal(size=size)).to(torch.float32) if use else None
        for size, use in zip(sizes, used, strict=True)
    )
    x = torch.from_numpy(rng.normal(size=(cols, features))).to(dtype)
    matrix = torch.zeros(rows, cols, dtype=torch.float64)
    size = matrix.clone()
    values = torch.ones(edges) if weight is None else weight
    for v in range(rows):
        for e in range(int(indptr[v]), int(indptr[v + 1])):
            matrix[v, indices[e]] += values[e].double()
            size[v, indices[e]] += values[e].double().abs()
    if left is not None:
        matrix, size = left.double()[:, None] * matrix, left.double().abs()[:, None] * size
    if right is not None:
        matrix, size = matrix * right.double(), size * right.double().abs()
    for product in (spmm_numba, spmm_torch, spmm):
        out = product(Scaled(indptr, indices, weight, left, right), x)
        assert out.dtype == dtype
        assert_within(out, matrix @ x.double(), sum_bound(dtype, size @ x.double().abs(), edges))


def test_a_strided_input_and_one_that_requires_grad() -> None:
    rng = np.random.default_rng(0)
    indptr, indices = random_csr(rng, 5, 6, 20)
    wide = torch.from_numpy(rng.normal(size=(6, 8)).astype(np.float32))
    torch.testing.assert_close(
        spmm_numba(Scaled(indptr, indices), wide[:, ::2]),
        spmm_torch(Scaled(indptr, indices), wide[:, ::2].contiguous()),
    )


@pytest.mark.usefixtures("threads")
def test_bits_do_not_depend_on_the_number_of_threads() -> None:
    rng = np.random.default_rng(1)
    indptr, indices = random_csr(rng, 4000, 4000, 60_000)
    weight = torch.from_numpy(rng.normal(size=60_000).astype(np.float32))
    x = torch.from_numpy(rng.normal(size=(4000, 7)).astype(np.float32))
    results = []
    for count in (1, 2, 3, 8):
        set_threads(count)
        results.append(spmm_numba(Scaled(indptr, indices, weight), x))
    assert all(torch.equal(results[0], other) for other in results[1:])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("added", ["nothing", "tensor", "strided"])
def test_short_floats_and_a_base(dtype: torch.dtype, added: str) -> None:
    """Sums are wide for all stored types; the rows of the base need not be contiguous."""
    gen = torch.Generator().manual_seed(3)
    dense = (torch.rand(40, 60, generator=gen) < 0.3).double()
    indptr = torch.zeros(41, dtype=torch.int64)
    indptr[1:] = dense.sum(1).cumsum(0)
    indices = dense.nonzero()[:, 1].to(torch.int32)
    left, right = torch.rand(40, generator=gen), torch.rand(60, generator=gen)
    x = torch.randn(60, 37, generator=gen, dtype=torch.float64).to(dtype)
    product = left.double()[:, None] * (dense @ (right.double()[:, None] * x.double()))
    terms = left.double()[:, None] * (dense @ (right.double()[:, None] * x.double().abs()))
    for function in (spmm_numba, spmm_torch):
        base = torch.randn(80, 37, generator=gen, dtype=torch.float64).to(dtype)
        target = {"nothing": None, "tensor": base[:40], "strided": base[::2]}[added]
        expected = product if target is None else product + target.double()
        out = function(Scaled(indptr, indices, None, left, right), x, target)
        assert out.dtype == dtype
        more = 0.0 if target is None else (expected - product).abs()
        assert_within(out, expected, sum_bound(dtype, terms + more, 61))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_columns_of_a_wider_tensor_are_read_where_they_lie(dtype: torch.dtype) -> None:
    """As GraphSAGE has them: one half of the rows is aggregated and added to the other."""
    gen = torch.Generator().manual_seed(4)
    dense = (torch.rand(50, 50, generator=gen) < 0.2).double()
    indptr = torch.zeros(51, dtype=torch.int64)
    indptr[1:] = dense.sum(1).cumsum(0)
    indices = dense.nonzero()[:, 1].to(torch.int32)
    both = torch.randn(50, 2 * 19, generator=gen, dtype=torch.float64).to(dtype)
    bias = torch.randn(19, generator=gen)
    before = both.clone()
    expected = dense @ both[:, :19].double() + both[:, 19:].double() + bias.double()
    terms = dense @ both[:, :19].double().abs() + both[:, 19:].double().abs() + bias.double().abs()
    for function in (spmm_numba, spmm_torch):
        out = function(Scaled(indptr, indices), both[:, :19], base=both[:, 19:], bias=bias)
        # The bias is float32, and may round what is added to it.
        assert_within(out, expected, sum_bound(torch.float32 if dtype == torch.float64 else dtype, terms, 52))
        assert torch.equal(both, before)


def test_float16_is_read_as_it_is_and_summed_in_float32() -> None:
    """Every float16 there is: zeros, the smallest, infinite ones and such as are no numbers."""
    every = torch.arange(1 << 16, dtype=torch.int32).to(torch.int16).view(torch.float16)[:, None]
    indptr, indices = torch.arange(len(every) + 1), torch.arange(len(every))
    for product in (spmm, spmm_torch):
        torch.testing.assert_close(
            product(Scaled(indptr, indices), every), every.float(), rtol=0, atol=0, equal_nan=True
        )
