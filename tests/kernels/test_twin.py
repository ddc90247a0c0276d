from __future__ import annotations

import torch
from torch import Tensor

from handful.kernels.twin import twin_gradients


def product(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    return x.square() * y * z


def test_gradients_are_those_of_the_twin_and_can_be_differentiated() -> None:
    x, y, z = torch.tensor([2.0, 3.0]), torch.tensor([5.0, 7.0]), torch.tensor([1.0, 2.0])
    x.requires_grad_()
    z.requires_grad_()
    gx, gy, gz = twin_gradients(product, (x, y, z), torch.tensor([1.0, 10.0]))
    assert gx is not None
    assert gz is not None
    assert gy is None  # y needs none
    assert gx.tolist() == [2 * 2 * 5 * 1, 10 * 2 * 3 * 7 * 2]
    assert gz.tolist() == [4 * 5, 10 * 9 * 7]
    # d/dx of grad · 2·x·y·z is grad · 2·y·z.
    assert torch.autograd.grad(gx.sum(), x)[0].tolist() == [2 * 5 * 1, 10 * 2 * 7 * 2]
