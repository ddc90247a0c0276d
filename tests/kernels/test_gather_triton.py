from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from handful.kernels.dispatch import use
from handful.kernels.gather import gather

gather_triton = pytest.importorskip("handful.kernels.gather_triton")

pytestmark = pytest.mark.triton


@settings(max_examples=25, deadline=None)
@given(
    n=st.integers(1, 40),
    count=st.sampled_from([0, 1, 15, 16, 33]),
    width=st.sampled_from([0, 1, 3, 8, 130]),
    dtype=st.sampled_from([torch.float64, torch.float32, torch.bfloat16, torch.float16]),
    strided=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_equals_its_twin(n: int, count: int, width: int, dtype: torch.dtype, strided: bool, seed: int) -> None:
    """Bit for bit, also of some columns of a wider matrix."""
    gen = torch.Generator().manual_seed(seed)
    x = torch.randn(n, width + 2 * strided, generator=gen).to(dtype)[:, strided : width + strided]
    rows = torch.randint(n, (count,), generator=gen)
    with use("triton"):
        found = gather(x, rows)
    assert found.dtype == dtype
    assert torch.equal(found, x[rows])


@pytest.mark.parametrize("row", [-1, 3])
def test_a_row_that_is_not_there_is_refused(row: int) -> None:
    with use("triton"), pytest.raises(RuntimeError, match="not among the 3 there are"):
        gather(torch.zeros(3, 2), torch.tensor([0, row]))
