from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest

from handful.kernels.neighbors import NODE, TREE, Known, heads, pick, sample, spans, until


def star(leaves: int) -> tuple[np.ndarray, np.ndarray]:
    """Node 0 receives from nodes 1 to ``leaves``, which receive from nobody."""
    indptr = np.full(leaves + 2, leaves, np.int64)
    indptr[0] = 0
    return indptr, np.arange(1, leaves + 1, dtype=np.int32)


@pytest.mark.parametrize(("degree", "fanout"), [(7, 5), (40, 3), (200, 50)])
def test_every_set_of_neighbours_is_equally_likely(degree: int, fanout: int) -> None:
    draws = 4000
    together = np.zeros((degree, degree))
    for key in range(draws):
        chosen = np.zeros(degree)
        drawn = sample(*star(degree), np.array([0]), (fanout,), key)
        assert len(np.unique(drawn.edges)) == fanout
        chosen[drawn.edges] = 1
        together += np.outer(chosen, chosen)
    alone = fanout / degree
    pair = alone * (fanout - 1) / (degree - 1)
    off_diagonal = together[~np.eye(degree, dtype=bool)] / draws
    for seen, expected in ((np.diag(together) / draws, alone), (off_diagonal, pair)):
        sigma = np.sqrt(expected * (1 - expected) / draws)
        assert np.abs(seen - expected).max() < 5 * sigma
        assert np.std(seen) < 1.3 * sigma


def test_what_a_node_draws_does_not_depend_on_the_company() -> None:
    rng = np.random.default_rng(0)
    indptr = np.arange(0, 50 * 20 + 1, 20)
    indices = rng.integers(0, 50, 1000).astype(np.int32)
    alone = sample(indptr, indices, np.array([3]), (4,), 11)
    together = sample(indptr, indices, np.array([8, 3, 1]), (4,), 11)
    assert np.array_equal(alone.edges, together.edges[together.indptr[1] : together.indptr[2]])


def test_wide_ids_are_numbered_too() -> None:
    nodes = np.array([2**40, 0, 2**33 + 1, 2**33], np.int64)
    assert Known(nodes).find(np.append(nodes, 5)).tolist() == [0, 1, 2, 3, -1]


ONE_ROW = np.array([0]), np.array([6])


def chances(weights: np.ndarray, count: int) -> np.ndarray:
    """The probability that each entry is among ``count``, drawn one by one ∝ weight, by adding up all orders."""
    found = np.zeros(len(weights))
    for order in itertools.permutations(range(len(weights)), count):
        chance, left = 1.0, weights.sum()
        for i in order:
            chance *= weights[i] / left
            left -= weights[i]
        found[list(order)] += chance
    return found


@pytest.mark.parametrize(("degree", "count"), [(6, 2), (90, 60)])
def test_without_replacement_every_edge_is_as_likely_as_any_other(degree: int, count: int) -> None:
    draws = 4000
    start = np.full(draws, 10)
    first, edges = pick(start, start + degree, count, False, None, key=1)
    taken = edges.reshape(draws, count)
    assert (np.diff(first) == count).all()
    assert all(len(set(row)) == count for row in taken.tolist())
    seen = np.bincount(edges - 10, minlength=degree) / draws
    share = count / degree
    assert np.abs(seen - share).max() < 5 * np.sqrt(share * (1 - share) / draws)


def test_with_replacement_draws_are_independent_and_uniform() -> None:
    draws = 20_000
    zero = np.zeros(draws, np.int64)
    _, edges = pick(zero, zero + 3, 2, True, None, key=2)
    pairs = Counter(map(tuple, edges.reshape(draws, 2).tolist()))
    assert len(pairs) == 9
    assert max(abs(count / draws - 1 / 9) for count in pairs.values()) < 5 * np.sqrt(8 / 81 / draws)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_weighted_picks_are_drawn_one_after_the_other(count: int) -> None:
    draws, weight = 20_000, np.array([1.0, 2.0, 3.0, 0.0, 4.0, 0.5], np.float32)
    zero = np.zeros(draws, np.int64)
    _, edges = pick(zero, zero + 6, count, False, weight, key=3)
    want = chances(weight.astype(float), count)
    seen = np.bincount(edges, minlength=6) / draws
    assert np.abs(seen - want).max() < 5 * np.sqrt(0.25 / draws)
    assert seen[3] == 0


def test_weighted_picks_with_replacement_are_proportional_to_the_weight() -> None:
    draws, weight = 40_000, np.array([0.0, 1.0, 0.0, 3.0, 0.0])
    zero = np.zeros(draws, np.int64)
    _, edges = pick(zero, zero + 5, 1, True, weight, key=4)
    seen = np.bincount(edges, minlength=5) / draws
    assert np.abs(seen - weight / 4).max() < 5 * np.sqrt(0.25 * 0.75 / draws)
    assert seen[[0, 2, 4]].sum() == 0


