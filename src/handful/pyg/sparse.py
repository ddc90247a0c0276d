"""The part of torch-sparse's ``SparseTensor`` that PyG's GraphSAINT samplers use: rows, walks and induced subgraphs.

It is a subclass of PyG's placeholder, so that PyG accepts it, and raises the same errors for other methods.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch_geometric.typing
from torch import Tensor

from handful.graph import check_edges
from handful.kernels.csr import coo_to_csr
from handful.pyg.operators import random_walk, subgraph

_Placeholder: Any = torch_geometric.typing.SparseTensor


class SparseTensor(_Placeholder):  # type: ignore[misc]
    """A sparse matrix with its entries in order of row and then of column.

    Args:
        row, col, value: of every entry.
        sparse_sizes: rows and columns.

    >>> row, col = torch.tensor([[1, 0, 1], [1, 2, 0]])
    >>> matrix = SparseTensor(row, col, value=torch.tensor([5, 6, 7]), sparse_sizes=(3, 3))
    >>> matrix.coo()
    (tensor([0, 1, 1]), tensor([2, 0, 1]), tensor([6, 7, 5]))
    >>> matrix.saint_subgraph(torch.tensor([0, 1]))[0].coo()
    (tensor([1, 1]), tensor([0, 1]), tensor([7, 5]))
    """

    def __init__(self, row: Tensor, col: Tensor, value: Tensor, sparse_sizes: tuple[int, int]) -> None:
        ends = np.stack([row.numpy(), col.numpy()])
        rows, self._columns = map(int, sparse_sizes)
        check_edges(ends, max(rows, self._columns))
        rowptr, indices, order = map(torch.from_numpy, coo_to_csr(ends[0], ends[1], rows, self._columns, True))
        self._rowptr, self._col, self._value = rowptr, indices.long(), value[order]

    @property
    def storage(self) -> SparseTensor:
        """The storage of torch-sparse; here the matrix itself."""
        return self

    def row(self) -> Tensor:
        """The row of every entry."""
        return torch.repeat_interleave(self._rowptr.diff())

    def value(self) -> Tensor:
        """The value of every entry."""
        return self._value

    def rowcount(self) -> Tensor:
        """The number of entries in each row."""
        return self._rowptr.diff()

    def colcount(self) -> Tensor:
        """The number of entries in each column."""
        return torch.bincount(self._col, minlength=self._columns)

    def coo(self) -> tuple[Tensor, Tensor, Tensor]:
        """Row, column and value of every entry."""
        return self.row(), self._col, self._value

    def saint_subgraph(self, node_idx: Tensor) -> tuple[SparseTensor, Tensor]:
        """The matrix of these nodes, each given once, and the values of its entries."""
        rowptr, col, place = subgraph(self._rowptr, self._col, node_idx)
        size = len(node_idx), len(node_idx)
        inside = SparseTensor(torch.repeat_interleave(rowptr.diff()), col, self._value[place], size)
        return inside, inside._value

    def random_walk(self, start: Tensor, walk_length: int) -> Tensor:
        """``(starts, walk_length + 1)``: walks along the rows, every entry of a row equally likely."""
        return random_walk(self._rowptr, self._col, start, walk_length)
