from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from handful.kernels import subgraph

subgraph_triton = pytest.importorskip("handful.kernels.subgraph_triton")

pytestmark = pytest.mark.triton


@settings(max_examples=30, deadline=None)
@given(
    degrees=st.lists(st.sampled_from([0, 1, 3, 17, 60]), min_size=1, max_size=20),
    m=st.integers(1, 5),
    with_edges=st.booleans(),
    chunk=st.sampled_from([16, 1024]),
    seed=st.integers(0, 1000),
)
def test_the_parts_are_those_of_the_cpu(degrees: list[int], m: int, with_edges: bool, chunk: int, seed: int) -> None:
    """Byte for byte; some nodes are in no part, some rows are longer than a piece."""
    rng = np.random.default_rng(seed)
    indptr = np.concatenate([[0], np.cumsum(degrees)])
    rows = [np.sort(rng.integers(0, len(degrees), degree)) for degree in degrees]
    indices = np.concatenate(rows).astype(np.int32)
    part = rng.integers(0, m + 1, len(degrees)).astype(np.uint8)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subgraph_triton, "CHUNK", chunk)
        tensors = (torch.from_numpy(t) for t in (indptr, indices, part))
        mine = list(subgraph_triton.parts(*tensors, m, with_edges))
    places = np.arange(len(indices)) if with_edges else None
    theirs = list(subgraph.parts(indptr, indices, part, m, places))
    assert len(mine) == len(theirs) == m
    for ours, expected in zip(mine, theirs, strict=True):
        for a, b in zip(ours[: 3 + with_edges], expected[: 3 + with_edges], strict=True):
            assert np.array_equal(a.numpy(), b)
            assert a.numpy().dtype == b.dtype
