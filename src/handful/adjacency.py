"""``Adjacency``: a rectangular CSR from source nodes to target nodes, and its products, with gradients.

The targets are numbered first among the sources: target ``v`` and source ``v`` are the same node. A chunk of rows cut
out for exact inference starts at ``offset`` instead: its target ``v`` is source ``offset + v``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from handful.kernels import csr
from handful.kernels.aggregate import spmm


@dataclass(frozen=True, eq=False)
class Adjacency:
    """One layer's edges.

    Args:
        indptr: int64 ``(targets + 1,)``.
        indices: int32 or int64 ``(edges,)``, the source of each edge.
        num_sources: how many sources there are; at least the number of targets.
        weight: float ``(edges,)`` or ``None``.
        symmetric: square, and every edge has its reverse with the same weight: the transpose is the matrix itself.
        has_loops: whether an edge may lead from a node to itself.
        source_degree: float ``(sources,)``, what ``gcn_scale`` needs of sources whose rows are not part of this
            rectangle: their (weighted) in-degree in the sampled graph plus 1 if they lack a self-loop there. ``None``
            for a square, whose own rows tell.
        normalized: whether ``weight`` already is the aggregation (LADIES, normalised GraphSAINT), self-loops and all:
            then ``mean`` and ``gcn`` are the plain weighted sum.
    """

    indptr: Tensor
    indices: Tensor
    num_sources: int
    weight: Tensor | None = None
    symmetric: bool = False
    has_loops: bool = True
    source_degree: Tensor | None = None
    normalized: bool = False
    offset: int = 0

    @property
    def num_targets(self) -> int:
        return len(self.indptr) - 1

    @property
    def num_edges(self) -> int:
        return len(self.indices)

    @property
    def device(self) -> torch.device:
        return self.indptr.device

    @cached_property
    def degree(self) -> Tensor:
        """The number of edges of each target."""
        return self.indptr.diff()

    @cached_property
    def edge_index(self) -> Tensor:
        """``(2, edges)`` int64 sources and targets, as PyG has them."""
        rows = torch.from_numpy(csr.row_of_edge(self.indptr.cpu().numpy())).to(self.device)
        return torch.stack([self.indices.to(torch.int64), rows])

    @cached_property
    def transposed(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """``indptr``, ``indices`` and ``weight`` of the reversed edges, made once a batch at most."""
        if self.symmetric:
            return self.indptr, self.indices, self.weight
        arrays = self.indptr.cpu().numpy(), self.indices.cpu().numpy()
        indptr, indices, order = csr.transpose(*arrays, self.num_sources, with_order=self.weight is not None)
        weight = None if self.weight is None else self.weight[torch.from_numpy(order).to(self.device)]
        return torch.from_numpy(indptr).to(self.device), torch.from_numpy(indices).to(self.device), weight

    def to(self, device: torch.device | str) -> Adjacency:
        """The same edges on another device."""
        if self.device == torch.device(device):
            return self
        names = ("indptr", "indices", "weight", "source_degree")
        return replace(self, **{n: t.to(device) for n in names if (t := getattr(self, n)) is not None})

    def own(self, x: Tensor) -> Tensor:
        """The rows of ``x``, which has one a source, that belong to the targets."""
        if len(x) == self.num_targets:
            return x  # the gradient of a slice would be copied into zeros
        return x[self.offset : self.offset + self.num_targets]

    def rows(self, lo: int, hi: int) -> Adjacency:
        """The rows of targets ``lo`` to ``hi`` over all sources: a chunk for exact inference."""
        start, stop = int(self.indptr[lo]), int(self.indptr[hi])
        return replace(
            self,
            indptr=self.indptr[lo : hi + 1] - start,
            indices=self.indices[start:stop],
            weight=None if self.weight is None else self.weight[start:stop],
            symmetric=False,
            source_degree=self.degree_with_loops,
            offset=self.offset + lo,
        )

    def square(self) -> Adjacency:
        """The same edges with every source a target too; sources beyond the targets receive nothing."""
        missing = self.num_sources - self.num_targets
        if missing == 0:
            return self
        return replace(self, indptr=torch.cat([self.indptr, self.indptr[-1:].expand(missing)]))

    # -- products -----------------------------------------------------------------------------------------------

    def matmul(
        self, x: Tensor, left: Tensor | None = None, right: Tensor | None = None, onto: Tensor | None = None
    ) -> Tensor:
        """``diag(left) · A · diag(right) · x``, differentiable in ``x``, which has a row for every source; where
        ``onto`` is given, ``onto`` plus that, written over ``onto``."""
        if len(x) != self.num_sources:
            raise ValueError(f"x has {len(x)} rows for {self.num_sources} sources")
        if onto is not None and (onto.shape != (self.num_targets, x.shape[1]) or onto.dtype != x.dtype):
            raise ValueError(
                f"onto must be {(self.num_targets, x.shape[1])} {x.dtype}, got {tuple(onto.shape)} {onto.dtype}"
            )
        return _Product.apply(x, self, left, right, onto)  # type: ignore[no-any-return, no-untyped-call]

    @cached_property
    def mean_scale(self) -> Tensor | None:
        """One over the degree of each target, 0 where it has none; ``None`` where the weights are the mean."""
        if self.normalized:
            return None
        degree = self.degree.to(torch.float32)
        return torch.where(degree > 0, 1.0 / degree, degree)

    def mean(self, x: Tensor, onto: Tensor | None = None) -> Tensor:
        """The mean over each target's edges of (weight ×) the source's row, 0 for a target without edges; where
        ``onto`` is given, ``onto`` plus that, written over ``onto``."""
        return self.matmul(x, left=self.mean_scale, onto=onto)

    @cached_property
    def loop(self) -> Tensor:
        """1 for every target that lacks its own self-loop, which GCN and GAT then add, else 0; float32."""
        out = torch.ones(self.num_targets, device=self.device)
        if self.has_loops:
            sources, targets = self.edge_index
            out[targets[sources == targets + self.offset]] = 0.0
        return out

    @cached_property
    def degree_with_loops(self) -> Tensor:
        """The weighted in-degree of every source, counting a self-loop of weight 1 where it lacks its own; float32."""
        if self.source_degree is not None:
            return self.source_degree
        if self.num_targets < self.num_sources:
            raise ValueError("a rectangle cannot tell the degrees of its sources: give it source_degree")
        if self.weight is None:
            return self.degree.to(torch.float32) + self.loop
        return self.loop.index_add(0, self.edge_index[1], self.weight.to(torch.float32))

    @cached_property
    def gcn_scale(self) -> Tensor:
        """d^(-1/2) of every source, d being its degree with loops; 0 where d is not positive."""
        degree = self.degree_with_loops
        return torch.where(degree > 0, degree.clamp_min(1e-30).rsqrt(), torch.zeros_like(degree))

    def gcn(self, x: Tensor) -> Tensor:
        """D^(-1/2) (A + I) D^(-1/2) x, I adding the self-loops that are missing; the weighted sum if normalised."""
        if self.normalized:
            return self.matmul(x)
        own_scale = self.own(self.gcn_scale)
        out = self.matmul(x, left=own_scale, right=self.gcn_scale)
        return out + (self.loop * own_scale * own_scale).to(x.dtype)[:, None] * self.own(x)


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, adj: Adjacency, left: Tensor | None, right: Tensor | None, onto: Tensor | None
    ) -> Tensor:
        ctx.adj, ctx.left, ctx.right, ctx.added = adj, left, right, onto is not None
        if onto is not None:
            ctx.mark_dirty(onto)
        return spmm(adj.indptr, adj.indices, adj.weight, left, right, x, onto)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        # d/dx of diag(l) A diag(r) x is diag(r) Aᵀ diag(l): the same product with the scales exchanged.
        grad = _TransposedProduct.apply(grads[0], ctx.adj, ctx.left, ctx.right)  # type: ignore[no-untyped-call]
        return grad, None, None, None, grads[0] if ctx.added else None


class _TransposedProduct(torch.autograd.Function):
    """The backward pass as a function of its own, so that it can be differentiated again (R(w) as a penalty)."""

    @staticmethod
    def forward(ctx: Any, grad: Tensor, adj: Adjacency, left: Tensor | None, right: Tensor | None) -> Tensor:
        ctx.adj, ctx.left, ctx.right = adj, left, right
        return spmm(*adj.transposed, right, left, grad)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        return _Product.apply(grads[0], ctx.adj, ctx.left, ctx.right, None), None, None, None  # type: ignore[no-untyped-call]
