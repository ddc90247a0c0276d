"""What operators do not show: the budget of layer-wise sampling, and draws that depend on the key alone."""

from __future__ import annotations

import numpy as np

from handful.pyg.sampling import Relation, layered, sample

# Node 0 has 1, 2 and 3 as sources, node 4 has 3 alone.
ROWPTR, COL = np.array([0, 3, 3, 3, 3, 4]), np.array([1, 2, 3, 3])


def test_layers_are_drawn_by_the_square_of_the_budget() -> None:
    relation = Relation(rows="", cols="", rowptr=ROWPTR, col=COL)
    draws = 3000
    seen = np.zeros(5)
    for key in range(draws):
        sampled = layered([""], {"": relation}, {"": np.array([0, 4])}, {"": [1]}, 1, key=key)
        seen[sampled.nodes("")[2:]] += 1
    budget = np.array([0, 1 / 3, 1 / 3, 1 / 3 + 1, 0]) ** 2
    assert np.abs(seen / draws - budget / budget.sum()).max() < 5 * np.sqrt(0.25 / draws)


def test_a_draw_belongs_to_key_hop_and_relation() -> None:
    rng = np.random.default_rng(0)
    rowptr, col = np.arange(0, 5001, 50), rng.integers(0, 100, 5000)
    one = Relation(rows="a", cols="b", rowptr=rowptr, col=col, fanout=[3])
    two = Relation(rows="a", cols="b", rowptr=rowptr, col=col, fanout=[3])
    drawn = sample(["a", "b"], {"one": one, "two": two}, {"a": np.arange(40)}, key=1)
    again = sample(["a", "b"], {"one": one, "two": two}, {"a": np.arange(40)}, key=1)
    other = sample(["a", "b"], {"one": one, "two": two}, {"a": np.arange(40)}, key=2)
    places = [drawn.edges["one"][0][2], drawn.edges["two"][0][2], other.edges["one"][0][2]]
    assert np.array_equal(places[0], again.edges["one"][0][2])
    assert not np.array_equal(places[0], places[1])
    assert not np.array_equal(places[0], places[2])


def test_no_hops_is_the_seeds_alone() -> None:
    relation = Relation(rows="", cols="", rowptr=ROWPTR, col=COL)
    sampled = sample([""], {"": relation}, {"": np.array([4, 0])}, key=0)
    assert sampled.nodes("").tolist() == [4, 0]
    assert sampled.edges[""] == []
