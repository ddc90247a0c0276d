"""Walks against node2vec's transition probabilities."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from handful.kernels.node2vec import walks

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
    found = walks(ROWPTR, COL, np.full(draws, 0), 3, p, q, key=1, threads=2)
    for t, v in ((0, 1), (0, 2)):
        third = found[(found[:, 0] == t) & (found[:, 1] == v), 2]
        for x, chance in transition(t, v, p, q).items():
            assert abs((third == x).mean() - chance) < 5 * np.sqrt(0.25 / len(third))


def test_every_step_is_along_an_edge_and_a_walk_stays_where_there_is_none() -> None:
    found = walks(ROWPTR, COL, np.repeat(np.arange(6), 50), 6, 0.5, 2.0, key=2)
    for walk in found.tolist():
        for v, x in itertools.pairwise(walk):
            assert x in (EDGES[v] or [v])
    assert (found[-50:] == 5).all()


def test_walks_do_not_depend_on_threads() -> None:
    roots = np.arange(6).repeat(1000)
    one, two = (walks(ROWPTR, COL, roots, 5, 0.5, 2.0, key=3, threads=threads) for threads in (1, 2))
    assert np.array_equal(one, two)


def test_a_walk_out_of_the_graph_is_refused() -> None:
    with pytest.raises(IndexError, match="the walk from node 0 leaves the graph: it has 1 nodes"):
        walks(np.array([0, 1]), np.array([7]), np.array([0]), 2, 1.0, 1.0, key=0)
    with pytest.raises(IndexError, match="leaves the graph"):
        walks(np.array([0, 9]), np.array([0]), np.array([0]), 2, 1.0, 1.0, key=0)
