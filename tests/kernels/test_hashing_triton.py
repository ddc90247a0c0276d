from __future__ import annotations

import pytest
import torch

from handful.kernels import hashing

triton = pytest.importorskip("triton")
tl = triton.language
hashing_triton = pytest.importorskip("handful.kernels.hashing_triton")
bits = hashing_triton.bits

pytestmark = pytest.mark.triton


@triton.jit
def _fill(seed, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr):  # type: ignore[no-untyped-def]
    rows, cols = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    tl.store(out + rows[:, None] * COLUMNS + cols[None, :], bits(seed, rows, cols).to(tl.int64))


@pytest.mark.parametrize("seed", [0, 1, 12345, 2**31, 2**62 + 7, 2**63 + 99, 2**64 - 1])
def test_the_bits_are_those_of_the_cpu(seed: int) -> None:
    out = torch.empty(64, 32, dtype=torch.int64)
    _fill[(1,)](hashing_triton.seed_of(seed, out), out, 64, 32)
    assert torch.equal(out, hashing.bits(seed, 64, 32))
