from __future__ import annotations

import pytest
import torch
from torch import Tensor

from handful.kernels.linear import CHUNK, add_linear, linear, linear_torch


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
    for function in (linear, linear_torch):
        out = function(*tensors)
        assert out.dtype == torch.bfloat16
        results.append([out, *torch.autograd.grad(out, tensors, torch.ones_like(out))])
    for mine, twin in zip(*results, strict=True):
        assert mine.dtype == twin.dtype
        assert (mine.double() - twin.double()).norm() <= 5e-3 * twin.double().norm()


@pytest.mark.usefixtures("both_ways")
def test_autocast_stores_bfloat16_and_keeps_master_weights() -> None:
    tensors = inputs(50, torch.float32)
    exact = linear(*tensors)
    with torch.autocast("cpu", torch.bfloat16):
        out = linear(*tensors)
    assert (exact.dtype, out.dtype) == (torch.float32, torch.bfloat16)
    assert (out.float() - exact).norm() < 1e-2 * exact.norm()
    out.float().sum().backward()
    assert all(t.grad is not None and t.grad.dtype == torch.float32 for t in tensors)


def test_other_types_are_torchs_own() -> None:
    for dtype in (torch.float32, torch.float64):
        tensors = inputs(30, dtype)
        assert torch.equal(linear(*tensors), torch.nn.functional.linear(*tensors))


@pytest.mark.usefixtures("both_ways")
def test_can_be_differentiated_twice() -> None:
    x, weight, bias = inputs(40, torch.bfloat16)
    grad = torch.autograd.grad(linear(x, weight, bias).float().square().sum(), weight, create_graph=True)[0]
    second = torch.autograd.grad(grad.square().sum(), weight)[0]
    wide = [t.detach().double().requires_grad_() for t in (x, weight, bias)]
    exact = torch.autograd.grad(linear(*wide).square().sum(), wide[1], create_graph=True)[0]
    expected = torch.autograd.grad(exact.square().sum(), wide[1])[0]
    assert (second.double() - expected).norm() < 2e-2 * expected.norm()


@pytest.mark.usefixtures("both_ways")
def test_only_the_gradients_that_are_needed() -> None:
    x, weight, bias = inputs(20, torch.bfloat16)
    out = linear(x.detach(), weight, bias.detach())
    assert torch.autograd.grad(out.float().sum(), weight)[0].shape == weight.shape


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.bfloat16, 1e-2)])
def test_add_linear_adds(dtype: torch.dtype, tolerance: float) -> None:
    x, weight, bias = inputs(30, dtype)
    out = add_linear(linear(x, weight, bias), 2 * x, weight)
    expected = 3 * linear(*(t.double() for t in (x, weight))) + bias.double()
    assert (out.double() - expected).norm() < tolerance * expected.norm()
    grad = torch.autograd.grad(out.float().sum(), weight)[0]
    assert (grad.double() - 3 * x.double().sum(0)).norm() < 3 * tolerance * grad.double().norm()
