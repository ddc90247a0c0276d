"""The dealer is uniform, its parts are what PyG's subgraph gives, and its options mean what they say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import combinations, permutations
from math import comb
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from graphs import make_graph
from handful import Graph
from handful.errors import GraphError, SamplerError
from handful.kernels.dispatch import use
from handful.kernels.threads import get_threads, set_threads
from handful.random import generator
from handful.samplers import RandomNodes, make_sampler
from handful.samplers.random_node import deal, deal_stratified
from subgraphs import edges_of, induced_edges

Dealer = Callable[[int, int, np.random.Generator, bool], np.ndarray]


# -- what a deal is ---------------------------------------------------------------------------------------------------


@settings(deadline=None)  # the first call compiles
@given(st.integers(0, 300), st.integers(1, 300), st.booleans(), st.integers(0, 2**32))
def test_a_deal_has_the_right_sizes(n: int, m: int, drop_last: bool, seed: int) -> None:
    sizes = np.bincount(deal(n, m, generator(seed), drop_last), minlength=m + 1)
    assert len(sizes) == m + 1
    if drop_last:
        assert (sizes[:m] == n // m).all()
        assert sizes[m] == n % m
    else:
        assert sizes[m] == 0
        assert sizes[:m].max() - sizes[:m].min() <= 1
        assert sizes.sum() == n


@pytest.mark.parametrize("m", [254, 255, 65_534, 65_535])
def test_many_parts_fit_their_type(m: int) -> None:
    sizes = np.bincount(deal(2 * m + 1, m, generator(0), drop_last=True), minlength=m + 1)
    assert (sizes[:m] == 2).all()
    assert sizes[m] == 1


def law_of_deals(dealer: Dealer, n: int, m: int, drop_last: bool, draws: int) -> float:
    """The p-value of `dealer` being uniform over all ways to deal `n` nodes into parts of these sizes."""
    like = np.sort(deal(n, m, generator(0), drop_last))
    ways = set(permutations(like.tolist()))
    rng = generator(7)
    seen = Counter(tuple(dealer(n, m, rng, drop_last).tolist()) for _ in range(draws))
    assert set(seen) <= ways
    return float(stats.chisquare([seen[way] for way in ways]).pvalue)


def first_come(n: int, m: int, rng: np.random.Generator, drop_last: bool) -> np.ndarray:
    """Wrong: parts that drew too many give away the nodes with the lowest ids instead of random ones."""
    part = rng.integers(0, m, n)
    size = np.full(m, n // m)
    if not drop_last:
        size[: n % m] += 1
    surplus = np.concatenate([np.flatnonzero(part == p)[: max(0, (part == p).sum() - size[p])] for p in range(m)])
    missing = np.maximum(size - np.bincount(part, minlength=m), 0)
    receivers = np.append(np.repeat(np.arange(m), missing), np.full(n % m if drop_last else 0, m))
    part[rng.permutation(surplus)] = receivers
    return part


def never_at_home(n: int, m: int, rng: np.random.Generator, drop_last: bool) -> np.ndarray:
    """Wrong: a shuffle that swaps every place with an earlier one and never with itself."""
    part = np.sort(deal(n, m, generator(0), drop_last))
    for i in range(n - 1, 0, -1):
        j = int(rng.integers(0, i))
        part[[i, j]] = part[[j, i]]
    return part


@pytest.mark.parametrize(("n", "m", "drop_last"), [(5, 2, False), (5, 2, True), (6, 3, False), (5, 4, False)])
def test_every_deal_is_equally_likely(n: int, m: int, drop_last: bool) -> None:
    assert law_of_deals(deal, n, m, drop_last, 6_000) > 1e-3


@pytest.mark.parametrize("wrong", [first_come, never_at_home])
def test_the_law_catches_a_subtly_wrong_dealer(wrong: Dealer) -> None:
    assert law_of_deals(wrong, 5, 2, False, 6_000) < 1e-9


@pytest.mark.parametrize(("n", "m"), [(12, 3), (11, 2), (13, 5)])
def test_two_nodes_meet_as_often_as_they_should(n: int, m: int) -> None:
    """A pair shares a part with probability Σ s(s-1) / (N(N-1)), which is (N/m - 1)/(N - 1) where m divides N."""
    draws = 6_000
    rng = generator(3)
    met = np.zeros((n, n))
    for _ in range(draws):
        part = deal(n, m, rng)
        met += part[:, None] == part
    sizes = np.bincount(deal(n, m, rng), minlength=m)
    p = (sizes * (sizes - 1)).sum() / (n * (n - 1))
    if n % m == 0:
        assert p == pytest.approx((n / m - 1) / (n - 1))
    pairs = np.array([met[u, v] for u, v in combinations(range(n), 2)])
    z = (pairs - draws * p) / np.sqrt(draws * p * (1 - p))
    assert np.abs(z).max() < 4.5
    # Nodes that chose their parts independently would meet with probability 1/m.
    assert abs(pairs.mean() - draws / m) > 10 * np.sqrt(draws * p * (1 - p) / len(pairs))


def test_training_nodes_of_a_part_are_a_uniform_draw() -> None:
    """Their number is hypergeometric, and every training node is as likely to be among them as any other."""
    n, m, train, draws = 24, 4, 9, 8_000
    rng = generator(5)
    mask = np.zeros(n, bool)
    mask[:train] = True
    count, who = np.zeros(train + 1), np.zeros(train)
    for _ in range(draws):
        mine = deal(n, m, rng) == 2
        count[(mine & mask).sum()] += 1
        who += mine[mask]
    size = n // m
    law = np.array([comb(train, k) * comb(n - train, size - k) / comb(n, size) for k in range(size + 1)])
    assert count[size + 1 :].sum() == 0
    assert stats.chisquare(count[: size + 1], draws * law).pvalue > 1e-3
    assert np.abs((who - draws / m) / np.sqrt(draws / m * (1 - 1 / m))).max() < 4
    binomial = stats.binom(size, train / n).pmf(np.arange(size + 1))  # what independent draws would give
    assert stats.chisquare(count[: size + 1], draws * binomial).pvalue < 1e-9


# -- stratified -------------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(-1, 3), min_size=1, max_size=60), st.integers(1, 8), st.integers(0, 2**32))
def test_stratified_parts_share_every_class(stratum: list[int], m: int, seed: int) -> None:
    classes = np.array(stratum)
    part = deal_stratified(classes, m, generator(seed))
    for c in (*np.unique(classes), None):
        share = np.bincount(part[classes == c] if c is not None else part, minlength=m)
        assert len(share) == m
        assert share.max() - share.min() <= 1


@given(st.lists(st.integers(-1, 3), min_size=1, max_size=60), st.integers(1, 8), st.integers(0, 2**32))
def test_stratified_drop_last_keeps_equal_parts(stratum: list[int], m: int, seed: int) -> None:
    sizes = np.bincount(deal_stratified(np.array(stratum), m, generator(seed), drop_last=True), minlength=m + 1)
    assert (sizes[:m] == len(stratum) // m).all()
    assert sizes[m] == len(stratum) % m


def test_stratified_treats_nodes_and_parts_alike() -> None:
    stratum, m, draws = np.array([-1] * 7 + [0] * 4 + [1] * 3), 3, 5_000
    rng = generator(11)
    seen = np.zeros((len(stratum), m))
    for _ in range(draws):
        seen[np.arange(len(stratum)), deal_stratified(stratum, m, rng)] += 1
    assert np.abs((seen - draws / m) / np.sqrt(draws * 2 / 9)).max() < 4.5


# -- the sampler ------------------------------------------------------------------------------------------------------


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Directed graphs of up to 12 nodes, with self-loops, repeated edges, isolated nodes and perhaps weights."""
    n = draw(st.integers(1, 12))
    node = st.integers(0, n - 1)
    edges = torch.tensor(draw(st.lists(st.tuples(node, node), max_size=40)), dtype=torch.int64).reshape(-1, 2).T
    if draw(st.booleans()):
        edges = torch.cat([edges, edges.flip(0)], 1)
    # Distinct weights tell repeated edges apart.
    weight = torch.arange(1.0, edges.shape[1] + 1) if draw(st.booleans()) else None
    return Graph.from_edge_index(edges, n, edge_weight=weight)


