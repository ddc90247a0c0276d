"""SGFormer (Wu et al., 2023): global attention, linear in the number of nodes, in parallel with a GCN."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from handful.adjacency import Adjacency
from handful.batch import Batch
from handful.errors import SamplerError
from handful.nn.backbone import Norm, NormAct, apply
from handful.nn.network import Chunks, Depth, Heads, Network, Width, arguments, device_of, moved
from handful.random import derive_seed
from handful.settings import Rate, Share

Sums = tuple[Tensor, Tensor, Tensor, Tensor]
"""KᵀV and Kᵀ1 of each head, and ‖Q‖² and ‖K‖². All are sums over rows, so the sums of chunks can be added."""


class GlobalAttention(nn.Module):
    """(Q̂ (K̂ᵀ V) + N V) / (Q̂ (K̂ᵀ 1) + N), Q̂ = Q / ‖Q‖_F and K̂ = K / ‖K‖_F over all N nodes and heads.

    Every head has the full width, and the output is the mean over the heads. If ``use_weight`` is false, V is the input
    itself.
    """

    def __init__(self, features: int, heads: int, use_weight: bool) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key = (nn.Linear(features, features * heads) for _ in range(2))
        self.value = nn.Linear(features, features * heads) if use_weight else None

    def values(self, h: Tensor) -> Tensor:
        return h.unsqueeze(1) if self.value is None else self.split(self.value(h))

    def split(self, z: Tensor) -> Tensor:
        return z.view(len(z), self.heads, -1)

    def sums(self, h: Tensor) -> Sums:
        """The contribution of these rows to the sums over all nodes."""
        q, k = self.query(h), self.split(self.key(h))
        v = self.values(h).expand(-1, self.heads, -1)
        wide = torch.promote_types(q.dtype, torch.float32)
        q2, k2 = (z.square().sum(dtype=wide) for z in (q, k))
        return torch.einsum("nhm,nhd->hmd", k, v), k.sum(0, dtype=wide), q2, k2

    def attend(self, h: Tensor, sums: Sums, nodes: int) -> Tensor:
        """Compute the output of these rows from the sums over all ``nodes`` nodes."""
        kv, k1, q2, k2 = sums
        scale = (q2 * k2).clamp_min(1e-30).rsqrt()  # both norms at once, on the small side of the product
        q, v = self.split(self.query(h)), self.values(h)
        above = torch.einsum("nhm,hmd->nhd", q, kv * scale) + nodes * v
        below = torch.einsum("nhm,hm->nh", q, k1 * scale) + nodes
        return (above / below.unsqueeze(-1)).mean(1)


class GraphConv(nn.Module):
    """H' = Linear(ÂH) with Â = D^(-1/2) (A + I) D^(-1/2), or Linear([ÂH ‖ H₀]) if ``use_init``; H₀ is the embedding."""

    def __init__(self, features: int, use_init: bool) -> None:
        super().__init__()
        self.use_init = use_init
        self.linear = nn.Linear(2 * features if use_init else features, features)

    def forward(self, adj: Adjacency, h: Tensor, first: Tensor) -> Tensor:
        around = adj.gcn(h)
        return self.linear(torch.cat([around, adj.own(first)], 1) if self.use_init else around)  # type: ignore[no-any-return]


class Branch(nn.Module):
    """A branch of SGFormer: a Linear, then ``layers``. The Linear and each layer are followed by their own entry of
    ``acts``.
    """

    def __init__(self, in_features: int, hidden: int, layers: Sequence[nn.Module], acts: Sequence[nn.Module]) -> None:
        super().__init__()
        self.input = nn.Linear(in_features, hidden)
        self.layers, self.acts = nn.ModuleList(layers), nn.ModuleList(acts)

    def embed(self, x: Tensor, seed: int) -> Tensor:
        return self.acts[0](apply(self.input, x), seed)  # type: ignore[no-any-return]

    def blocks(self) -> list[list[nn.Module]]:
        blocks: list[list[nn.Module]] = [[layer, act] for layer, act in zip(self.layers, self.acts[1:], strict=True)]
        blocks[0] += [self.input, self.acts[0]]
        return blocks


