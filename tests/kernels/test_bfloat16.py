from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from handful.kernels.bfloat16 import array, columns, narrow, wide_dtype, widen
from handful.kernels.threads import kernel


@kernel
def _copy(source: Any, out: Any) -> None:
    for i in range(source.shape[0]):
        out[i] = narrow(widen(source[i]), out)


def converted(source: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    out = torch.empty(len(source), dtype=dtype)
    _copy(array(source), array(out))
    return out


def test_every_bfloat16_is_widened_as_torch_widens_it() -> None:
    every = torch.arange(2**16, dtype=torch.int32).to(torch.uint16).view(torch.bfloat16)
    wide = converted(every, torch.float32)
    assert torch.equal(wide.isnan(), every.isnan())
    known = ~every.isnan()
    assert torch.equal(wide[known], every[known].float())


def test_narrowing_rounds_to_nearest_even_as_torch_does() -> None:
    gen = torch.Generator().manual_seed(0)
    bits = torch.randint(-(2**31), 2**31, (200_000,), generator=gen).to(torch.int32)
    halfway = (torch.randint(0, 2**15, (10_000,), generator=gen) << 16 | 0x8000).to(torch.int32)
    values = torch.cat([bits, halfway, torch.tensor([0, 0x7F7FFFFF, 0x7F800000, 0x7FFFFFFF], dtype=torch.int32)])
    values = values.view(torch.float32)
    short = converted(values, torch.bfloat16)
    assert torch.equal(short.isnan(), values.isnan())
    known = ~values.isnan()
    assert torch.equal(short[known], values[known].to(torch.bfloat16))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_other_types_pass_unchanged(dtype: torch.dtype) -> None:
    values = torch.randn(100, generator=torch.Generator().manual_seed(0), dtype=dtype)
    assert torch.equal(converted(values, dtype), values)


def test_arrays_share_the_memory_of_their_tensors() -> None:
    short = torch.zeros(3, dtype=torch.bfloat16)
    array(short)[:] = 0x3F80  # 1 in bfloat16
    assert short.tolist() == [1, 1, 1]
    wide = torch.arange(12.0).view(3, 4)
    view = columns(wide[:, 1:3])
    assert view.shape == (3, 4)
    assert np.array_equal(view[:, :2], wide[:, 1:3].numpy())
    assert view.ctypes.data == wide.data_ptr() + 4
    assert np.array_equal(columns(wide[:, ::2]), wide[:, ::2].numpy())
    assert np.array_equal(columns(wide), wide.numpy())


def test_sums_of_bfloat16_are_kept_in_float32() -> None:
    kinds = (torch.bfloat16, torch.float32, torch.float64)
    assert [wide_dtype(torch.empty(0, dtype=kind)) for kind in kinds] == [torch.float32, torch.float32, torch.float64]
