from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from handful.adjacency import Adjacency
from handful.kernels.attention import Scores, attention_torch
from handful.kernels.attention_numba import forward
from handful.kernels.blocks import add_block, attend_block, by_blocks
from handful.kernels.csr import coo_to_csr
from handful.kernels.threads import get_threads, set_threads
from rounding import assert_within, attention_bounds, sum_bound


def a_rectangle(rows: int, sources: int, edges: int, seed: int) -> tuple[np.random.Generator, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    indptr, indices, _ = coo_to_csr(rng.integers(0, rows, edges), rng.integers(0, sources, edges), rows, sources)
    return rng, indptr, indices


@given(
    st.integers(1, 9), st.integers(1, 40), st.integers(0, 60), st.integers(0, 6), st.booleans(), st.booleans(),
    st.integers(0, 2**32 - 1),
)  # fmt: skip
@settings(max_examples=60)
def test_blocks_add_up_to_the_product(
    rows: int, sources: int, count: int, shift: int, weighted: bool, scaled: bool, seed: int
) -> None:
    rng, indptr, indices = a_rectangle(rows, sources, count, seed)
    x = rng.normal(size=(sources, 3))
    weight = rng.random(count if weighted else 0)
    right = rng.random(sources if scaled else 0)
    edges = by_blocks(indptr, indices, weight, sources, shift)
    out = np.zeros((rows, 3))
    for block in range(len(edges.starts) - 1):
        some = slice(block << shift, (block + 1) << shift)
        add_block(edges, block, right[some], x[some], out)
    dense = np.zeros((rows, sources))
    np.add.at(dense, (np.repeat(np.arange(rows), np.diff(indptr)), indices), weight if weighted else 1.0)
    right = right[:, None] if scaled else np.ones((sources, 1))
    terms = torch.from_numpy(dense @ (np.abs(x) * right))
    assert_within(*map(torch.from_numpy, (out, dense @ (x * right))), sum_bound(torch.float64, terms, count))


@given(st.integers(1, 9), st.integers(0, 20), st.integers(0, 60), st.integers(0, 5), st.integers(0, 2**32 - 1))
@settings(max_examples=40)
def test_attention_by_blocks_is_attention(rows: int, more: int, count: int, shift: int, seed: int) -> None:
    sources = rows + more
    rng, indptr, indices = a_rectangle(rows, sources, count, seed)
    first = int(rng.integers(0, more + 1))
    x, a_src, a_dst = rng.normal(size=(sources, 2, 3)), rng.normal(size=(sources, 2)), rng.normal(size=(rows, 2))
    adj = Adjacency(torch.from_numpy(indptr), torch.from_numpy(indices), sources)
    wide = [torch.from_numpy(a) for a in (x, a_src, a_dst)]
    found = forward(adj.indptr, adj.indices, Scores(wide[0][..., :0], *wide[1:], first), keep=False)[2].numpy()
    score = a_src[first : first + rows] + a_dst
    share = np.exp(np.where(score > 0, score, 0.2 * score) - found[0]) * found[1]
    out = share[..., None] * x[first : first + rows]
    edges = by_blocks(indptr, indices, np.empty(0), sources, shift)
    for block in range(len(edges.starts) - 1):
        begin, some = block << shift, slice(block << shift, (block + 1) << shift)
        attend_block(edges, block, begin - first, a_dst, found, a_src[some], x[some], out)
    expected = attention_torch(adj, *wide, first=first)
    assert_within(torch.from_numpy(out), expected, attention_bounds(*wide, torch.ones(1), count + 1, count + 1)[0])


def test_threads_never_share_a_row() -> None:
    rng, indptr, indices = a_rectangle(40, 3000, 40_000, 0)
    x = rng.normal(size=(3000, 2))
    found, before = [], get_threads()
    try:
        for threads in (1, 4):
            set_threads(threads)
            edges, out = by_blocks(indptr, indices, np.empty(0), 3000, 12), np.zeros((40, 2))
            ranges = edges.ranges(0)
            assert [a for a, _ in ranges[1:]] == [b for _, b in ranges[:-1]]
            rows = [set(edges.rows[a:b].tolist()) for a, b in ranges]
            assert sum(map(len, rows)) == len(set().union(*rows)) == 40
            add_block(edges, 0, np.empty(0), x, out)
            found.append(out)
    finally:
        set_threads(before)
    assert np.array_equal(*found)
