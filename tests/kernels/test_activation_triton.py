from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from handful.kernels import activation, dispatch

activation_triton = pytest.importorskip("handful.kernels.activation_triton")

pytestmark = pytest.mark.triton
SEED = 2**63 + 12345
TOLERANCE = {torch.float64: 1e-11, torch.float32: 2e-5, torch.bfloat16: 2e-2, torch.float16: 4e-3}


def batch_norm(x: Tensor, weight: Tensor, bias: Tensor, p: float, training: bool) -> Tensor:
    mean = torch.linspace(-1, 1, x.shape[1], dtype=weight.dtype)
    return activation.batch_norm_act(x, weight, bias, mean, mean.exp(), training, p=p, seed=SEED)


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor, p: float, training: bool) -> Tensor:
    return activation.layer_norm_act(x, weight, bias, p=p, training=training, seed=SEED)


def relu(x: Tensor, weight: Tensor, bias: Tensor, p: float, training: bool) -> Tensor:
    return activation.act(x + 0 * (weight + bias).to(x.dtype), p, training, SEED)


def dropped(x: Tensor, weight: Tensor, bias: Tensor, p: float, training: bool) -> Tensor:
    return activation.dropout(x + 0 * (weight + bias).to(x.dtype), p, training, SEED)


@settings(max_examples=20, deadline=None)
@given(
    function=st.sampled_from([batch_norm, layer_norm, relu, dropped]),
    rows=st.sampled_from([2, 3, 17, 33]),
    width=st.sampled_from([1, 2, 7, 130]),
    dtype=st.sampled_from(list(TOLERANCE)),
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
    for mine, theirs in zip(found["triton"], found["numba"], strict=True):
        size = theirs.double().abs().max() + 1
        assert (mine.double() - theirs.double()).abs().max() < TOLERANCE[dtype] * size
    if dtype in (torch.float32, torch.float64):  # the same mask, whatever the rounding
        assert torch.equal(found["triton"][0] == 0, found["numba"][0] == 0)


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
    torch.testing.assert_close(mean, x.double().mean(0))
    torch.testing.assert_close(var, x.double().var(0, unbiased=False), rtol=1e-4, atol=0)
