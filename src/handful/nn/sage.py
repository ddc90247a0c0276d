"""GraphSAGE (Hamilton et al., 2017) with mean aggregation."""

from __future__ import annotations

from torch import Tensor, nn

from handful.adjacency import Adjacency
from handful.kernels.linear import add_linear, linear
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
        weight: Tensor = self.own.weight
        bias: Tensor = self.neighbor.bias
        if skip is not None:
            weight, bias = weight + skip.weight, bias + skip.bias
        out = linear(adj.own(h), weight, bias)
        if multiply_first(adj, self.neighbor.in_features, self.neighbor.out_features):
            return adj.mean(linear(h, self.neighbor.weight), onto=out)
        return add_linear(out, adj.mean(h), self.neighbor.weight)


class SAGE(Backbone):
    """GraphSAGE; see ``Backbone`` for the arguments."""

    def make_conv(self, in_features: int, out_features: int, final: bool) -> Conv:
        return SAGEConv(in_features, out_features)
