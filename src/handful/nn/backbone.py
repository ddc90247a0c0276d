"""The common base of message-passing models: a stack of layers on ``Batch.layers``, between two projections."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import partial
from itertools import zip_longest
from typing import Any, Literal

import torch
from torch import Tensor, nn

from handful.adjacency import Adjacency, Hop, KnownHop
from handful.batch import Batch
from handful.errors import HandfulError
from handful.kernels import linear as dense_linear
from handful.kernels.activation import act, batch_norm_act, dropout, layer_norm_act
from handful.kernels.gather import rows_between
from handful.kernels.sparse import arrays_of, is_sparse, sparse_rows, take_columns
from handful.nn.network import Chunks, Depth, Network, Width, arguments, device_of, moved
from handful.random import derive_seed
from handful.settings import Rate

Norm = Literal["bn", "ln", "none"]


class Stack(Network):
    """embed → layer 0 → layer 1 → … → head."""

    embeds = True
    """Whether ``embed`` in evaluation mode does more than convert the dtype."""
    last_gives_logits = False
    """Whether the output of the last layer is already the logits, so that ``head`` does nothing."""

    @abstractmethod
    def embed(self, x: Tensor) -> Tensor:
        """Compute the input of the first layer from the features."""

    @abstractmethod
    def layer(self, i: int, adj: Adjacency, h: Tensor) -> Tensor:
        """Compute layer ``i``: the input has a row for every source of ``adj``, and the output has a row for every
        target.
        """

    @abstractmethod
    def head(self, h: Tensor) -> Tensor:
        """Compute the logits from the last layer's output."""

    def forward(self, batch: Batch) -> Tensor:
        known = self.knows_hop(batch.x)
        stack = batch.stack(self.depth - known)
        h = rows_between(batch.x, 0, stack[0].num_sources) if stack else batch.x
        h = self.run_layer(0, self.first_layer if known else self.embed, h)
        for i, adj in enumerate(stack, int(known)):
            h = self.run_layer(i, self.layer, i, adj, h)
        return self.run_layer(-1, self.head, h).to(batch.x.device)

    def infer(self, x: Tensor, adj: Adjacency, chunks: Chunks) -> Tensor:
        h = self._through(self.depth, x, adj, chunks)
        return (h if self.last_gives_logits else chunks.map_rows(self.head, h)).to(x.device)

    def embeddings(self, x: Tensor, adj: Adjacency, chunks: Chunks) -> Tensor:
        return self._through(self.depth - self.last_gives_logits, x, adj, chunks).to(x.device)

    def knows_hop(self, x: Tensor) -> bool:
        """Whether each row of ``x`` is [own ‖ aggregated features], and not only the node's own features."""
        return self.hop is not None and x.shape[1] > self.in_features

    def first_layer(self, x: Tensor) -> Tensor:
        """Compute layer 0 from rows [own ‖ aggregated features]. Any further columns, which belong to later hops, are
        ignored.
        """
        rows = take_columns(x, 0, 2 * self.in_features)
        return self.layer(0, KnownHop.of(rows, next(self.parameters()).dtype), rows)

    def _through(self, layers: int, x: Tensor, adj: Adjacency, chunks: Chunks) -> Tensor:
        """The output of the first ``layers`` layers, computed in chunks of rows."""
        h = x
        # A product by blocks or with sparse rows, or a precomputed first hop, converts the rows itself.
        if self.embeds or not (self.knows_hop(x) or is_sparse(x) or not adj.in_memory):
            h = chunks.map_rows(partial(self.run_layer, 0, self.embed), x)
        for i, block in enumerate(self.blocks()[:layers]):
            adj, h = (moved(value, device_of(block)) for value in (adj, h))
            known = i == 0 and self.knows_hop(x)
            h = chunks.map_rows(self.first_layer, h) if known else self.infer_layer(i, adj, h, chunks)
        return h

    def infer_layer(self, i: int, adj: Adjacency, h: Tensor, chunks: Chunks) -> Tensor:
        """Compute ``layer`` in chunks of targets. A subclass may override this method, for example to compute only once
        the values that all chunks need.
        """
        return chunks.map_targets(partial(self.layer, i, h=h), adj)


