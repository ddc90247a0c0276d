from __future__ import annotations

import itertools
from itertools import pairwise

import numpy as np
import pytest

from handful import Graph
from handful.kernels.threads import get_threads, set_threads
from handful.kernels.walks import walk


def lollipop() -> Graph:
    """A hub 0 that receives from 1 to 5 (from 5 twice), all of which receive from 0; 6 receives from nobody."""
    pairs = [(u, 0) for u in (1, 2, 3, 4, 5, 5)] + [(0, v) for v in range(1, 6)] + [(6, 1)]
    return Graph.from_edge_index(np.array(pairs).T, 7)


def test_steps_take_every_edge_of_the_row_equally_often() -> None:
    graph = lollipop()
    walks = walk(*graph.topology, np.zeros(60_000, np.int64), 2, 3)
    assert (walks[:, 0] == 0).all()
    first = np.bincount(walks[:, 1], minlength=7)
    expected = 10_000 * np.array([0, 1, 1, 1, 1, 2, 0])
    assert np.abs(first - expected).max() < 5 * np.sqrt(10_000)
    from_one = walks[walks[:, 1] == 1, 2]  # node 1 receives from 0 and 6
    assert set(from_one) == {0, 6}
    assert abs((from_one == 6).mean() - 0.5) < 5 * 0.5 / np.sqrt(len(from_one))
    # The two steps of a walk are independent: the second from 1 does not know where its walker stood in the array.
    assert abs(np.corrcoef(from_one == 6, np.arange(len(from_one)))[0, 1]) < 0.05


def test_every_step_follows_an_edge_or_stays_where_there_is_none() -> None:
    graph = lollipop()
    edges = {(u, v) for u, v in graph.edge_index.T.tolist()}
    for row in walk(*graph.topology, np.arange(7), 6, 0).tolist():
        for v, u in pairwise(row):
            assert (u, v) in edges or (v == u == 6)


def test_the_number_of_threads_does_not_matter() -> None:
    rng = np.random.default_rng(0)
    graph = Graph.from_edge_index(rng.integers(0, 500, (2, 4000)), 500)
    roots = rng.integers(0, 500, 6000)
    before = get_threads()
    try:
        set_threads(1)
        alone = walk(*graph.topology, roots, 3, 9)
        set_threads(3)
        assert np.array_equal(walk(*graph.topology, roots, 3, 9), alone)
    finally:
        set_threads(before)


EDGES = {0: [1, 2], 1: [0, 2, 3], 2: [0, 1], 3: [1, 4, 5], 4: [3], 5: []}
ROWPTR = np.cumsum([0, *(len(ends) for ends in EDGES.values())])
COL = np.array([end for ends in EDGES.values() for end in ends])


def transition(t: int, v: int, p: float, q: float) -> dict[int, float]:
    """Where a walk goes from ``v`` after it came from ``t``."""
    weight = {x: 1 / p if x == t else 1.0 if x in EDGES[t] else 1 / q for x in EDGES[v]}
    return {x: w / sum(weight.values()) for x, w in weight.items()}


@pytest.mark.parametrize(("p", "q"), [(1.0, 1.0), (0.25, 4.0), (4.0, 0.25), (1000.0, 1e-3), (1e-4, 1e4)])
def test_second_steps_have_node2vecs_probabilities(p: float, q: float) -> None:
    draws = 60_000
    found = walk(ROWPTR, COL, np.full(draws, 0), 3, 1, p, q, threads=2)
    for t, v in ((0, 1), (0, 2)):
        third = found[(found[:, 0] == t) & (found[:, 1] == v), 2]
        for x, chance in transition(t, v, p, q).items():
            assert abs((third == x).mean() - chance) < 5 * np.sqrt(0.25 / len(third))


def test_node2vecs_steps_are_along_edges_and_a_walk_stays_where_there_is_none() -> None:
    found = walk(ROWPTR, COL, np.repeat(np.arange(6), 50), 6, 2, 0.5, 2.0)
    for nodes in found.tolist():
        for v, x in itertools.pairwise(nodes):
            assert x in (EDGES[v] or [v])
    assert (found[-50:] == 5).all()


def test_node2vecs_walks_do_not_depend_on_threads() -> None:
    roots = np.arange(6).repeat(1000)
    one, two = (walk(ROWPTR, COL, roots, 5, 3, 0.5, 2.0, threads) for threads in (1, 2))
    assert np.array_equal(one, two)


def test_a_walk_out_of_the_graph_is_refused() -> None:
    with pytest.raises(IndexError, match="the walk from node 0 leaves the graph: it has 1 nodes"):
        walk(np.array([0, 1]), np.array([7]), np.array([0]), 2, 0)
    with pytest.raises(IndexError, match="leaves the graph"):
        walk(np.array([0, 9]), np.array([0]), np.array([0]), 2, 0)
