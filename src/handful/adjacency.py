"""``Adjacency``: the edges from source nodes to target nodes as a rectangular CSR matrix, and its differentiable
products.

The first sources are the targets: target ``v`` and source ``v`` are the same node. A chunk of rows for exact inference
has an ``offset``: target ``v`` of the chunk is source ``offset + v``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

import torch
from torch import Tensor

from handful.kernels import csr
from handful.kernels.aggregate import Scaled, spmm
from handful.kernels.attention import attention
from handful.kernels.dispatch import backend
from handful.kernels.sparse import take_columns

Hop = Literal["mean", "mean_with_loops", "gcn"]
"""The names of the aggregations that are linear in the features; each is a method of ``Adjacency``."""


@dataclass(frozen=True, eq=False)
class Adjacency:
    """The edges of one layer.

    Args:
        indptr: int64 ``(targets + 1,)``, the start of each target's row in ``indices``.
        indices: int32 or int64 ``(edges,)``, the source of each edge.
        num_sources: the number of sources; at least the number of targets.
        weight: float ``(edges,)``; ``None`` for an unweighted graph.
        symmetric: whether the matrix equals its transpose: every edge has a reverse edge of the same weight.
        has_loops: whether an edge may lead from a node to itself.
        source_degree: float ``(sources,)``, the (weighted) in-degree of each source in the sampled graph, plus 1 if the
            source has no self-loop there. ``gcn_scale`` needs ``source_degree`` for sources that are not targets. A
            square matrix needs no ``source_degree``, since its rows give the degrees.
        normalized: whether ``weight`` already contains the normalisation and the self-loops (LADIES, normalised
            GraphSAINT). If ``normalized``, ``mean`` and ``gcn`` are plain weighted sums.
        offset: the index of the first target among the sources.
        own_rows: int64 ``(targets,)``, the index of each target among the sources, if the targets are not the first
            sources (LADIES); -1 for a target that is not a source.

    >>> adj = Adjacency(torch.tensor([0, 2, 3]), torch.tensor([1, 2, 0], dtype=torch.int32), num_sources=3)
    >>> adj.num_targets, adj.num_edges
    (2, 3)
    """

    in_memory: ClassVar[bool] = True
    """Whether products read the source rows from a tensor in memory, not from a file or a precomputed result."""

    indptr: Tensor
    indices: Tensor
    num_sources: int
    weight: Tensor | None = None
    symmetric: bool = False
    has_loops: bool = True
    source_degree: Tensor | None = None
    normalized: bool = False
    offset: int = 0
    own_rows: Tensor | None = None

    @property
    def num_targets(self) -> int:
        """The number of rows."""
        return len(self.indptr) - 1

    @property
    def num_edges(self) -> int:
        """The number of edges, including repeated edges."""
        return len(self.indices)

    @property
    def device(self) -> torch.device:
        """The device of the tensors."""
        return self.indptr.device

    @cached_property
    def degree(self) -> Tensor:
        """int64 ``(targets,)``, the number of edges of each target.

        >>> Adjacency(torch.tensor([0, 2, 3]), torch.tensor([1, 2, 0]), 3).degree
        tensor([2, 1])
        """
        return self.indptr.diff()

    @cached_property
    def edge_index(self) -> Tensor:
        """int64 ``(2, edges)``, sources and targets, in PyG's format.

        >>> Adjacency(torch.tensor([0, 2, 3]), torch.tensor([1, 2, 0]), 3).edge_index
        tensor([[1, 2, 0],
                [0, 0, 1]])
        """
        return torch.stack([self.indices.to(torch.int64), self.target_of_edge])

    @property
    def target_of_edge(self) -> Tensor:
        """int64 ``(edges,)``, the target of each edge.

        >>> Adjacency(torch.tensor([0, 2, 3]), torch.tensor([1, 2, 0]), 3).target_of_edge
        tensor([0, 0, 1])
        """
        return torch.repeat_interleave(self.degree, output_size=self.num_edges)

    @cached_property
    def transposed(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """``indptr``, ``indices`` and ``weight`` of the reversed edges, computed on first use.

        >>> Adjacency(torch.tensor([0, 2, 3]), torch.tensor([1, 2, 0]), 3).transposed[0]
        tensor([0, 1, 2, 3])
        """
        if self.symmetric:
            return self.indptr, self.indices, self.weight
        if backend(self.device) == "numba":
            arrays = self.indptr.numpy(), self.indices.numpy()
            result = csr.transpose(*arrays, self.num_sources, with_order=self.weight is not None)
            indptr, indices, order = (torch.from_numpy(array) for array in result)
        else:
            indptr, indices, order = csr.transpose_torch(self.indptr, self.indices, self.num_sources)
        return indptr, indices, None if self.weight is None else self.weight.index_select(0, order)

    def to(self, device: torch.device | str) -> Adjacency:
        """The same edges on ``device``."""
        return self if self.device == torch.device(device) else self.map(lambda tensor: tensor.to(device))

    def map(self, function: Callable[[Tensor], Tensor]) -> Adjacency:
        """A copy of this adjacency with ``function`` applied to every tensor."""
        names = ("indptr", "indices", "weight", "source_degree", "own_rows")
        result: dict[str, Any] = {n: function(t) for n in names if (t := getattr(self, n)) is not None}
        return replace(self, **result)

    def own(self, x: Tensor) -> Tensor:
        """The rows of ``x``, ``(sources, …)``, that belong to the targets; zeros for a target that is not a source.

        >>> Adjacency(torch.tensor([0, 1]), torch.tensor([1]), 2).own(torch.tensor([[5.0], [6.0]]))
        tensor([[5.]])
        """
        if self.own_rows is not None:
            missing = (self.own_rows < 0).view(-1, *[1] * (x.ndim - 1))
            return x.index_select(0, self.own_rows.clamp_min(0)).masked_fill(missing, 0.0)
        if len(x) == self.num_targets:
            return x  # without a slice, whose backward pass would copy the gradient
        return x[self.offset : self.offset + self.num_targets]

    def rows(self, lo: int, hi: int) -> Adjacency:
        """The rows of targets ``lo`` to ``hi - 1``, with all sources: a chunk for exact inference.

        >>> Adjacency(torch.tensor([0, 1, 2]), torch.tensor([1, 0]), 2).rows(1, 2).edge_index
        tensor([[0],
                [0]])
        """
        if (lo, hi) == (0, self.num_targets):
            return self
        return self.cut(lo, hi, source_degree=self.degree_with_loops)

    def cut(self, lo: int, hi: int, **fields: Any) -> Self:
        """The rows of targets ``lo`` to ``hi - 1``, with the given ``fields`` replaced."""
        start, stop = int(self.indptr[lo]), int(self.indptr[hi])
        return replace(
            self,
            indptr=self.indptr[lo : hi + 1] - start,
            indices=self.indices[start:stop],
            weight=None if self.weight is None else self.weight[start:stop],
            symmetric=False,
            offset=self.offset + lo,
            **fields,
        )

    def square(self) -> Adjacency:
        """The same edges as a square matrix: every source is also a target, and the added targets have no edges.

        >>> Adjacency(torch.tensor([0, 1]), torch.tensor([1]), 2).square().indptr
        tensor([0, 1, 1])
        """
        missing = self.num_sources - self.num_targets
        if missing == 0:
            return self
        return replace(self, indptr=torch.cat([self.indptr, self.indptr[-1:].expand(missing)]))

    def mass(self, hop: Hop) -> Tensor:
        """float32 ``(targets,)``, the divisor of ``hop``: the sum of the weights of a target's edges, including the
        self-loop that ``hop`` adds.

        >>> Adjacency(torch.tensor([0, 2, 2]), torch.tensor([0, 1]), 2).mass("gcn")
        tensor([2., 1.])
        """
        return self.row_weight if hop == "mean" else self.own_degree_with_loops

    def operator(self, hop: Hop) -> tuple[Adjacency, Tensor]:
        """An adjacency whose plain weighted sum equals the aggregation ``hop``, and the ``mass`` of ``hop``.

        Self-loops that ``hop`` adds are edges of this adjacency.

        >>> adj = Adjacency(torch.tensor([0, 2, 2]), torch.tensor([0, 1]), 2)
        >>> mean, mass = adj.operator("mean")
        >>> mean.weight, mass
        (tensor([0.5000, 0.5000]), tensor([2., 0.]))
        """
        own, edges = torch.arange(self.num_targets, device=self.device), self
        mass = self.mass(hop)
        if hop != "mean" and bool(self.loop.any()):
            ones = torch.ones(self.num_edges, device=self.device) if self.weight is None else self.weight
            edges = replace(self, weight=ones).with_edges(own[self.loop > 0], own[self.loop > 0] + self.offset, 1.0)
        targets = edges.target_of_edge
        weight = self.own(self.gcn_scale)[targets] if hop == "gcn" else inverse(mass)[targets]
        if hop == "gcn":
            weight = weight * self.gcn_scale[edges.indices.long()]
        if edges.weight is not None:
            weight = weight * edges.weight
        return replace(edges, weight=weight, symmetric=False, normalized=True, source_degree=None), mass

    def with_edges(self, targets: Tensor, sources: Tensor, weight: Tensor | float) -> Adjacency:
        """Add one edge to each of ``targets``, at the end of its row. The targets must be distinct.

        >>> adj = Adjacency(torch.tensor([0, 1, 2]), torch.tensor([1, 0]), 2, weight=torch.ones(2))
        >>> adj.with_edges(torch.tensor([0]), torch.tensor([0]), 0.5).weight
        tensor([1.0000, 0.5000, 1.0000])
        """
        assert self.weight is not None
        more = torch.zeros_like(self.indptr)
        more[targets + 1] = 1
        more = more.cumsum(0)
        indptr = self.indptr + more
        place = torch.arange(self.num_edges, device=self.device) + more[self.target_of_edge]
        last, count = indptr[targets + 1] - 1, self.num_edges + len(targets)
        indices, weights = self.indices.new_empty(count), self.weight.new_empty(count)
        indices[place], indices[last] = self.indices, sources.to(indices.dtype)
        weights[place], weights[last] = self.weight, torch.as_tensor(weight, dtype=weights.dtype, device=self.device)
        return replace(self, indptr=indptr, indices=indices, weight=weights, symmetric=False)

    # -- products -----------------------------------------------------------------------------------------------

    def matmul(
        self, x: Tensor, left: Tensor | None = None, right: Tensor | None = None, base: Tensor | None = None
    ) -> Tensor:
        """The product ``diag(left) · A · diag(right) · x``, twice differentiable in ``x``.

        Args:
            x: ``(sources, F)``.
            left: ``(targets,)``, or ``None`` for ones.
            right: ``(sources,)``, or ``None`` for ones.
            base: a tensor that is added to the product: ``(targets, F)``, with the dtype of ``x``.

        Returns:
            ``(targets, F)``, with the dtype of ``x``.

        >>> adj = Adjacency(torch.tensor([0, 2, 3]), torch.tensor([1, 2, 0]), 3)
        >>> adj.matmul(torch.tensor([[1.0], [10.0], [100.0]]))
        tensor([[110.],
                [  1.]])
        """
        if len(x) != self.num_sources:
            raise ValueError(f"x has {len(x)} rows for {self.num_sources} sources")
        if base is not None and (base.shape != (self.num_targets, x.shape[1]) or base.dtype != x.dtype):
            wanted = f"{(self.num_targets, x.shape[1])} {x.dtype}"
            raise ValueError(f"base must be {wanted}, got {tuple(base.shape)} {base.dtype}")
        return _Product.apply(x, base, (self, left, right), False)  # type: ignore[no-any-return, no-untyped-call]

    @cached_property
    def mean_scale(self) -> Tensor | None:
        """float32 ``(targets,)``, the factor of each target in ``mean``: 1 / ``row_weight``, or 0 if that weight is 0.
        The result is ``None`` if ``normalized``.

        >>> Adjacency(torch.tensor([0, 2, 2]), torch.tensor([0, 1]), 2).mean_scale
        tensor([0.5000, 0.0000])
        """
        return None if self.normalized else inverse(self.row_weight)

    @property
    def row_weight(self) -> Tensor:
        """float32 ``(targets,)``, the sum of the weights of a target's edges; the degree of the target if there are no
        weights.

        >>> Adjacency(torch.tensor([0, 2, 2]), torch.tensor([0, 1]), 2, weight=torch.tensor([0.5, 1.0])).row_weight
        tensor([1.5000, 0.0000])
        """
        if self.weight is None:
            return self.degree.to(torch.float32)
        if backend(self.device) == "numba":
            return torch.zeros(self.num_targets).index_add_(0, self.edge_index[1], self.weight.to(torch.float32))
        # A GPU adds by index in any order; a product adds in the order of the edges.
        ones = torch.ones(self.num_sources, 1, device=self.device)
        return spmm(Scaled(self.indptr, self.indices, self.weight), ones).squeeze(1)

    def mean(self, x: Tensor, base: Tensor | None = None) -> Tensor:
        """The (weighted) mean over the sources of each target: Σ_u w_vu·x_u / Σ_u w_vu, or 0 if the weights sum to 0.

        Args:
            x: ``(sources, F)``.
            base: a tensor that is added to the mean: ``(targets, F)``, with the dtype of ``x``.

        >>> Adjacency(torch.tensor([0, 2, 2]), torch.tensor([0, 1]), 2).mean(torch.tensor([[1.0], [3.0]]))
        tensor([[2.],
                [0.]])
        """
        return self.matmul(x, left=self.mean_scale, base=base)

    def mean_with_loops(self, x: Tensor) -> Tensor:
        """``mean`` with a self-loop of weight 1 added to every target that has none. If ``normalized``, the result is
        the plain weighted sum.

        If the graph has no self-loops, the result is (x_v + Σ_u w_vu·x_u) / (1 + Σ_u w_vu).

        >>> Adjacency(torch.tensor([0, 1, 1]), torch.tensor([1]), 2).mean_with_loops(torch.tensor([[1.0], [3.0]]))
        tensor([[2.],
                [3.]])
        """
        if self.normalized:
            return self.matmul(x)
        return self._add_loops(x, self.mean_scale_with_loops, None)

    @cached_property
    def mean_scale_with_loops(self) -> Tensor:
        """float32 ``(targets,)``, 1 / the degree with self-loops; 0 if the degree is 0."""
        return inverse(self.own_degree_with_loops)

    @cached_property
    def loop(self) -> Tensor:
        """float32 ``(targets,)``, the weight of the self-loop that GCN and GAT add: 1 for a target without one, else 0.

        >>> Adjacency(torch.tensor([0, 1, 2]), torch.tensor([0, 0]), 2).loop
        tensor([0., 1.])
        """
        out = torch.ones(self.num_targets, device=self.device)
        if not self.has_loops:
            return out
        # Other edges write to an extra place, so the host does not wait for the device.
        targets, out = self.target_of_edge, torch.cat([out, out.new_empty(1)])
        at = torch.where(self.indices == targets + self.offset, targets, self.num_targets)
        return out.index_fill_(0, at, 0.0)[:-1]

    @cached_property
    def degree_with_loops(self) -> Tensor:
        """float32 ``(sources,)``, the (weighted) in-degree of each source; a missing self-loop counts with weight 1.

        >>> Adjacency(torch.tensor([0, 1, 2]), torch.tensor([0, 0]), 2).degree_with_loops
        tensor([1., 2.])
        """
        if self.source_degree is not None:
            return self.source_degree
        if self.num_targets < self.num_sources:
            raise ValueError("a rectangle does not have the degrees of its sources: give it source_degree")
        return self.own_degree_with_loops

    @property
    def own_degree_with_loops(self) -> Tensor:
        """float32 ``(targets,)``, ``degree_with_loops`` of the targets only."""
        return self.row_weight + self.loop

    @cached_property
    def gcn_scale(self) -> Tensor:
        """float32 ``(sources,)``, d^(-1/2), where d is ``degree_with_loops``; 0 if d is not positive.

        >>> Adjacency(torch.tensor([0, 1, 5]), torch.tensor([0, 0, 0, 0, 1]), 2).gcn_scale
        tensor([1.0000, 0.5000])
        """
        return inverse_root(self.degree_with_loops)

    def attend(self, x: Tensor, a_source: Tensor, a_target: Tensor) -> Tensor:
        """The attention-weighted sum over each target's sources and the target itself; see
        ``handful.kernels.attention``.

        Args:
            x: ``(sources, heads, channels)``.
            a_source, a_target: ``(sources, heads)`` and ``(targets, heads)``, the two terms of an edge's score.

        >>> pair = Adjacency(torch.tensor([0, 1, 2]), torch.tensor([1, 0]), 2)
        >>> pair.attend(torch.tensor([[[1.0]], [[3.0]]]), torch.zeros(2, 1), torch.zeros(2, 1))
        tensor([[[2.]],
        <BLANKLINE>
                [[2.]]])
        """
        return attention(self, x, a_source, a_target, first=self.offset)

    def gcn(self, x: Tensor) -> Tensor:
        """D^(-1/2) (A + I) D^(-1/2) x, where I contains only the missing self-loops. If ``normalized``, the result is
        the plain weighted sum.

        Args:
            x: ``(sources, F)``.

        >>> pair = Adjacency(torch.tensor([0, 1, 2]), torch.tensor([1, 0]), 2)
        >>> pair.gcn(torch.tensor([[1.0], [3.0]])).round(decimals=4)
        tensor([[2.],
                [2.]])
        """
        if self.normalized:
            return self.matmul(x)
        return self._add_loops(x, self.own(self.gcn_scale), self.gcn_scale)

    def _add_loops(self, x: Tensor, left: Tensor, right: Tensor | None) -> Tensor:
        """``diag(left) · (A + I) · diag(right) · x``, where I contains only the missing self-loops."""
        out = self.matmul(x, left, right)
        scale = self.loop * left * (1.0 if right is None else self.own(right))
        return out + scale.to(out.dtype)[:, None] * self.own(x)


@dataclass(frozen=True, eq=False)
class KnownHop(Adjacency):
    """A layer whose aggregation is precomputed, so that it needs no edges.

    Each input row consists of a node's own features and the aggregated features of its neighbours, concatenated.

    >>> rows = torch.tensor([[1.0, 5.0]])
    >>> layer = KnownHop.of(rows, torch.float32)
    >>> layer.own(rows), layer.mean(rows), layer.gcn(rows)
    (tensor([[1.]]), tensor([[5.]]), tensor([[5.]]))
    """

    in_memory: ClassVar[bool] = False
    dtype: torch.dtype = torch.float32

    @classmethod
    def of(cls, rows: Tensor, dtype: torch.dtype) -> KnownHop:
        """The layer for the input ``rows``. The layer converts the rows to ``dtype``, the dtype of the parameters."""
        none = torch.zeros(1, dtype=torch.int64, device=rows.device)
        return cls(none.expand(len(rows) + 1), none[:0], len(rows), normalized=True, dtype=dtype)

    def typed(self, x: Tensor) -> Tensor:
        """``x`` in the dtype of the parameters."""
        return x.to(self.dtype)

    def own(self, x: Tensor) -> Tensor:
        return self.typed(take_columns(x, 0, x.shape[1] // 2))

    def matmul(self, x: Tensor, *scales: Any, **options: Any) -> Tensor:
        return self.typed(take_columns(x, x.shape[1] // 2, x.shape[1] // 2))


def inverse(total: Tensor) -> Tensor:
    """1 / ``total``; 0 if ``total`` is not positive.

    >>> inverse(torch.tensor([4.0, 0.0]))
    tensor([0.2500, 0.0000])
    """
    return torch.where(total > 0, 1.0 / total, 0.0)


def inverse_root(degree: Tensor) -> Tensor:
    """``degree``^(-1/2); 0 if ``degree`` is not positive.

    >>> inverse_root(torch.tensor([4.0, 0.0]))
    tensor([0.5000, 0.0000])
    """
    return torch.where(degree > 0, degree.clamp_min(1e-30).rsqrt(), torch.zeros_like(degree))


Matrix = tuple[Adjacency, Tensor | None, Tensor | None]
"""The edges, the factor of each target, and the factor of each source."""


class _Product(torch.autograd.Function):
    """The product diag(left) A diag(right) x. If ``turned``, the transpose of this matrix is multiplied by x instead.

    The product with the transposed matrix is the backward pass of the product, and vice versa. So gradients can be
    differentiated again, which the penalty R(w) needs.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, base: Tensor | None, matrix: Matrix, turned: bool) -> Tensor:
        ctx.matrix, ctx.turned = matrix, turned
        adj, left, right = matrix
        if turned:
            return spmm(Scaled(*adj.transposed, right, left), x, base)
        return spmm(Scaled(adj.indptr, adj.indices, adj.weight, left, right), x, base)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        grad = _Product.apply(grads[0], None, ctx.matrix, not ctx.turned)  # type: ignore[no-untyped-call]
        return grad, grads[0] if ctx.needs_input_grad[1] else None, None, None
