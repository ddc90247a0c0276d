import numpy as np
import pytest

from handful.kernels.neighbors import make_table, number, sample, slot


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
    table = make_table(4)
    number(table, nodes, 4)
    assert [table[slot(table, nodes, v)] for v in nodes] == [0, 1, 2, 3]
    assert table[slot(table, nodes, 5)] == -1
