"""The small ``SparseTensor`` against scipy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.sparse import coo_array
from torch_geometric.nn import GCNConv

from handful.errors import GraphError
from handful.pyg.sparse import SparseTensor


def test_entries_rows_and_submatrices_are_those_of_scipy() -> None:
    rng = np.random.default_rng(0)
    places = rng.choice(20 * 15, 90, replace=False)
    row, col, value = places // 15, places % 15, np.arange(1, 91)
    ours = SparseTensor(*map(torch.from_numpy, (row, col, value)), sparse_sizes=(20, 15))
    dense = coo_array((value, (row, col)), shape=(20, 15)).toarray()
    found_row, found_col, found = ours.coo()
    assert found is not None
    assert dense[found_row, found_col].tolist() == found.tolist()
    assert len(found) == 90
    assert ours.storage.rowcount().tolist() == (dense > 0).sum(1).tolist()
    assert ours.storage.colcount().tolist() == (dense > 0).sum(0).tolist()
    rows, cols = torch.tensor([3, 19, 0, 3]), torch.tensor([14, 2, 7])
    part = ours[rows, cols]
    wanted = dense[np.ix_(rows, cols)]
    assert str(part) == "SparseTensor(4, 3)"
    assert wanted[part.row(), part.col()].tolist() == part.value().tolist()  # type: ignore[union-attr]
    assert len(part.row()) == (wanted > 0).sum()
    with pytest.raises(GraphError, match="column is asked for twice"):
        ours[rows, torch.tensor([1, 1])]


def test_walks_go_along_the_rows() -> None:
    ours = SparseTensor(row=torch.tensor([0, 1, 2]), col=torch.tensor([1, 2, 0]), value=torch.arange(3))
    assert ours.random_walk(torch.tensor([0, 2]), 3).tolist() == [[0, 1, 2, 0], [2, 0, 1, 2]]


def test_pyg_says_what_needs_torch_sparse() -> None:
    ours = SparseTensor(row=torch.tensor([0, 1]), col=torch.tensor([1, 0]))
    with pytest.raises(ImportError, match="requires 'torch-sparse'"):
        GCNConv(3, 3)(torch.eye(2, 3), ours)
