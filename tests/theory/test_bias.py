from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from math import comb, sqrt
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import handful as hf
from handful.batch import Sample, training_sample
from handful.samplers.base import Sampler
from handful.samplers.cluster import Clusters
from handful.samplers.induced import induced_parts
from handful.samplers.random_node import RandomNodes
from handful.theory.bias import (
    bias_bound,
    bias_split,
    edge_removal_sensitivity,
    full_logits,
    lipschitz_constant,
    no_target_probability,
    node_subsampling_variance,
)
from handful.training.loss import node_losses

N, M = 8, 2
EDGES = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 7), (7, 0), (0, 4), (1, 5)]


def tiny() -> hf.Graph:
    rng = np.random.default_rng(4)
    return hf.Graph.from_edge_index(
        np.array(EDGES).T,
        N,
        x=rng.normal(size=(N, 3)).astype(np.float32),
        y=[0, 1, 2, 0, 1, 2, 0, 1],
        train_mask=[0, 1, 2, 4, 7],
    ).to_undirected()


def model_of(graph: hf.Graph, **options: object) -> hf.SAGE:
    torch.manual_seed(1)
    return hf.SAGE(graph.num_features, graph.num_outputs, hidden=6, layers=2, dropout=0.0, norm="ln", **options)


@dataclass(frozen=True)
class EveryPartition(Sampler):
    """Epoch i deals the i-th of all ordered splits of N nodes into two equal blocks: expectations become sums."""

    name = "every-partition"

    def sample(self, graph: hf.Graph, seed: int, epoch: int) -> Iterator[Sample]:
        part = np.ones(N, np.uint8)
        part[list(list(combinations(range(N), N // M))[epoch])] = 0
        for nodes, adjacency in induced_parts(graph, part, M):
            yield training_sample(graph, nodes, (adjacency,))


PARTITIONS = comb(N, N // M)


Definition = tuple[float, dict[int, dict[int, list[float]]], float]


@pytest.fixture(scope="module")
def by_definition() -> Definition:
    """E[L̂ | ℰ] over every block, δ_v by node and t, and L_full, straight from the definitions."""
    graph = tiny()
    model = model_of(graph)
    whole = full_logits(model, graph)
    delta: dict[int, dict[int, list[float]]] = {}
    losses = []
    for block in combinations(range(N), N // M):
        nodes = np.array(block)
        keep = [(u, v) for u, v in EDGES if u in block and v in block]
        place = {v: i for i, v in enumerate(block)}
        edges = np.array([(place[u], place[v]) for u, v in keep]).reshape(-1, 2).T
        if not graph.train_mask[nodes].any():
            continue
        fields = {"x": graph.x[nodes], "y": graph.y[nodes], "train_mask": graph.train_mask[nodes]}
        logits = full_logits(model, hf.Graph.from_edge_index(edges.astype(int), len(block), **fields).to_undirected())
        targets = [v for v in block if graph.train_mask[v]]
        at = [place[v] for v in targets]
        losses.append(float(node_losses(logits[at], graph.y[targets]).mean()))
        for v in targets:
            off = float((logits[place[v]] - whole[v]).norm())
            delta.setdefault(v, {}).setdefault(len(targets), []).append(off)
    full = float(node_losses(whole[graph.train_mask], graph.y[graph.train_mask]).mean())
    return float(np.mean(losses)), delta, full


def test_term_I_has_no_expectation_and_a_known_variance(by_definition: Definition) -> None:
    graph = tiny()
    model = model_of(graph)
    split = bias_split(model, graph, EveryPartition(), batches=M * PARTITIONS)
    assert split.node_subsampling["mean"] == pytest.approx(0, abs=1e-6)
    assert split.edge_removal["mean"] == pytest.approx(split.total["mean"], abs=1e-6)
    assert abs(split.edge_removal["mean"]) > 1e-4
    expected, _, full = by_definition
    assert split.total["mean"] == pytest.approx(expected - full, abs=1e-6)
    losses = node_losses(full_logits(model, graph)[graph.train_nodes], graph.y[graph.train_nodes])
    by_t: dict[int, list[float]] = {}
    for epoch in range(PARTITIONS):
        for sample in EveryPartition().sample(graph, 0, epoch):
            at = torch.searchsorted(graph.train_nodes, sample.nodes[sample.targets])
            by_t.setdefault(len(at), []).append(float(losses[at].mean() - losses.mean()))
    for targets, first in by_t.items():
        if targets:
            assert np.mean(first) == pytest.approx(0, abs=1e-6)
            assert np.var(first) == pytest.approx(node_subsampling_variance(losses, targets), abs=1e-7)


def test_exact_expectations_on_every_partition(by_definition: Definition) -> None:
    graph = tiny()
    expected, delta, full = by_definition
    sigma, losses = edge_removal_sensitivity(model_of(graph), graph, EveryPartition(), PARTITIONS)
    assert np.mean(losses) == pytest.approx(expected, rel=1e-5)
    # The paper's σ(w): the worst node and the worst t. Ours averages over t, and lies below.
    worst = max(float(np.mean(values)) for by_t in delta.values() for values in by_t.values())
    assert sigma.max() <= worst
    bias, constant = abs(expected - full), lipschitz_constant(3)
    assert 0 < bias <= constant * float(sigma.mean()) <= constant * float(sigma.max()) <= constant * worst
    for value, by_hand in zip(sigma.tolist(), sensitivity(delta), strict=True):
        assert value == pytest.approx(by_hand, rel=1e-5)


def sensitivity(delta: dict[int, dict[int, list[float]]]) -> list[float]:
    """σ_v by hand: E over t, as t falls for a random block, of the mean distance given t."""
    sizes = {t: comb(5, t) * comb(3, 4 - t) / comb(8, 4) for t in range(1, 5)}
    return [sum(sizes[t] * float(np.mean(delta[v][t])) for t in delta[v]) for v in sorted(delta)]


def test_monte_carlo_meets_the_exact_value(by_definition: Definition) -> None:
    graph = tiny()
    expected, delta, full = by_definition
    exact = sensitivity(delta)
    found = bias_bound(model_of(graph), graph, M, epochs=200)
    assert found.sigma_average == pytest.approx(np.mean(exact), rel=0.04)
    assert found.sigma_max == pytest.approx(max(exact), rel=0.1)
    assert found.bias == pytest.approx(abs(expected - full), abs=3 * found.bias_ci95)
    assert found.bound == pytest.approx(sqrt(2) * found.sigma_max)


def ordered_graph(n: int = 600) -> hf.Graph:
    """A ring lattice along which labels become rarer and training nodes scarcer: its clusters are all different."""
    rng = np.random.default_rng(0)
    edges = np.array([(v, (v + d) % n) for v in range(n) for d in (1, 2, 3)]).T
    where = np.arange(n) / n
    y = (rng.random(n) < where**2).astype(int) + (rng.random(n) < where**3)
    x = rng.normal(size=(n, 4)).astype(np.float32)
    x[:, 0] += 3 * (y - 1)
    train = rng.random(n) < 0.9 - 0.8 * where
    return hf.Graph.from_edge_index(edges, n, x=x, y=y, num_classes=3, train_mask=train).to_undirected()


def test_term_one_is_zero_for_random_nodes_and_not_for_clusters(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HANDFUL_HOME", str(tmp_path))
    graph = ordered_graph()
    model = model_of(graph)
    ours = bias_split(model, graph, RandomNodes(12), batches=360).node_subsampling
    theirs = bias_split(model, graph, Clusters(clusters=12, per_batch=1), batches=360).node_subsampling
    assert abs(ours["mean"]) < 3 * ours["ci95"]
    assert abs(theirs["mean"]) > 3 * theirs["ci95"]
    assert abs(theirs["mean"]) > 10 * abs(ours["mean"])


def test_bound_for_growing_m() -> None:
    graph = ordered_graph(300)
    found = [bias_bound(model_of(graph), graph, m, epochs=10) for m in (1, 2, 4, 8)]
    assert found[0].bias == pytest.approx(0, abs=1e-6)
    assert found[0].sigma_max == pytest.approx(0, abs=1e-5)
    assert all(row.bias <= row.average_bound + row.bias_ci95 <= row.bound + row.bias_ci95 for row in found)
    averages = [row.sigma_average for row in found]
    assert averages == sorted(averages)


@given(st.integers(1, 6), st.integers(0, 2**31), st.floats(0.1, 100))
@settings(max_examples=150)
def test_lipschitz_constant_holds(outputs: int, seed: int, scale: float) -> None:
    rng = torch.Generator().manual_seed(seed)
    a, b = (torch.randn(50, outputs, generator=rng, dtype=torch.float64) * scale for _ in range(2))
    y = torch.randint(0, max(2, outputs), (50,), generator=rng)
    change = (node_losses(a, y) - node_losses(b, y)).abs()
    assert bool((change <= lipschitz_constant(outputs) * (a - b).norm(dim=1) + 1e-9).all())


def test_lipschitz_constant_is_approached() -> None:
    """Almost all mass on one wrong class, and a move from it towards the label."""
    z = torch.tensor([[40.0, 0.0, 0.0]], dtype=torch.float64)
    move = torch.tensor([[1.0, -1.0, 0.0]], dtype=torch.float64) / sqrt(2)
    change = node_losses(z + 1e-3 * move, torch.tensor([1])) - node_losses(z, torch.tensor([1]))
    assert float(change) / 1e-3 == pytest.approx(sqrt(2), rel=1e-6)


def test_probability_of_a_block_without_targets() -> None:
    blocks = list(combinations(range(7), 3))
    empty = sum(not set(block) & {0, 1} for block in blocks)
    assert no_target_probability(7, 2, 3) == pytest.approx(empty / len(blocks))
    assert no_target_probability(7, 5, 3) == 0