class NormAct(nn.Module):
    """norm → ReLU → dropout, in one pass. If ``relu`` is false, the ReLU is left out."""

    def __init__(self, norm: Norm, features: int, p: float, relu: bool = True) -> None:
        super().__init__()
        self.p, self.relu = p, relu
        kinds: dict[str, Any] = {"bn": nn.BatchNorm1d, "ln": nn.LayerNorm}
        self.norm: nn.BatchNorm1d | nn.LayerNorm | None = kinds[norm](features) if norm in kinds else None

    def forward(self, h: Tensor, seed: int) -> Tensor:
        norm = self.norm
        if norm is not None and not self.relu:
            return dropout(norm(h), self.p, self.training, seed)
        if norm is None:
            return act(h, self.p, self.training, seed)
        if isinstance(norm, nn.LayerNorm):
            return layer_norm_act(h, norm.weight, norm.bias, norm.eps, self.p, self.training, seed)
        if self.training and len(h) < 2:
            raise HandfulError(f"batch norm needs at least two nodes, got {len(h)}: use larger batches, or norm 'ln'")
        if self.training and norm.num_batches_tracked is not None:
            norm.num_batches_tracked.add_(1)
        known, momentum = (norm.weight, norm.bias, norm.running_mean, norm.running_var), norm.momentum or 0.0
        return batch_norm_act(h, *known, self.training, momentum, norm.eps, self.p, seed)


class Conv(nn.Module, ABC):
    """A graph convolution from the sources of an adjacency to its targets, plus an optional linear skip connection."""

    widens = False
    """Whether the convolution accepts float16 features without a conversion, and computes in the dtype of its
    parameters.
    """

    @abstractmethod
    def forward(self, adj: Adjacency, h: Tensor, skip: nn.Linear | None = None) -> Tensor:
        """``conv(h) [+ skip(h of the targets)]``; ``h`` has a row for every source."""


