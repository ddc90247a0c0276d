"""GAT (Veličković et al., 2018)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from handful.adjacency import Adjacency
from handful.errors import HandfulError
from handful.nn.backbone import Backbone, Conv, linear, own_linear
from handful.nn.network import Chunks, Heads


class GATConv(Conv):
    """h'_v = Σ_u α_vu W h_u + b over u → v and v itself, α_vu = softmax_u(leaky_relu(a_s · W h_u + a_t · W h_v, 0.2)).

    The outputs of the heads are concatenated; if ``average`` is true, they are averaged.
    """

    def __init__(self, in_features: int, out_features: int, heads: int = 1, average: bool = False) -> None:
        super().__init__()
        self.heads, self.average = heads, average
        self.channels = out_features if average else out_features // heads
        self.linear = nn.Linear(in_features, heads * self.channels, bias=False)
        self.source, self.target = (nn.Parameter(torch.empty(heads, self.channels)) for _ in range(2))
        self.bias = nn.Parameter(torch.zeros(out_features))
        for weight in (self.linear.weight, self.source, self.target):
            nn.init.xavier_uniform_(weight)

    def values(self, h: Tensor) -> Tensor:
        """W h, ``(rows, heads, channels)``."""
        return linear(h, self.linear.weight).view(len(h), self.heads, self.channels)

    def scores(self, z: Tensor) -> Tensor:
        """a_s · W h, ``(rows, heads)``, from ``z`` = W h."""
        return (z * self.source).sum(-1)

    def forward(self, adj: Adjacency, h: Tensor, skip: nn.Linear | None = None) -> Tensor:
        z = self.values(h)
        return self.attend(adj, h, z, self.scores(z), skip)

    def attend(self, adj: Adjacency, h: Tensor, z: Tensor, a_source: Tensor, skip: nn.Linear | None) -> Tensor:
        """Compute the output of the layer from the values ``z`` and the scores ``a_source`` of all sources."""
        out = adj.attend(z, a_source, (adj.own(z) * self.target).sum(-1))
        out = (out.mean(1) if self.average else out.flatten(1)) + self.bias.to(out.dtype)
        return out if skip is None else out + own_linear(adj, h, skip.weight, skip.bias)


class GAT(Backbone):
    """GAT; see ``Backbone`` for the arguments. The outputs of the ``heads`` are concatenated to the width ``hidden``.
    If the last convolution gives the logits, it averages the outputs of the heads instead.

    >>> model = GAT(8, 3, hidden=16, layers=2, heads=4)
    >>> model.options["heads"], model.depth
    (4, 2)
    """

    sums_neighbors = False

    def __init__(self, in_features: int, out_features: int, *args: Any, heads: Heads = 1, **options: Any) -> None:
        super().__init__(in_features, out_features, *args, heads=heads, **options)

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        known = super().check(options)
        hidden, heads = known["hidden"], known["heads"]
        if hidden % heads and (known["layers"] > 1 or known["output_projection"]):
            raise HandfulError(f"hidden ({hidden}) must be a multiple of heads ({heads})")
        return known

    def infer_layer(self, i: int, adj: Adjacency, h: Tensor, chunks: Chunks) -> Tensor:
        conv: Any = self.convs[i]
        skip: Any = self.skips[i] if len(self.skips) else None
        dtype = conv.linear.weight.dtype  # a chunk needs the values and scores of all its neighbours
        z = chunks.map_rows(lambda rows: conv.values(rows.to(dtype)), h)
        a_source = chunks.map_rows(conv.scores, z)
        return chunks.map_targets(lambda some: self.act(i, conv.attend(some, h, z, a_source, skip)), adj)

    def make_conv(self, in_features: int, out_features: int, final: bool) -> Conv:
        return GATConv(in_features, out_features, self.options["heads"], average=final)
