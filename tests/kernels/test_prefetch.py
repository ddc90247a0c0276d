from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest

from handful.kernels.prefetch import prefetch


@numba.njit
def _sum(x: Any) -> Any:
    total = x.dtype.type(0)
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            prefetch(x, min(i + 1, x.shape[0] - 1), j)
            total += x[i, j]
    return total


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint16])
def test_the_hint_compiles_to_the_instruction_and_changes_nothing(dtype: type) -> None:
    x = np.arange(24, dtype=dtype).reshape(4, 6)
    assert _sum(x) == x.sum()
    assert _sum(x[:, ::2]) == x[:, ::2].sum()
    assert all("llvm.prefetch" in code for code in _sum.inspect_llvm().values())
