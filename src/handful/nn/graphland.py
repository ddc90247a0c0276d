"""The GraphSAGE of the GraphLand benchmark (Bazhenov et al., 2024)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from torch import Tensor, nn
from torch.nn import functional as F

from handful.adjacency import Adjacency
from handful.kernels.activation import dropout as drop
from handful.kernels.linear import add_linear, linear
from handful.nn.backbone import Stack, apply
from handful.nn.network import Chunks, Depth, Width, arguments
from handful.random import derive_seed
from handful.settings import Rate


class PairMLP(nn.Module):
    """Linear(2d → d) of [own ‖ mean] → dropout → GELU → Linear → dropout."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.inner = nn.Linear(2 * features, features)
        self.outer = nn.Linear(features, features)

    def forward(self, own: Tensor, mean: Tensor, drop: Callable[[int, Tensor], Tensor]) -> Tensor:
        of_own, of_mean = self.inner.weight.chunk(2, dim=1)  # so that [own ‖ mean] is never made
        return drop(1, self.outer(F.gelu(drop(0, add_linear(linear(own, of_own, self.inner.bias), mean, of_mean)))))


class GraphLandSAGE(Stack):
    """GraphSAGE with an MLP in each layer: h + MLP([LN h ‖ mean of the neighbours' LN h]).

    Before the layers: Linear → dropout → GELU → Linear. After the layers: LN → Linear → GELU → Linear.

    Args:
        in_features, out_features: the number of input features, and the number of logits.
        hidden: d, the width of all layers.
        layers: the number of layers, each with a ``PairMLP``.
        dropout: the fraction of activations that a training step drops.

    >>> GraphLandSAGE(8, 3, hidden=16, layers=2).depth
    2
    """

    whole_layers = 0

    def __init__(
        self, in_features: int, out_features: int, hidden: Width = 512, layers: Depth = 3, *, dropout: Rate = 0.2
    ) -> None:
        super().__init__(**arguments(locals()))
        self.dropout = dropout
        self.inner_input = nn.Linear(in_features, hidden)
        self.outer_input = nn.Linear(hidden, hidden)
        self.norms = nn.ModuleList(nn.LayerNorm(hidden) for _ in range(layers))
        self.mlps = nn.ModuleList(PairMLP(hidden) for _ in range(layers))
        self.output = nn.Sequential(
            nn.LayerNorm(hidden), nn.Linear(hidden, hidden), nn.GELU(), nn.Linear(hidden, out_features)
        )

    def blocks(self) -> list[list[nn.Module]]:
        blocks = [[*layer] for layer in zip(self.norms, self.mlps, strict=True)]
        blocks[0] += [self.inner_input, self.outer_input]
        blocks[-1].append(self.output)
        return blocks

    def embed(self, x: Tensor) -> Tensor:
        inner = apply(self.inner_input, x)
        return self.outer_input(F.gelu(self.drop(0, 0, inner)))  # type: ignore[no-any-return]

    def layer(self, i: int, adj: Adjacency, h: Tensor, normed: Tensor | None = None) -> Tensor:
        """Compute layer ``i``; ``normed`` is LN h, if LN h is already computed."""
        z = self.norms[i](h) if normed is None else normed
        return adj.own(h) + self.mlps[i](adj.own(z), adj.mean(z), partial(self.drop, i + 1))  # type: ignore[no-any-return]

    def infer_layer(self, i: int, adj: Adjacency, h: Tensor, chunks: Chunks) -> Tensor:
        normed = chunks.map_rows(self.norms[i], h)  # every chunk needs the norms of all its neighbours
        return chunks.map_targets(partial(self.layer, i, h=h, normed=normed), adj)

    def head(self, h: Tensor) -> Tensor:
        return self.output(h)  # type: ignore[no-any-return]

    def drop(self, layer: int, which: int, h: Tensor) -> Tensor:
        """Apply dropout to ``h``. ``which`` is the index of this dropout within its ``layer``; layer 0 is the
        embedding.
        """
        return drop(h, self.dropout, self.training, derive_seed(self.step_seed, layer, which))
