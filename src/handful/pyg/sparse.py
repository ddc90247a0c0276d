"""The part of torch-sparse's ``SparseTensor`` that PyG's GraphSAINT samplers use: rows, walks and induced subgraphs.

It is a subclass of PyG's placeholder, so that PyG accepts it, and raises the same errors for other methods.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch_geometric.typing
from torch import Tensor

from handful.errors import GraphError
from handful.graph import check_edges
from handful.kernels.csr import coo_to_csr, row_of_edge
from handful.kernels.neighbors import Known
from handful.pyg.operators import random_walk
from handful.pyg.sampling import Relation, induced

_Placeholder: Any = torch_geometric.typing.SparseTensor


class SparseTensor(_Placeholder):  # type: ignore[misc]
    """A sparse matrix with its entries in order of row and then of column.

    Args:
        row, col: of every entry.
        value: of every entry, if it has one.
        sparse_sizes: rows and columns; as many as are needed when ``None``.

    >>> matrix = SparseTensor(row=torch.tensor([1, 0, 1]), col=torch.tensor([1, 2, 0]), value=torch.tensor([5, 6, 7]))
    >>> matrix.coo()
    (tensor([0, 1, 1]), tensor([2, 0, 1]), tensor([6, 7, 5]))
    >>> matrix[torch.tensor([1]), torch.tensor([0, 1])].coo()
    (tensor([0, 0]), tensor([0, 1]), tensor([7, 5]))
    """

    def __init__(
        self, row: Tensor, col: Tensor, value: Tensor | None = None, sparse_sizes: tuple[int, int] | None = None
    ) -> None:
        ends = np.stack([row.numpy(), col.numpy()])
        if sparse_sizes is None:
            sparse_sizes = (int(row.max()) + 1, int(col.max()) + 1) if len(row) else (0, 0)
        check_edges(ends, max(sparse_sizes))
        self._sizes = sparse_sizes
        self._rowptr, self._col, order = coo_to_csr(ends[0], ends[1], *sparse_sizes, True)
        self._value = None if value is None else value[torch.from_numpy(order)]

    @property
    def storage(self) -> SparseTensor:
        """The storage of torch-sparse; here the matrix itself."""
        return self

    def row(self) -> Tensor:
        """The row of every entry."""
        return torch.from_numpy(row_of_edge(self._rowptr))

    def col(self) -> Tensor:
        """The column of every entry."""
        return torch.from_numpy(self._col.astype(np.int64))

    def value(self) -> Tensor | None:
        """The value of every entry."""
        return self._value

    def rowcount(self) -> Tensor:
        """How many entries each row has."""
        return torch.from_numpy(np.diff(self._rowptr))

    def colcount(self) -> Tensor:
        """How many entries each column has."""
        return torch.from_numpy(np.bincount(self._col, minlength=self._sizes[1]))

    def coo(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """Row, column and value of every entry."""
        return self.row(), self.col(), self._value

    def __getitem__(self, index: tuple[Tensor, Tensor]) -> SparseTensor:
        rows, cols = index
        if len(torch.unique(cols)) < len(cols):
            raise GraphError("a column is asked for twice: that needs torch-sparse")
        relation = Relation(rows="", cols="", rowptr=self._rowptr, col=self._col)
        row, col, place = map(torch.from_numpy, induced(relation, Known(rows.numpy()), Known(cols.numpy())))
        value = None if self._value is None else self._value[place]
        return SparseTensor(row, col, value, (len(rows), len(cols)))

    def saint_subgraph(self, node_idx: Tensor) -> tuple[SparseTensor, Tensor]:
        """The matrix of these nodes, and the values of its entries."""
        inside = self[node_idx, node_idx]
        assert inside._value is not None
        return inside, inside._value

    def random_walk(self, start: Tensor, walk_length: int) -> Tensor:
        """``(starts, walk_length + 1)``: walks along the rows, every entry of a row equally likely."""
        dtype = torch.from_numpy(self._col).dtype
        rowptr = torch.from_numpy(self._rowptr.astype(self._col.dtype, copy=False))
        walk = random_walk(rowptr, torch.from_numpy(self._col), start.to(dtype), walk_length)
        return walk.to(start.dtype)

    def __repr__(self) -> str:
        return f"SparseTensor{self._sizes}"
