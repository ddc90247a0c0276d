"""GraphSAGE (Hamilton et al., 2017) with mean aggregation."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from handful.adjacency import Adjacency
from handful.kernels.aggregate import spmm
from handful.kernels.linear import add_linear, linear
from handful.kernels.twin import twin_gradients
from handful.nn.backbone import Backbone, Conv, multiply_first


class SAGEConv(Conv):
    """h'_v = W_n · mean_{u→v} h_u + b + W_s · h_v.

    The skip and W_s act on the same input, so one product with the sum of their weights serves both; each keeps its
    own parameters and gets its own exact gradient.
    """

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.neighbor = nn.Linear(in_features, out_features)
        self.own = nn.Linear(in_features, out_features, bias=False)

    def forward(self, adj: Adjacency, h: Tensor, skip: nn.Linear | None = None) -> Tensor:
        own: Tensor = self.own.weight
        bias: Tensor = self.neighbor.bias
        neighbor = self.neighbor.weight
        if skip is not None:
            own, bias = own + skip.weight, bias + skip.bias
        if not multiply_first(adj, h, self.neighbor.out_features):
            return add_linear(linear(adj.own(h), own, bias), adj.mean(h), neighbor)
        if h.device.type == "cpu" and h.dtype == own.dtype and not torch.is_autocast_enabled("cpu"):
            return _Convolution.apply(h, neighbor, own, bias, adj)  # type: ignore[no-any-return, no-untyped-call]
        return convolution(h, neighbor, own, bias, adj)


def convolution(h: Tensor, neighbor: Tensor, own: Tensor, bias: Tensor, adj: Adjacency) -> Tensor:
    """A(h Wₙᵀ) + h Wₛᵀ + b, multiplied before it is aggregated."""
    return adj.mean(linear(h, neighbor), onto=linear(adj.own(h), own, bias))


class _Convolution(torch.autograd.Function):
    """The same, every sum landing where its first term is: no pass over the activations but products."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, neighbor: Tensor, own: Tensor, bias: Tensor, adj: Adjacency) -> Tensor:
        ctx.save_for_backward(h, neighbor, own, bias)
        ctx.adj = adj
        moved = torch.mm(h, neighbor.T)
        out = spmm(adj.indptr, adj.indices, adj.weight, adj.mean_scale, None, moved, bias=bias)
        return out.addmm_(adj.own(h), own.T)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (h, neighbor, own, bias), adj = ctx.saved_tensors, ctx.adj
        if torch.is_grad_enabled():

            def twin(h: Tensor, neighbor: Tensor, own: Tensor, bias: Tensor) -> Tensor:
                return convolution(h, neighbor, own, bias, adj)

            return *twin_gradients(twin, (h, neighbor, own, bias), grads[0]), None
        grad, mine = grads[0].contiguous(), adj.own(h)
        indptr, indices, weight = adj.transposed
        back = spmm(indptr, indices, weight, None, adj.mean_scale, grad)
        grad_h = None
        if ctx.needs_input_grad[0]:
            grad_h = torch.mm(back, neighbor)
            adj.own(grad_h).addmm_(grad, own)
        return grad_h, torch.mm(back.T, h), torch.mm(grad.T, mine), grad.sum(0), None


class SAGE(Backbone):
    """GraphSAGE; see ``Backbone`` for the arguments."""

    def make_conv(self, in_features: int, out_features: int, final: bool) -> Conv:
        return SAGEConv(in_features, out_features)
