"""The reference in plain numpy is right."""

from __future__ import annotations

import numpy as np
import pytest

from handful.datasets.synthetic import BlockModel, generate
from handful.kernels.neighbors import sample
from scripts import script

pytest.importorskip("torch_geometric")


@pytest.mark.slow
def test_the_numpy_reference_samples_what_the_kernel_samples() -> None:
    numpy_neighbors = script("neighbors").numpy_neighbors
    graph = generate(BlockModel(nodes=300, degree=10, features=0, seed=1))
    indptr, indices = graph.topology
    seeds = np.array([5, 2, 77])
    nodes, target, _ = numpy_neighbors(indptr, indices, seeds, (500, 500), np.random.default_rng(0))
    whole = sample(indptr, indices, seeds, (-1, -1), 0)
    assert set(nodes.tolist()) == set(whole.nodes.tolist())
    assert len(target) == len(whole.edges)
    few, rows, cols = numpy_neighbors(indptr, indices, seeds, (4, 2), np.random.default_rng(0))
    assert np.array_equal(few[:3], seeds)
    assert len(np.unique(few)) == len(few)
    degree = np.diff(indptr)[few]
    assert np.bincount(rows, minlength=len(few))[:3].tolist() == np.minimum(degree[:3], 4).tolist()
    for v, u in zip(few[rows].tolist(), few[cols].tolist(), strict=True):
        assert u in indices[indptr[v] : indptr[v + 1]]
