"""16-bit floats for numba, which does not have these dtypes: kernels get the bits as integers, and sum in float32.

Kernels get bfloat16 as uint16 values. They get float16 as int16 values, which they only read. ``widen`` and ``narrow``
do not change other dtypes, so one kernel works for float32, float64 and bfloat16.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload
from torch import Tensor


def widen(value: Any) -> Any:
    """The number whose bits are ``value``. Only kernels can call this function."""
    raise NotImplementedError


def narrow(value: Any, like: Any) -> Any:
    """``value`` in the dtype of the array ``like``, rounded to nearest even. Only kernels can call this function."""
    raise NotImplementedError


def _extend(typing_context: Any, bits: Any) -> Any:
    """Convert float16 to float32 with a CPU instruction."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fpext(builder.bitcast(args[0], ir.HalfType()), ir.FloatType())

    return types.float32(types.int16), generate


_extended: Any = intrinsic(_extend)


def _to_bits(value: Any, like: Any) -> Any:
    bits = np.float32(value).view(np.uint32)
    if value != value:  # rounding the bits of a NaN up could give a number
        return np.uint16(0x7FC0)
    half = np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    return np.uint16(np.uint32(bits + half) >> np.uint32(16))


@overload(widen, inline="always", strict=False)
def _widen(value: Any) -> Any:
    if value == types.uint16:
        return lambda value: np.uint32(np.uint32(value) << np.uint32(16)).view(np.float32)
    return (lambda value: _extended(value)) if value == types.int16 else (lambda value: value)


@overload(narrow, inline="always", strict=False)
def _narrow(value: Any, like: Any) -> Any:
    if like.dtype == types.int16:
        return None  # no kernel makes float16
    return _to_bits if like.dtype == types.uint16 else lambda value, like: value


def array(tensor: Tensor) -> np.ndarray:
    """The memory of a CPU tensor, as an array for a kernel."""
    return _memory(tensor.contiguous())


def columns(tensor: Tensor) -> np.ndarray:
    """``array`` for a matrix that may consist of some columns of a wider matrix. Such columns are not copied.

    The rows of the result may be as long as the rows of the wider matrix, so a kernel must read only the columns of
    ``tensor``.
    """
    stride = tensor.stride(0)
    if tensor.is_contiguous() or tensor.stride(1) != 1 or stride < tensor.shape[1]:
        return array(tensor)
    return np.lib.stride_tricks.as_strided(_memory(tensor), (len(tensor), stride))


def _memory(tensor: Tensor) -> np.ndarray:
    bits = {torch.bfloat16: torch.uint16, torch.float16: torch.int16}.get(tensor.dtype)
    tensor = tensor.detach()
    return (tensor if bits is None else tensor.view(bits)).numpy()


def wide_dtype(tensor: Tensor) -> torch.dtype:
    """The dtype of sums over ``tensor``: float32 for bfloat16 and float16, else the dtype of ``tensor``."""
    return torch.float32 if tensor.dtype in (torch.bfloat16, torch.float16) else tensor.dtype