class Backbone(Stack):
    """A stack of ``layers`` convolutions.

    A layer is conv(h) [+ Linear(h) if ``residual``] → norm → ReLU → dropout. If there is no output projection, the
    output of the last convolution is the logits. If there is one, norm, ReLU and dropout follow every convolution, and
    a final Linear gives the logits. An input projection is a Linear and dropout before the first layer.

    The paper uses the architectures of tunedGNN (Luo et al., 2024). tunedGNN also drops features (``input_dropout``),
    uses two logits for two classes (``two_logits``), and adds a self-loop to every node, as GCN and GAT always do.

    Args:
        in_features: the number of input features.
        out_features: the number of logits, usually ``graph.num_outputs``: one per class, or one if there are two
            classes.
        hidden: the width of the layers.
        layers: the number of convolutions.
        dropout: the fraction of activations that a training step drops.
        norm: the normalisation: `bn` (BatchNorm), `ln` (LayerNorm) or `none`.
        residual: add a Linear of the layer's input to the output of its convolution.
        input_dropout: the fraction of features that a training step drops.
        two_logits: whether a binary task (``out_features`` is 1) uses two logits, with softmax and cross-entropy,
            instead of one.
        input_projection: whether there is a Linear, with dropout, before the first layer.
        output_projection: whether a Linear after the last layer gives the logits.
        options: the options of the subclass.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        hidden: Width = 256,
        layers: Depth = 4,
        *,
        dropout: Rate = 0.5,
        norm: Norm = "bn",
        residual: bool = True,
        input_projection: bool = False,
        output_projection: bool = False,
        input_dropout: Rate = 0.0,
        two_logits: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(**arguments(locals()))
        out_features = self.out_features
        self.embeds, self.last_gives_logits = input_projection, not output_projection
        self.dropout, self.input_dropout = dropout, input_dropout
        first = hidden if input_projection else in_features
        widths = [first, *[hidden] * (layers - 1), (hidden if output_projection else out_features)]
        self.input_projection = nn.Linear(in_features, hidden) if input_projection else None
        self.output_projection = nn.Linear(hidden, out_features) if output_projection else None
        self.convs, self.skips, self.acts = (nn.ModuleList() for _ in range(3))
        for i in range(layers):
            final = i == layers - 1 and not output_projection
            self.convs.append(self.make_conv(widths[i], widths[i + 1], final))
            if residual:
                self.skips.append(nn.Linear(widths[i], widths[i + 1]))
            if not final:
                self.acts.append(NormAct(norm, widths[i + 1], dropout))

    @abstractmethod
    def make_conv(self, in_features: int, out_features: int, final: bool) -> Conv:
        """Make the convolution of one layer; ``final`` is true if the output of the convolution is the logits."""

    @classmethod
    def first_hop(cls, options: Mapping[str, Any]) -> Hop | None:
        return None if options["input_projection"] or options["input_dropout"] else cls.aggregation(options)

    @classmethod
    def aggregation(cls, options: Mapping[str, Any]) -> Hop | None:
        """The linear aggregation of a layer; ``None`` if the aggregation is not linear."""
        return None

    @property
    def whole_layers(self) -> int:
        """The number of layers with BatchNorm in training mode, whose statistics depend on all nodes of a batch."""
        return len(self.acts) if self.options["norm"] == "bn" and self.training else 0

    def too_small(self, batch: Batch) -> bool:
        known = self.knows_hop(batch.x)
        rows = [batch.num_nodes] * known + [adj.num_targets for adj in batch.stack(self.depth - known)]
        return self.options["norm"] == "bn" and any(count < 2 for count in rows[: len(self.acts)])

    def blocks(self) -> list[list[nn.Module]]:
        layers = zip_longest(self.convs, self.skips, self.acts)
        blocks = [[module for module in layer if module is not None] for layer in layers]
        if self.input_projection is not None:
            blocks[0].append(self.input_projection)
        if self.output_projection is not None:
            blocks[-1].append(self.output_projection)
        return blocks

    def embed(self, x: Tensor) -> Tensor:
        if x.dtype == torch.float16 and self.convs[0].widens and not (self.embeds or self.input_dropout):
            return x
        x, seed = x.to(next(self.parameters()).dtype), derive_seed(self.step_seed, len(self.convs) + 1)
        if self.input_dropout and is_sparse(x):
            indptr, columns, values = arrays_of(x)
            values = dropout(values[:, None], self.input_dropout, self.training, seed)[:, 0]
            x = sparse_rows(indptr, columns, values, width=x.shape[1])
        elif self.input_dropout:
            x = dropout(x, self.input_dropout, self.training, seed)
        if self.input_projection is None:
            return x
        return dropout(apply(self.input_projection, x), self.dropout, self.training, derive_seed(self.step_seed, 0))

    def layer(self, i: int, adj: Adjacency, h: Tensor) -> Tensor:
        return self.act(i, self.convs[i](adj, h, self.skips[i] if len(self.skips) else None))

    def act(self, i: int, h: Tensor) -> Tensor:
        """Norm, ReLU and dropout after convolution ``i``; the identity after the convolution that gives the logits."""
        return self.acts[i](h, derive_seed(self.step_seed, i + 1)) if i < len(self.acts) else h

    def head(self, h: Tensor) -> Tensor:
        return h if self.output_projection is None else self.output_projection(h)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``x · weightᵀ + bias``, for dense or sparse ``x`` ``(N, in)`` and ``weight`` ``(out, in)``."""
    if not is_sparse(x):
        return dense_linear.linear(x, weight, bias)
    indptr, columns, values = arrays_of(x)
    product = Adjacency(indptr.long(), columns, x.shape[1], values).matmul(dense_linear.as_asked(weight.T.contiguous()))
    return product if bias is None else product + bias.to(product.dtype)


def apply(layer: nn.Linear, x: Tensor) -> Tensor:
    """``layer(x)``, for dense or sparse ``x`` in the dtype of the layer or in float16."""
    x = x.to(layer.weight.dtype)
    return linear(x, layer.weight, layer.bias) if is_sparse(x) else layer(x)


def own_linear(adj: Adjacency, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """``linear`` of the targets' own rows of ``x``."""
    if is_sparse(x) and adj.in_memory:
        return adj.own(linear(x, weight)) + bias
    return linear(adj.own(x), weight, bias)


def multiply_first(adj: Adjacency, x: Tensor, out_features: int) -> bool:
    """Whether A(XW) is cheaper than (AX)W: always for sparse X. For dense X, the cost model counts one gathered value
    as eight multiplications.

    If X needs a gradient, A(XW) is chosen even if it costs up to 10% more, since it stores no AX for the backward pass.
    If X needs no gradient, (AX)W needs no aggregation in the backward pass.
    """
    if not adj.in_memory:
        return False  # X is read by blocks: every chunk of targets would compute X W again
    if is_sparse(x):
        return True
    in_features = x.shape[1]
    before = adj.num_sources * in_features * out_features + 8 * adj.num_edges * out_features
    after = adj.num_targets * in_features * out_features + 8 * adj.num_edges * in_features
    return before < after * (1.1 if x.requires_grad else 1.0)


def parameter_count(model: nn.Module) -> int:
    """The number of trainable parameters."""
    return sum(p.numel() for p in model.parameters() if p.requires_grad)
