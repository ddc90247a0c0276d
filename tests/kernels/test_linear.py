from __future__ import annotations

import pytest
import torch
from torch import Tensor

from handful.kernels.linear import CHUNK, PooledLinear, add_linear, linear
from handful.kernels.memory import SMALLEST
from rounding import UNIT, assert_within, sum_bound


def inputs(rows: int, dtype: torch.dtype, bias: bool = True) -> list[Tensor]:
    gen = torch.Generator().manual_seed(0)
    x, weight, shift = (torch.randn(*s, generator=gen) for s in ((rows, 17), (9, 17), (9,)))
    master = torch.float32 if dtype == torch.bfloat16 else dtype
    tensors = [x.to(dtype), weight.to(master), shift.to(master)][: 3 if bias else 2]
    return [t.requires_grad_() for t in tensors]


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", [0, 5, 2 * CHUNK + 3])
def test_equals_the_torch_twin(rows: int, bias: bool) -> None:
    tensors = inputs(rows, torch.bfloat16, bias)
    results = []
    for function in (linear, PooledLinear().twin):
        out = function(*tensors)
        assert out.dtype == torch.bfloat16
        results.append([out, *torch.autograd.grad(out, tensors, torch.ones_like(out))])
    x, weight, *shift = (t.detach().double().abs() for t in tensors)
    sums = x @ weight.T + sum(shift), weight.sum(0).expand(rows, -1), x.sum(0).expand(9, -1), torch.full((9,), rows)
    for mine, twin, terms, n in zip(*results, sums[: len(results[0])], (18, 9, rows, rows), strict=False):
        assert mine.dtype == twin.dtype
        assert_within(mine, twin, sum_bound(torch.bfloat16, terms, n))


@pytest.mark.usefixtures("both_ways")
def test_autocast_stores_bfloat16_and_keeps_master_weights() -> None:
    tensors = inputs(50, torch.float32)
    exact = linear(*tensors)
    with torch.autocast("cpu", torch.bfloat16):
        out = linear(*tensors)
    assert (exact.dtype, out.dtype) == (torch.float32, torch.bfloat16)
    x, weight, bias = (t.detach().double().abs() for t in tensors)
    # Twice that of a sum, since both factors are rounded too.
    assert_within(out, exact, 2 * sum_bound(torch.bfloat16, x @ weight.T + bias, 18))
    out.float().sum().backward()
    assert all(t.grad is not None and t.grad.dtype == torch.float32 for t in tensors)


def test_other_types_are_torchs_own() -> None:
    for dtype in (torch.float32, torch.float64):
        tensors = inputs(30, dtype)
        assert torch.equal(linear(*tensors), torch.nn.functional.linear(*tensors))


def test_many_rows_without_a_gradient_have_the_same_result() -> None:
    x, weight, bias = inputs(SMALLEST // 36 + 1, torch.float32)
    results = []
    for function in (linear, torch.nn.functional.linear):
        out = function(x.detach(), weight, bias)
        results.append([out, *torch.autograd.grad(out, (weight, bias), torch.ones_like(out))])
    sums = x.abs() @ weight.abs().T + bias.abs(), x.abs().sum(0).expand(9, -1), torch.full((9,), len(x))
    for mine, other, terms, n in zip(*results, sums, (18, len(x), len(x)), strict=True):
        assert_within(mine, other, sum_bound(torch.float32, terms.detach().double(), n))


@pytest.mark.usefixtures("both_ways")
def test_can_be_differentiated_twice() -> None:
    x, weight, bias = inputs(40, torch.bfloat16)
    grad = torch.autograd.grad(linear(x, weight, bias).float().square().sum(), weight, create_graph=True)[0]
    second = torch.autograd.grad(grad.square().sum(), weight)[0]
    wide = [t.detach().double().requires_grad_() for t in (x, weight, bias)]
    exact = torch.autograd.grad(linear(*wide).square().sum(), wide[1], create_graph=True)[0]
    expected = torch.autograd.grad(exact.square().sum(), wide[1])[0]
    # Four products one after another, each of which rounds a factor and its result.
    assert (second.double() - expected).norm() < 8 * UNIT[torch.bfloat16] * expected.norm()


@pytest.mark.usefixtures("both_ways")
def test_only_the_gradients_that_are_needed() -> None:
    x, weight, bias = inputs(20, torch.bfloat16)
    out = linear(x.detach(), weight, bias.detach())
    assert torch.autograd.grad(out.float().sum(), weight)[0].shape == weight.shape


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_add_linear_adds(dtype: torch.dtype) -> None:
    x, weight, bias = inputs(30, dtype)
    out = add_linear(linear(x, weight, bias), 2 * x, weight)
    expected = 3 * linear(*(t.double() for t in (x, weight))) + bias.double()
    # In bfloat16 the weights, the first sum and the second one are rounded: twice the bound of a sum.
    terms = 3 * x.double().abs() @ weight.double().abs().T + bias.double().abs()
    assert_within(out, expected, 2 * sum_bound(dtype, terms, 2 * 17 + 1))
    grad = torch.autograd.grad(out.float().sum(), weight)[0]
    assert_within(grad, 3 * x.double().sum(0).expand(9, -1), 2 * sum_bound(dtype, 3 * x.double().abs().sum(0), 60))
