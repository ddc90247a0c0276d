from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import BatchNorm1d, LayerNorm

from handful.kernels.activation import act, batch_norm_act, dropout, layer_norm_act
from handful.kernels.activation_numba import BLOCK
from handful.kernels.dispatch import use
from handful.kernels.threads import get_threads, set_threads
from rounding import norm_bounds, size

SEED = 2**62 + 12345


def batch_norm_on(function: Callable[..., Tensor], training: bool, p: float) -> Callable[..., Tensor]:
    """With fresh running statistics, so that it can be called again."""

    def call(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        mean = torch.linspace(-1, 1, x.shape[1], dtype=weight.dtype)
        return function(x, weight, bias, mean, mean.exp(), training, p=p, seed=SEED)

    return call


def layer_norm_on(function: Callable[..., Tensor], training: bool, p: float) -> Callable[..., Tensor]:
    return lambda x, weight, bias: function(x, weight, bias, p=p, training=training, seed=SEED)


def plain_on(function: Callable[..., Tensor], training: bool, p: float) -> Callable[..., Tensor]:
    return lambda x, weight, bias: function(x * weight + bias, p, training, SEED)


FUNCTIONS: dict[str, Any] = {
    "batch": (batch_norm_on, batch_norm_act),
    "layer": (layer_norm_on, layer_norm_act),
    "act": (plain_on, act),
    "dropout": (plain_on, dropout),
}
every = pytest.mark.parametrize("name", FUNCTIONS)


def inputs(rows: int, columns: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> tuple[Tensor, ...]:
    gen = torch.Generator().manual_seed(seed)
    x, weight, bias = (
        torch.randn(*shape, generator=gen, dtype=torch.float64) for shape in ((rows, columns), (columns,), (columns,))
    )
    affine = torch.float32 if dtype == torch.bfloat16 else dtype
    return (3 * x + 1).to(dtype).requires_grad_(), weight.to(affine).requires_grad_(), bias.to(affine).requires_grad_()


def results(call: Callable[..., Tensor], tensors: tuple[Tensor, ...]) -> list[Tensor]:
    out = call(*tensors)
    seed = torch.randn(out.shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64).to(out.dtype)
    return [out, *torch.autograd.grad(out, tensors, seed)]


def bounds(name: str, tensors: tuple[Tensor, ...], training: bool, p: float) -> list[float]:
    """What rounding explains of the difference of ``results``; with no norm, the mean is 0 and the variance 1."""
    x, wide = tensors[0].detach(), tensors[0].detach().double()
    mean, var, n = torch.zeros(1), torch.ones(1), 1
    if name == "layer":
        mean, var, n = wide.mean(1, keepdim=True), wide.var(1, correction=0), x.shape[1]
    elif name == "batch" and training:
        mean, var, n = wide.mean(0), wide.var(0, correction=0), len(x)
    elif name == "batch":
        mean = torch.linspace(-1, 1, x.shape[1])
        var = mean.exp()
    grad = torch.randn(x.shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    return norm_bounds(x, *tensors[1:], grad, mean, var, n, p if training else 0.0)


@settings(max_examples=40)
@given(
    name=st.sampled_from(list(FUNCTIONS)),
    rows=st.integers(2, 3 * BLOCK),
    columns=st.integers(1, 40),
    training=st.booleans(),
    p=st.sampled_from([0.0, 0.3, 0.5, 1.0]),
)
def test_equals_the_torch_twin(name: str, rows: int, columns: int, training: bool, p: float) -> None:
    make, function = FUNCTIONS[name]
    tensors = inputs(rows, columns, seed=rows)
    mine = results(make(function, training, p), tensors)
    with use("torch"):
        twin = results(make(function, training, p), tensors)
    for a, b, bound in zip(mine, twin, bounds(name, tensors, training, p), strict=True):
        assert size(a - b) <= bound


@every
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_equals_the_torch_twin_in_short_floats(name: str, dtype: torch.dtype) -> None:
    make, function = FUNCTIONS[name]
    tensors = inputs(5000, 65, dtype)
    double = tuple(t.detach().double().requires_grad_() for t in tensors)
    mine = results(make(function, True, 0.5), tensors)
    with use("torch"):
        twin = results(make(function, True, 0.5), double)
    for a, b, bound in zip(mine, twin, bounds(name, tensors, True, 0.5), strict=True):
        assert size(a.double() - b) <= bound
    assert make(function, True, 0.5)(*tensors).dtype == (dtype if name in ("batch", "layer") else tensors[1].dtype)


@pytest.mark.parametrize("training", [True, False])
def test_is_the_mathematics_of_torch_modules(training: bool) -> None:
    x = inputs(700, 20)[0].detach()
    batch = BatchNorm1d(20).double().train(training)
    ours = BatchNorm1d(20).double()
    for _ in range(3):
        expected = batch(x).relu()
        got = batch_norm_act(
            x, ours.weight, ours.bias, ours.running_mean, ours.running_var, training, ours.momentum or 0.0, ours.eps
        )
        torch.testing.assert_close(got, expected)
    torch.testing.assert_close(ours.running_mean, batch.running_mean)
    torch.testing.assert_close(ours.running_var, batch.running_var)
    layer = LayerNorm(20).double()
    torch.testing.assert_close(layer_norm_act(x, layer.weight, layer.bias, layer.eps), layer(x).relu())
    torch.testing.assert_close(act(x), x.relu())


@every
@pytest.mark.parametrize("training", [True, False])
def test_gradcheck(name: str, training: bool) -> None:
    make, function = FUNCTIONS[name]
    assert torch.autograd.gradcheck(make(function, training, 0.5), inputs(9, 4))


@every
def test_can_be_differentiated_twice(name: str) -> None:
    make, function = FUNCTIONS[name]
    assert torch.autograd.gradgradcheck(make(function, True, 0.5), inputs(6, 3))


def test_a_second_derivative_leaves_the_running_statistics_alone() -> None:
    x, weight, bias = inputs(50, 3)
    mean, var = torch.zeros(3, dtype=torch.float64), torch.ones(3, dtype=torch.float64)
    out = batch_norm_act(x, weight, bias, mean, var, True)
    before = mean.clone(), var.clone()
    torch.autograd.grad(out.square().sum(), x, create_graph=True)
    assert torch.equal(mean, before[0])
    assert torch.equal(var, before[1])


@every
def test_results_do_not_depend_on_the_number_of_threads(name: str) -> None:
    make, function = FUNCTIONS[name]
    tensors = inputs(5 * BLOCK + 17, 33, torch.float32)
    before, seen = get_threads(), []
    try:
        for count in (1, 2, 5):
            set_threads(count)
            seen.append(results(make(function, True, 0.5), tensors))
    finally:
        set_threads(before)
    for other in seen[1:]:
        for a, b in zip(seen[0], other, strict=True):
            assert torch.equal(a, b)


def test_variance_survives_a_large_mean() -> None:
    x = (torch.randn(4000, 8, generator=torch.Generator().manual_seed(0)) + 1000).float()
    mean, var = torch.zeros(8), torch.ones(8)
    batch_norm_act(x, torch.ones(8), torch.zeros(8), mean, var, True, momentum=1.0)
    # Sums of blocks of 256 rows are in float32, those over blocks in float64.
    torch.testing.assert_close(mean.double(), x.double().mean(0), rtol=256 * 2.0**-24, atol=0)
    torch.testing.assert_close(var.double(), x.double().var(0), rtol=256 * 2.0**-24, atol=0)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.8])
def test_dropout_keeps_the_mean(p: float) -> None:
    x = torch.ones(2000, 200)
    for function in (dropout, act):
        out = function(x, p, True, SEED)
        kept = out > 0
        torch.testing.assert_close(out[kept], torch.full_like(out[kept], 1 / (1 - p)))
        assert abs(float(kept.double().mean()) - (1 - p)) < 5 * math.sqrt(p * (1 - p) / x.numel())
        assert torch.equal(function(x, p, False, SEED), x)


def test_seeds_make_masks() -> None:
    x = torch.ones(100, 50)
    assert torch.equal(dropout(x, 0.5, True, 1), dropout(x, 0.5, True, 1))
    assert not torch.equal(dropout(x, 0.5, True, 1), dropout(x, 0.5, True, 2))


def test_nan_is_not_hidden() -> None:
    x = torch.tensor([[1.0, math.nan], [2.0, 3.0]])
    one, zero = torch.ones(2), torch.zeros(2)
    assert act(x)[0, 1].isnan()
    assert layer_norm_act(x, one, zero)[0].isnan().all()
    assert batch_norm_act(x, one, zero, None, None, True)[:, 1].isnan().all()
    assert act(x.bfloat16())[0, 1].isnan()


@pytest.mark.parametrize("function", [act, dropout])
def test_an_empty_batch_is_empty(function: Callable[..., Tensor]) -> None:
    assert function(torch.empty(0, 3), 0.5, True, 0).shape == (0, 3)
    assert layer_norm_act(torch.empty(0, 3), torch.ones(3), torch.zeros(3)).shape == (0, 3)