@settings(deadline=None)  # the first example compiles
@given(graphs(), st.integers(1, 12), st.booleans(), st.integers(0, 1000))
def test_parts_are_disjoint_cover_and_equal_pyg(graph: Graph, m: int, drop_last: bool, seed: int) -> None:
    m = min(m, graph.num_nodes)
    batches = list(RandomNodes(m, drop_last=drop_last).subgraphs(graph, seed, epoch=0))
    assert len(batches) == m
    everyone = torch.cat([nodes for nodes, _ in batches])
    assert len(everyone.unique()) == len(everyone) == (m * (graph.num_nodes // m) if drop_last else graph.num_nodes)
    for nodes, adjacency in batches:
        assert adjacency.num_targets == adjacency.num_sources == len(nodes)
        assert edges_of(adjacency) == induced_edges(graph, nodes)
        assert not adjacency.symmetric or edges_of(adjacency) == sorted((v, u, w) for u, v, w in edges_of(adjacency))


@given(graphs(), st.floats(0.05, 1), st.integers(0, 1000))
def test_fraction_draws_a_share_each_step(graph: Graph, fraction: float, seed: int) -> None:
    batches = list(RandomNodes(fraction=fraction).subgraphs(graph, seed, epoch=3))
    assert len(batches) == int(np.ceil(1 / fraction - 1e-9))
    for nodes, adjacency in batches:
        assert len(nodes) == max(1, round(fraction * graph.num_nodes))
        assert (nodes.diff() > 0).all()
        assert edges_of(adjacency) == induced_edges(graph, nodes)


@pytest.mark.slow
def test_fraction_draws_are_uniform_and_independent_of_each_other() -> None:
    graph = Graph.from_edge_index(torch.empty(2, 0, dtype=torch.int64), 6)
    first, second, both = Counter(), Counter(), Counter()
    for epoch in range(4_500):
        a, b, *_ = (tuple(nodes.tolist()) for nodes, _ in RandomNodes(fraction=1 / 3).subgraphs(graph, 0, epoch))
        first[a] += 1
        second[b] += 1
        both[a, b] += 1
    pairs = list(combinations(range(6), 2))
    for seen in (first, second):
        assert stats.chisquare([seen[p] for p in pairs]).pvalue > 1e-3
    assert stats.chisquare([both[p, q] for p in pairs for q in pairs]).pvalue > 1e-3


@pytest.mark.parametrize(
    "sampler",
    [RandomNodes(5), RandomNodes(5, drop_last=True), RandomNodes(5, stratify=True), RandomNodes(fraction=0.3)],
)
def test_batches_depend_on_seed_and_epoch_alone(graph: Graph, sampler: RandomNodes) -> None:
    def nodes(seed: int, epoch: int) -> list[list[int]]:
        return [batch.nodes.tolist() for batch in sampler.epoch(graph, seed, epoch)]

    assert nodes(1, 2) == nodes(1, 2)
    assert nodes(1, 2) != nodes(1, 3)
    assert nodes(1, 2) != nodes(2, 2)
    for batch in sampler.epoch(graph, 1, 2):
        assert graph.x is not None
        assert graph.y is not None
        assert graph.train_mask is not None
        assert torch.equal(batch.x, graph.x[batch.nodes])
        assert batch.nodes[batch.targets].tolist() == batch.nodes[graph.train_mask[batch.nodes]].tolist()
        assert torch.equal(batch.y, graph.y[batch.nodes[batch.targets]])


def test_threads_change_nothing() -> None:
    rng = np.random.default_rng(0)
    edges = rng.integers(0, 5_000, (2, 200_000))
    graph = Graph.from_edge_index(edges, 5_000, edge_weight=torch.rand(200_000))

    def batches(sampler: RandomNodes) -> list[torch.Tensor]:
        return [
            t
            for nodes, adjacency in sampler.subgraphs(graph, 0, 0)
            for t in (nodes, adjacency.indptr, adjacency.indices, adjacency.weight)
            if t is not None
        ]

    before, samplers = get_threads(), (RandomNodes(7), RandomNodes(fraction=0.4))
    try:
        set_threads(1)
        alone = [batches(s) for s in samplers]
        for threads in (2, 3):
            set_threads(threads)
            for one, many in zip(alone, map(batches, samplers), strict=True):
                assert all(torch.equal(a, b) for a, b in zip(one, many, strict=True))
    finally:
        set_threads(before)


def test_stratify_reaches_the_parts(graph: Graph) -> None:
    assert graph.train_mask is not None
    assert graph.y is not None
    shares = [
        torch.bincount(batch.y, minlength=int(graph.num_classes or 0))
        for batch in RandomNodes(6, stratify=True).epoch(graph, 0, 0)
    ]
    spread = torch.stack(shares).max(0).values - torch.stack(shares).min(0).values
    assert (spread <= 1).all()


def test_a_part_without_training_nodes_has_no_targets(graph: Graph) -> None:
    only = torch.zeros(graph.num_nodes, dtype=torch.bool)
    only[0] = True
    lonely = graph.replace(train_mask=only, val_mask=None, test_mask=None)
    assert sorted(len(batch.targets) for batch in RandomNodes(4).epoch(lonely, 0, 0)) == [0, 0, 0, 1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"parts": 0}, "parts must lie in"),
        ({"parts": 4.0}, "parts must be a whole number, got 4.0"),
        ({"fraction": 0.0}, "fraction must lie in"),
        ({"fraction": 1.5}, "fraction must lie in"),
        ({"fraction": 0.5, "stratify": True}, "neither drop_last nor stratify"),
        ({"fraction": 0.5, "drop_last": True}, "neither drop_last nor stratify"),
        ({"part": 3}, "did you mean parts"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(SamplerError, match=message):
        make_sampler("rns", **options)


def test_more_parts_than_nodes_and_no_labels_are_refused(graph: Graph) -> None:
    with pytest.raises(SamplerError, match="use fewer parts"):
        list(RandomNodes(graph.num_nodes + 1).subgraphs(graph, 0, 0))
    bare = Graph(graph.indptr, graph.indices)
    with pytest.raises(GraphError, match="cannot be trained on"):
        list(RandomNodes(2).epoch(bare, 0, 0))
    with pytest.raises(GraphError, match="cannot be trained on"):
        list(RandomNodes(2, stratify=True).subgraphs(bare, 0, 0))


# -- on a GPU ---------------------------------------------------------------------------------------------------------


@pytest.mark.triton
@pytest.mark.parametrize(
    "options",
    [
        {"parts": 3},
        {"parts": 3, "drop_last": True},
        {"parts": 2, "stratify": True, "drop_last": True},
        {"fraction": 0.4},
    ],
)
@pytest.mark.parametrize("weighted", [False, True])
def test_a_gpu_deals_the_same_hands(options: dict[str, Any], weighted: bool) -> None:
    """Nodes, edges, weights, targets, features and labels, as Triton's kernels make them in its interpreter."""
    pytest.importorskip("triton")
    graph = make_graph(20, degree=2, weighted=weighted, undirected=not weighted)
    theirs = list(RandomNodes(**options).epoch(graph, 5, 1))
    with use("triton"):
        mine = list(RandomNodes(**options).epoch(graph, 5, 1))
    for one, other in zip(mine, theirs, strict=True):
        for name in ("nodes", "targets", "x", "y"):
            assert torch.equal(getattr(one, name), getattr(other, name)), name
        assert edges_of(one.layers[0]) == edges_of(other.layers[0])
        assert torch.equal(one.layers[0].indptr, other.layers[0].indptr)
        assert torch.equal(one.layers[0].indices, other.layers[0].indices)
