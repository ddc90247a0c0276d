from __future__ import annotations

import pytest
import torch

from handful.kernels.gather import gather


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_the_rows_in_their_order(dtype: torch.dtype) -> None:
    x = torch.randn(6, 3, generator=torch.Generator().manual_seed(0)).to(dtype)
    rows = torch.tensor([5, 0, 0, 2])
    assert torch.equal(gather(x, rows), x[rows])
    assert torch.equal(gather(x[:, 1:], rows), x[rows, 1:])


@pytest.mark.parametrize("row", [-1, 6])
def test_a_row_that_is_not_there(row: int) -> None:
    with pytest.raises((IndexError, RuntimeError), match="out of range"):
        gather(torch.zeros(6, 3), torch.tensor([row]))
