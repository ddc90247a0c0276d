from __future__ import annotations

from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import gammaln
from scipy.stats import binom, chisquare, hypergeom

from handful.graph import Graph
from handful.samplers.random_node import RandomNodes
from handful.theory.thinning import (
    block_sizes,
    edge_survival,
    hypergeometric,
    power_law_tail,
    thinned_degree_law,
)

EDGES = [(0, 1), (0, 2), (0, 3), (1, 2), (3, 4), (5, 0)]


def undirected(edges: list[tuple[int, int]], n: int) -> Graph:
    return Graph.from_edge_index(np.array(edges).T, n).to_undirected()


@pytest.mark.parametrize("parts", [1, 2, 3, 4, 6])
def test_against_every_way_to_deal_a_small_graph(parts: int) -> None:
    n = 6
    graph = undirected(EDGES, n)
    label = np.repeat(np.arange(parts), block_sizes(n, parts))
    seen: Counter[int] = Counter()
    alive = 0
    for order in permutations(range(n)):
        part = label[list(order)]
        inside = [(u, v) for u, v in EDGES if part[u] == part[v]]
        alive += len(inside)
        degree = np.bincount(np.array(inside, int).ravel(), minlength=n)
        seen.update(degree.tolist())
    total = sum(seen.values())
    law = thinned_degree_law(graph.in_degree.numpy(), parts)
    assert np.allclose(law, [seen[k] / total for k in range(len(law))], atol=1e-12)
    assert edge_survival(n, parts) == pytest.approx(alive / (total / n * len(EDGES)))


@given(st.integers(2, 200), st.data())
@settings(max_examples=100)
def test_hypergeometric_is_scipys(n: int, data: st.DataObject) -> None:
    degree, block = data.draw(st.integers(0, n - 1)), data.draw(st.integers(1, n))
    expected = hypergeom(n - 1, degree, block - 1).pmf(np.arange(degree + 1))
    # Nine logarithms of factorials, each off by 2⁻⁵² of itself, and as many in scipy's.
    assert np.allclose(hypergeometric(n, block, degree), expected, rtol=18 * gammaln(n + 1) * 2.0**-52, atol=1e-15)


def test_law_of_a_hundred_thousand_sampled_nodes() -> None:
    """One node of each of 10⁵ independent deals of a graph with hubs, so that the draws are independent."""
    rng = np.random.default_rng(0)
    n, m, draws = 80, 3, 100_000
    edges = [(u, v) for v in range(1, n) for u in {0, int(rng.integers(v)), int(rng.integers(v) ** 2 // v)} if u != v]
    graph = undirected(edges, n)
    part = rng.permuted(np.tile(np.repeat(np.arange(m), block_sizes(n, m)), (draws, 1)), axis=1)
    chosen = rng.integers(0, n, draws)
    indptr, indices = graph.topology
    kept = np.array(
        [(row[indices[indptr[v] : indptr[v + 1]]] == row[v]).sum() for v, row in zip(chosen, part, strict=True)]
    )
    law = thinned_degree_law(graph.in_degree.numpy(), m)
    enough = law * draws >= 10
    observed = np.bincount(kept, minlength=len(law))
    pooled = np.append(observed[enough], observed[~enough].sum())
    expected = np.append(law[enough], law[~enough].sum()) * draws
    assert law.sum() == pytest.approx(1)
    assert chisquare(pooled, expected * pooled.sum() / expected.sum()).pvalue > 1e-3
    # A law that is nearly right (binomial thinning with 1/m) must be told apart by the same test.
    degrees = graph.in_degree.numpy()
    wrong = sum(binom(d, 1 / m).pmf(np.arange(len(law))) for d in degrees) / n
    wrong = np.append(wrong[enough], wrong[~enough].sum())
    assert chisquare(pooled, wrong * pooled.sum() / wrong.sum()).pvalue < 1e-6


def test_sampled_parts_follow_the_law() -> None:
    rng = np.random.default_rng(1)
    n, m, epochs = 500, 4, 400
    graph = undirected([(int(rng.integers(n)), int(rng.integers(40))) for _ in range(3000)], n)
    graph = graph.without_loops()
    law = thinned_degree_law(graph.in_degree.numpy(), m)
    seen = np.zeros((epochs, len(law) + 1))
    for epoch in range(epochs):
        for _, adjacency in RandomNodes(m).subgraphs(graph, 7, epoch):
            seen[epoch, :-1] += np.bincount(adjacency.degree.numpy(), minlength=len(law)) / n
            seen[epoch, -1] += adjacency.num_edges / graph.num_edges
    expected = np.append(law, edge_survival(n, m))
    enough = expected * n * epochs >= 10
    # Epochs are independent: four and a half standard errors of their mean, which one in 10⁵ numbers exceeds.
    error = seen.std(0, ddof=1) / np.sqrt(epochs)
    assert np.all(np.abs(seen.mean(0) - expected)[enough] <= 4.5 * error[enough])
    assert error.max() < 0.002


def test_tail_of_a_power_law() -> None:
    """ν(d) = C·d^(−α): in the tail p̃(k)/(C·m^(1−α)·k^(−α)) tends to 1."""
    alpha, m, n = 2.2, 4, 100_000
    d = np.arange(1, 1_500)
    nu = d**-alpha / (d**-alpha).sum()
    k = np.array([4, 16, 64])
    law = np.zeros(len(k))
    for degree, share in zip(d, nu, strict=True):
        row = hypergeometric(n, n // m, int(degree))
        for i, at in enumerate(k):
            law[i] += share * row[at] if at <= degree else 0.0
    ratio = law / power_law_tail(k, nu[0], alpha, m)
    assert np.all(np.diff(np.abs(ratio - 1)) < 0)
    assert ratio[-1] == pytest.approx(1, abs=0.03)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot deal 3 nodes into 4 parts"):
        block_sizes(3, 4)
    with pytest.raises(ValueError, match="cannot have degree 5"):
        hypergeometric(5, 2, 5)
