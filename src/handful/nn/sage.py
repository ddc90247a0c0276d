"""GraphSAGE (Hamilton et al., 2017) with mean aggregation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from handful.adjacency import Adjacency, Hop, KnownHop
from handful.kernels.aggregate import Scaled, result_dtype, spmm
from handful.kernels.dispatch import Fused, Saved, backend
from handful.kernels.linear import add_linear, as_asked, outer, product
from handful.kernels.sparse import is_sparse
from handful.nn.backbone import Backbone, Conv, linear, multiply_first


class SAGEConv(Conv):
    """h'_v = W_n · mean_{u→v} h_u + b + W_s · h_v; if ``self_loops``, the mean also includes h_v.

    The skip connection and W_s act on the same input, so one product with the sum of their weights replaces two
    products. The two have separate parameters, and each gets its exact gradient.
    """

    widens = True

    def __init__(self, in_features: int, out_features: int, self_loops: bool = False) -> None:
        super().__init__()
        self.self_loops = self_loops
        self.neighbor = nn.Linear(in_features, out_features)
        self.own = nn.Linear(in_features, out_features, bias=False)

    def forward(self, adj: Adjacency, h: Tensor, skip: nn.Linear | None = None) -> Tensor:
        first, fused = multiply_first(adj, h, self.neighbor.out_features), self.fused(adj)
        halves = h.dtype == torch.float16 and adj.in_memory  # products by blocks convert the rows themselves
        if halves and (first or not fused or self.own.weight.dtype != torch.float32):
            h = h.to(self.own.weight.dtype)
        neighbor, own, bias = self.weights(skip)
        if isinstance(adj, KnownHop):  # one product of [own ‖ mean]
            return linear(adj.typed(h), torch.cat([own, neighbor], 1), bias)
        if is_sparse(h):
            both, width = linear(h, torch.cat([neighbor, own])), len(own)
            around = (adj.mean_with_loops if self.self_loops else adj.mean)(both[:, :width])
            return around + adj.own(both[:, width:]) + bias.to(both.dtype)
        if self.self_loops:
            return add_linear(linear(adj.own(h), own, bias), adj.mean_with_loops(h), neighbor)
        convolution = _Convolution(adj, first)
        return convolution(as_asked(h), neighbor, own, bias) if fused else convolution.twin(h, neighbor, own, bias)

    def fused(self, adj: Adjacency) -> bool:
        """Whether the fused CPU implementation is used."""
        return backend(adj.device) == "numba" and adj.own_rows is None and adj.in_memory and not self.self_loops

    def weights(self, skip: nn.Linear | None) -> tuple[Tensor, Tensor, Tensor]:
        """Three tensors: Wₙ, Wₛ plus the weight of ``skip``, and b plus the bias of ``skip``."""
        neighbor, own, bias = self.neighbor.weight, self.own.weight, self.neighbor.bias
        return (neighbor, own, bias) if skip is None else (neighbor, own + skip.weight, bias + skip.bias)


@dataclass(frozen=True)
class _Convolution(Fused):
    """mean(h) Wₙᵀ + h Wₛᵀ + b. The product with Wₙ comes before the mean if ``first`` is true.

    On the CPU, the other terms are added to the array of the first term, which saves a pass over memory.
    """

    adj: Adjacency
    first: bool

    def twin(self, h: Tensor, neighbor: Tensor, own: Tensor, bias: Tensor) -> Tensor:
        h = h.to(neighbor.dtype) if h.dtype == torch.float16 and self.adj.in_memory else h
        mine = linear(self.adj.own(h), own, bias)
        if self.first:
            return self.adj.mean(linear(h, neighbor), base=mine)
        return add_linear(mine, self.adj.mean(h), neighbor)

    def forward(self, h: Tensor, neighbor: Tensor, own: Tensor, bias: Tensor) -> tuple[Tensor, Saved]:
        adj = self.adj
        mean = partial(spmm, Scaled(adj.indptr, adj.indices, adj.weight, adj.mean_scale))
        around, width, mine = None, len(own), adj.own(h).to(result_dtype(h))
        wn, ws = neighbor.to(mine.dtype), own.to(mine.dtype)
        with torch.autocast("cpu", enabled=False):
            if self.first and adj.num_targets == adj.num_sources:  # one wide product is faster than two
                both = product(h, torch.cat([wn, ws]).T)
                out = mean(both[:, :width], base=both[:, width:], bias=bias)
            elif self.first:
                out = product(mine, ws.T, onto=mean(product(h, wn.T), bias=bias))
            else:
                around = mean(h)
                out = product(mine, ws.T, onto=product(around, wn.T, bias))
        return out, (h, neighbor, own, bias, around)

    def backward(self, grad: Tensor, saved: tuple[Any, ...], needed: tuple[bool, ...]) -> tuple[Tensor | None, ...]:
        h, neighbor, own, bias, around = saved
        adj, mine = self.adj, self.adj.own(h).to(result_dtype(h))
        wn, ws = neighbor.to(mine.dtype), own.to(mine.dtype)
        back = partial(spmm, Scaled(*adj.transposed, None, adj.mean_scale))
        # In this order the input of each product is in the cache, and grad_h is there for the layer below.
        grad_bias, grad_own, grad_h = grad.sum(0, dtype=bias.dtype), outer(grad, mine), None
        if self.first:
            moved = back(grad)
            grad_neighbor = outer(moved, h)
            if needed[0]:
                grad_h = product(moved, wn)
        else:
            grad_neighbor = outer(grad, around)
            if needed[0]:
                grad_h = back(product(grad, wn))
        if grad_h is not None:
            product(grad, ws, onto=adj.own(grad_h))
        return grad_h, grad_neighbor, grad_own, grad_bias


class SAGE(Backbone):
    """GraphSAGE; see ``Backbone`` for the arguments. If ``self_loops`` is true, each node counts as one of its own
    neighbours.

    >>> SAGE(8, 3, hidden=16, layers=2).options["hidden"]
    16
    """

    def __init__(
        self, in_features: int, out_features: int, *args: Any, self_loops: bool = False, **options: Any
    ) -> None:
        super().__init__(in_features, out_features, *args, self_loops=self_loops, **options)

    @classmethod
    def aggregation(cls, options: Mapping[str, Any]) -> Hop | None:
        return "mean_with_loops" if options["self_loops"] else "mean"

    def make_conv(self, in_features: int, out_features: int, final: bool) -> Conv:
        return SAGEConv(in_features, out_features, self.options["self_loops"])