def test_edges_of_no_weight_come_last() -> None:
    _, edges = pick(*ONE_ROW, 4, False, np.array([0.0, 1, 0, 1, 0, 1]), key=0)
    assert {1, 3, 5} < set(edges.tolist())


@pytest.mark.parametrize("weight", [[1.0, -1.0], [1.0, np.nan], [1.0, np.inf]])
def test_a_weight_that_is_none_is_refused(weight: list[float]) -> None:
    with pytest.raises(ValueError, match="negative or infinite edge weight"):
        pick(np.array([0]), np.array([2]), 1, False, np.array(weight), key=0)


def test_a_row_without_weight_has_nothing_to_draw_with_replacement() -> None:
    with pytest.raises(ValueError, match="no edge with a positive one"):
        pick(np.array([0]), np.array([2]), 1, True, np.zeros(2), key=0)


def test_all_edges_are_taken_in_order_where_none_are_left_out() -> None:
    start, stop = np.array([4, 0, 7]), np.array([7, 0, 8])
    for count, replace in ((-1, False), (-1, True), (3, False)):
        first, edges = pick(start, stop, count, replace, None, key=0)
        assert (first.tolist(), edges.tolist()) == ([0, 3, 3, 4], [4, 5, 6, 7])
    assert pick(start, stop, 2, True, None, 0)[0].tolist() == [0, 2, 2, 4]


def test_draws_do_not_depend_on_threads() -> None:
    start = np.zeros(9000, np.int64)
    for weight in (None, np.arange(1, 21, dtype=float)):
        one, two = (pick(start, start + 20, 3, False, weight, key=5, threads=threads)[1] for threads in (1, 2))
        assert np.array_equal(one, two)


def test_rows_outside_the_graph_are_refused() -> None:
    rowptr = np.array([0, 2, 9, 3])
    with pytest.raises(IndexError, match="node 3 is outside the graph, which has 3 nodes"):
        spans(np.array([0, 3]), rowptr, 5)
    with pytest.raises(IndexError, match="the row of node 1 is not inside the 5 edges"):
        spans(np.array([1]), rowptr, 5)
    with pytest.raises(IndexError, match="the row of node 2 is not"):
        spans(np.array([2]), rowptr, 20)


def test_a_neighbour_outside_the_graph_is_refused() -> None:
    for bad in (-1, 5):
        with pytest.raises(IndexError, match=f"is node {bad}, and the nodes run from 0 to 4"):
            heads(np.array([0]), np.array([0, 1]), np.array([0]), np.array([bad]), 5)


@pytest.mark.parametrize("of_nodes", [False, True])
def test_rows_are_cut_at_the_limit(of_nodes: bool) -> None:
    rng = np.random.default_rng(0)
    time = np.sort(rng.integers(0, 9, 30))
    col = np.arange(30)[::-1].copy() if of_nodes else rng.integers(0, 5, 30)
    times = time[::-1].copy() if of_nodes else time
    for limit, last in itertools.product(range(-1, 10), (-1, 0, 2)):
        start, stop = np.array([3]), np.array([25])
        until(start, stop, np.array([limit]), times, col, of_nodes, last)
        allowed = [e for e in range(3, 25) if time[e] <= limit]
        wanted = allowed if last < 0 else allowed[len(allowed) - min(last, len(allowed)) :]
        assert list(range(start[0], stop[0])) == wanted


def test_an_edge_from_the_future_is_refused_even_in_a_row_that_is_not_sorted() -> None:
    keys, first, edges = np.array([0]), np.array([0, 2]), np.array([0, 1])
    with pytest.raises(ValueError, match="non-sorted temporal"):
        heads(keys, first, edges, np.array([1, 2]), 9, np.array([4]), np.array([9, 1]))


def test_too_few_times_are_refused() -> None:
    with pytest.raises(IndexError, match="there are 2 times"):
        until(np.array([0]), np.array([3]), np.array([4]), np.array([1, 1]), np.array([5, 5, 5]), True)


def test_nodes_are_numbered_as_a_dictionary_would() -> None:
    rng = np.random.default_rng(1)
    seeds = rng.integers(0, 50, 20)
    known, number = Known(seeds), {}
    for i, v in enumerate(seeds.tolist()):
        number.setdefault(v, i)
    count = len(seeds)
    for _ in range(5):
        met = rng.integers(0, 3000, 700)
        wanted = []
        for v in met.tolist():
            if v not in number:
                number[v] = count
                count += 1
            wanted.append(number[v])
        assert known.meet(met).tolist() == wanted
        assert known.count == count
    asked = rng.integers(0, 6000, 500)
    assert known.find(asked).tolist() == [number.get(v, -1) for v in asked.tolist()]
    assert known.find(np.empty(0, np.int64)).tolist() == []


def test_a_key_is_a_tree_and_a_node() -> None:
    keys = heads(np.array([7 << TREE | 3]), np.array([0, 2]), np.array([0, 1]), np.array([5, 6]), 9)
    assert (keys >> TREE).tolist() == [7, 7]
    assert (keys & NODE).tolist() == [5, 6]
