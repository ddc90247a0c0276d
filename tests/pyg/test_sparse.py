"""The small ``SparseTensor`` against scipy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.sparse import coo_array
from torch_geometric.nn import GCNConv

from handful.pyg.operators import SparseTensor


def test_entries_rows_and_subgraphs_are_those_of_scipy() -> None:
    rng = np.random.default_rng(0)
    places = rng.choice(20 * 20, 90, replace=False)
    row, col, value = places // 20, places % 20, np.arange(1, 91)
    ours = SparseTensor(*map(torch.from_numpy, (row, col, value)), sparse_sizes=(20, 20))
    dense = coo_array((value, (row, col)), shape=(20, 20)).toarray()
    found_row, found_col, found = ours.coo()
    assert dense[found_row, found_col].tolist() == found.tolist()
    assert len(found) == 90
    assert ours.storage.rowcount().tolist() == (dense > 0).sum(1).tolist()
    assert ours.storage.colcount().tolist() == (dense > 0).sum(0).tolist()
    nodes = torch.tensor([3, 19, 0, 7, 4, 11, 12, 13])
    part, values = ours.saint_subgraph(nodes)
    wanted = dense[np.ix_(nodes, nodes)]
    rows, cols, _ = part.coo()
    assert wanted[rows, cols].tolist() == values.tolist() == part.storage.value().tolist()
    assert len(rows) == (wanted > 0).sum()


def test_walks_go_along_the_rows() -> None:
    ours = SparseTensor(torch.tensor([0, 1, 2]), torch.tensor([1, 2, 0]), torch.arange(3), (3, 3))
    assert ours.random_walk(torch.tensor([0, 2]), 3).tolist() == [[0, 1, 2, 0], [2, 0, 1, 2]]


def test_pyg_says_what_needs_torch_sparse() -> None:
    ours = SparseTensor(torch.tensor([0, 1]), torch.tensor([1, 0]), torch.ones(2), (2, 2))
    with pytest.raises(ImportError, match="requires 'torch-sparse'"):
        GCNConv(3, 3)(torch.eye(2, 3), ours)
