from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from handful.kernels import activation, dispatch, hashing
from rounding import norm_bounds, size

activation_triton = pytest.importorskip("handful.kernels.activation_triton")

pytestmark = pytest.mark.triton
SEED = 2**63 + 12345
DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]


def batch_norm(x: Tensor, weight: Tensor, bias: Tensor, p: float, training: bool) -> Tensor:
    mean = torch.linspace(-1, 1, x.shape[1], dtype=weight.dtype)
    return activation.batch_norm_act(x, weight, bias, mean, mean.exp(), training, p=p, seed=SEED)


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor, p: float, training: bool) -> Tensor:
    return activation.layer_norm_act(x, weight, bias, p=p, training=training, seed=SEED)


def relu(x: Tensor, weight: Tensor, bias: Tensor, p: float, training: bool) -> Tensor:
    return activation.act(x + 0 * (weight + bias).to(x.dtype), p, training, SEED)


def dropped(x: Tensor, weight: Tensor, bias: Tensor, p: float, training: bool) -> Tensor:
    return activation.dropout(x + 0 * (weight + bias).to(x.dtype), p, training, SEED)


@settings(max_examples=20)
@given(
    function=st.sampled_from([batch_norm, layer_norm, relu, dropped]),
    rows=st.sampled_from([2, 3, 17, 33]),
    width=st.sampled_from([1, 2, 7, 130]),
    dtype=st.sampled_from(DTYPES),
    p=st.sampled_from([0.0, 0.3, 0.5, 1.0]),
    training=st.booleans(),
)
def test_equals_the_numba_twin(
    function: Callable[..., Tensor], rows: int, width: int, dtype: torch.dtype, p: float, training: bool
) -> None:
    gen = torch.Generator().manual_seed(rows * width)
    real = torch.float64 if dtype == torch.float64 else torch.float32
    x = (torch.randn(rows, width, generator=gen, dtype=torch.float64) + 3).to(dtype)
    weight, bias = (torch.rand(width, generator=gen, dtype=real) + 0.5 for _ in range(2))
    grad = torch.randn(rows, width, generator=gen, dtype=torch.float64).to(dtype)
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(activation_triton, "BLOCK", 16)
        for which in ("numba", "triton"):
            # numba has no float16: it computes the same numbers in float32
            short = which == "numba" and dtype == torch.float16
            inputs = [t.clone().requires_grad_() for t in (x.float() if short else x, weight, bias)]
            with dispatch.use(which):  # type: ignore[arg-type]
                out = function(*inputs, p, training)
                out.backward(grad.to(out.dtype))
            found[which] = [out.detach(), *(t.grad for t in inputs)]
    wide = x.double()
    mean, var, n = torch.zeros(1), torch.ones(1), 1
    if function is layer_norm:
        mean, var, n = wide.mean(1, keepdim=True), wide.var(1, correction=0), width
    elif function is batch_norm and training:
        mean, var, n = wide.mean(0), wide.var(0, correction=0), rows
    elif function is batch_norm:
        mean = torch.linspace(-1, 1, width)
        var = mean.exp()
    bounds = norm_bounds(x, weight, bias, grad, mean, var, n, p if training else 0.0)
    for mine, theirs, bound in zip(found["triton"], found["numba"], bounds, strict=True):
        assert size(mine.double() - theirs.double()) <= bound
    if dtype in (torch.float32, torch.float64):  # the same mask, but where rounding decides the sign
        mine, theirs = found["triton"][0], found["numba"][0]
        assert torch.maximum(mine, theirs)[(mine == 0) != (theirs == 0)].le(bounds[0]).all()


@pytest.mark.parametrize("function", [batch_norm, layer_norm, relu])
def test_gradcheck(function: Callable[..., Tensor]) -> None:
    gen = torch.Generator().manual_seed(5)
    shapes = (6, 3), (3,), (3,)
    inputs = [torch.randn(s, generator=gen, dtype=torch.float64).requires_grad_() for s in shapes]
    with dispatch.use("triton"):
        assert torch.autograd.gradcheck(lambda *t: function(*t, 0.3, True), inputs, fast_mode=True)


def test_the_variance_of_a_far_mean() -> None:
    x = torch.randn(100, 3, generator=torch.Generator().manual_seed(0)) * 0.01 + 1000
    mean, var = activation_triton.moments(x)
    # The mean is off by 100 u · 1000 = 6e-3 at most; a centred value, 0.01 or so, is not: its shift is taken out again.
    torch.testing.assert_close(mean, x.double().mean(0), rtol=100 * 2.0**-24, atol=0)
    torch.testing.assert_close(var, x.double().var(0, unbiased=False), rtol=100 * 2.0**-24, atol=0)


triton = pytest.importorskip("triton")
tl = triton.language
bits = activation_triton.bits


@triton.jit
def _fill(seed, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr):  # type: ignore[no-untyped-def]
    rows, cols = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    tl.store(out + rows[:, None] * COLUMNS + cols[None, :], bits(seed, rows, cols).to(tl.int64))


@pytest.mark.parametrize("seed", [0, 1, 12345, 2**31, 2**62 + 7, 2**63 + 99, 2**64 - 1])
def test_the_bits_are_those_of_the_cpu(seed: int) -> None:
    out = torch.empty(64, 32, dtype=torch.int64)
    _fill[(1,)](activation_triton.seed_of(seed, out), out, 64, 32)
    assert torch.equal(out, hashing.bits_torch(seed, 64, 32, "cpu").long() & 0xFFFFFFFF)
