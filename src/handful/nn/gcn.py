"""GCN (Kipf and Welling, 2017)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from handful.adjacency import Adjacency, Hop
from handful.nn.backbone import Backbone, Conv, linear, multiply_first, own_linear


class GCNConv(Conv):
    """H' = D^(-1/2) (A + I) D^(-1/2) H W + b, with the degrees of the sampled graph."""

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        nn.init.xavier_uniform_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, adj: Adjacency, h: Tensor, skip: nn.Linear | None = None) -> Tensor:
        weight, bias = self.linear.weight, self.linear.bias
        if multiply_first(adj, h, self.linear.out_features):
            moved = linear(h, weight)
            out = adj.gcn(moved) + bias.to(moved.dtype)
        else:
            out = linear(adj.gcn(h), weight, bias)
        return out if skip is None else out + own_linear(adj, h, skip.weight, skip.bias)


class GCN(Backbone):
    """GCN; see ``Backbone`` for the arguments.

    >>> GCN(8, 3, hidden=16, layers=2).depth
    2
    """

    @classmethod
    def aggregation(cls, options: Mapping[str, Any]) -> Hop | None:
        return "gcn"

    def make_conv(self, in_features: int, out_features: int, final: bool) -> Conv:
        return GCNConv(in_features, out_features)