class SGFormer(Network):
    """Global attention over the nodes of the batch, in parallel with a GCN. A Linear maps w · GCN + (1 − w) · attention
    to the logits.

    Both branches begin with Linear → norm → ReLU → dropout. An attention layer is α · attention(h) + (1 − α) · h → norm
    [→ ReLU if ``use_act``] → dropout; a layer of the GCN is conv → norm → ReLU → dropout, plus the branch's first
    embedding. The architecture and the defaults are those of the authors' code and commands.

    Args:
        in_features, out_features: the number of input features, and the number of logits.
        hidden: the width of both branches.
        layers: the number of attention layers.
        heads: the number of heads, each of width ``hidden``; the heads are averaged.
        gnn_layers: the number of layers of the GCN.
        dropout: the fraction of activations that a training step drops.
        norm: the norm of the GCN: `bn`, `ln` or `none`; the attention always has LayerNorm.
        residual: whether attention layers mix in their input, and GCN layers add the branch's first embedding.
        alpha: α, the weight of the attention in a layer; the weight of the layer's input is 1 − α.
        graph_weight: w, the weight of the GCN; the weight of the attention is 1 − w.
        use_graph: whether there is a GCN in parallel with the attention.
        use_weight: whether the attention has a weight matrix for its values.
        use_act: whether a ReLU follows each attention layer.
        use_init: whether each convolution of the GCN also takes the branch's first embedding as input.
        two_logits: whether a binary task (``out_features`` is 1) uses two logits, with softmax and cross-entropy,
            instead of one.

    >>> SGFormer(8, 3, hidden=16, gnn_layers=2).depth
    2
    """

    sums_neighbors = False
    sees_all = True

    def __init__(
        self,
        in_features: int,
        out_features: int,
        hidden: Width = 256,
        layers: Depth = 1,
        *,
        heads: Heads = 1,
        gnn_layers: Depth = 3,
        dropout: Rate = 0.5,
        norm: Norm = "bn",
        residual: bool = True,
        alpha: Share = 0.5,
        graph_weight: Share = 0.5,
        use_graph: bool = True,
        use_weight: bool = True,
        use_act: bool = False,
        use_init: bool = False,
        two_logits: bool = False,
    ) -> None:
        super().__init__(**arguments(locals()))
        self.alpha = alpha if residual else 1.0
        attention = [GlobalAttention(hidden, heads, use_weight) for _ in range(layers)]
        acts = [NormAct("ln", hidden, dropout, relu=i == 0 or use_act) for i in range(layers + 1)]
        self.attention = Branch(in_features, hidden, attention, acts)
        self.graph: Branch | None = None
        if use_graph:
            convs = [GraphConv(hidden, use_init) for _ in range(gnn_layers)]
            normed = [NormAct(norm, hidden, dropout) for _ in range(gnn_layers + 1)]
            self.graph = Branch(in_features, hidden, convs, normed)
        self.output = nn.Linear(hidden, self.out_features)

    @classmethod
    def hops(cls, options: Mapping[str, Any]) -> int:
        """The receptive field of the GCN: one hop per layer. The attention depends on every node."""
        return int(options["gnn_layers"]) if options["use_graph"] else 0

    @property
    def whole_layers(self) -> int:
        """All layers of the GCN, since the attention of the same model depends on all nodes."""
        return self.depth

    def too_small(self, batch: Batch) -> bool:
        return self.options["norm"] == "bn" and self.graph is not None and batch.num_nodes < 2

    def blocks(self) -> list[list[nn.Module]]:
        """The attention layers, then the layers of the GCN."""
        blocks = self.attention.blocks() + ([] if self.graph is None else self.graph.blocks())
        blocks[-1].append(self.output)
        return blocks

    def attend(self, i: int, h: Tensor, sums: Sums, nodes: int) -> Tensor:
        """Compute attention layer ``i`` for some rows, from the sums over all ``nodes`` nodes."""
        layer: Any = self.attention.layers[i]
        mixed = self.alpha * layer.attend(h, sums, nodes) + (1 - self.alpha) * h
        return self.attention.acts[i + 1](mixed, self._seed(0, i + 1))  # type: ignore[no-any-return]

    def convolve(self, i: int, adj: Adjacency, h: Tensor, first: Tensor) -> Tensor:
        """Compute layer ``i`` of the GCN; ``first`` is the branch's embedding."""
        assert self.graph is not None
        out: Tensor = self.graph.acts[i + 1](self.graph.layers[i](adj, h, first), self._seed(1, i + 1))
        return out + adj.own(first) if self.options["residual"] else out

    def head(self, *branches: Tensor) -> Tensor:
        """Compute the logits from the outputs of the branches."""
        return self.output(self.mix(*branches))  # type: ignore[no-any-return]

    def mix(self, attended: Tensor, convolved: Tensor | None = None) -> Tensor:
        """w · GCN + (1 − w) · attention."""
        w = self.options["graph_weight"]
        return attended if convolved is None else w * convolved + (1 - w) * attended

    def forward(self, batch: Batch) -> Tensor:
        if not batch.shared:
            raise SamplerError("all layers of SGFormer share one subgraph: use full, rns, cluster, saint or neighbor")
        return self.infer(batch.x, batch.layers[0], Chunks(max(1, batch.num_nodes)))

    def infer(self, x: Tensor, adj: Adjacency, chunks: Chunks) -> Tensor:
        return self._through(self.head, x, adj, chunks).to(x.device)

    def embeddings(self, x: Tensor, adj: Adjacency, chunks: Chunks) -> Tensor:
        return self._through(self.mix, x, adj, chunks)

    def _through(self, last: Callable[..., Tensor], x: Tensor, adj: Adjacency, chunks: Chunks) -> Tensor:
        """Compute both branches, and apply ``last`` to their outputs. An attention layer needs two passes over the
        rows: one for the sums over all nodes, and one for the output.
        """

        def mapped(i: int, layer: Callable[..., Tensor], *of: Tensor) -> Tensor:
            return chunks.map_rows(partial(self.run_layer, i, layer), *of)

        homes = [device_of(block) for block in self.blocks()]
        attended = mapped(0, partial(self.attention.embed, seed=self._seed(0, 0)), x)
        for i, layer in enumerate(self.attention.layers):
            assert isinstance(layer, GlobalAttention)
            attended = moved(attended, homes[i])
            parts = [self.run_layer(i, layer.sums, rows) for rows in chunks.split(attended)]
            sums = tuple(sum(part) for part in zip(*parts, strict=True))
            attended = mapped(i, partial(self.attend, i, sums=sums, nodes=len(x)), attended)
        if self.graph is None:
            return mapped(-1, last, attended)
        start = len(self.attention.layers)
        convolved = first = mapped(start, partial(self.graph.embed, seed=self._seed(1, 0)), x)
        for i in range(self.depth):
            adj, convolved, first = (moved(value, homes[start + i]) for value in (adj, convolved, first))
            conv = partial(self.convolve, i, h=convolved, first=first)
            convolved = chunks.map_targets(partial(self.run_layer, start + i, conv), adj)
        return mapped(-1, last, attended, convolved)

    def _seed(self, branch: int, layer: int) -> int:
        return derive_seed(self.step_seed, branch, layer)
