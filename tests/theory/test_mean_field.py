"""The laws of a row with a stand-in, against an enumeration of all blocks."""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np
import pytest

import handful as hf
from graphs import make_graph
from handful.theory.bias import bias_split
from handful.theory.mean_field import empty_row_probability, expected_weights, row_variance
from handful.training.first_hop import Prepared

NODES, BLOCK = 9, 4


@pytest.mark.parametrize("degree", [1, 3, 8])
@pytest.mark.parametrize("mean_field", [0.0, 0.5, 2.0])
def test_expected_weights_and_variance_by_enumeration(degree: int, mean_field: float) -> None:
    """Node 0 has neighbours 1 to ``degree``; its block has three of the other eight nodes, all triples alike."""
    h = np.random.default_rng(0).normal(size=NODES)
    mean = h[1 : degree + 1].mean()
    rows, weights = [], np.zeros(degree + 1)
    for others in combinations(range(1, NODES), BLOCK - 1):
        kept = [u for u in others if u <= degree]
        mass = len(kept) + mean_field
        if mass:
            weights[[0, *kept]] += [mean_field / mass, *[1 / mass] * len(kept)]
        if kept:
            rows.append((len(kept), (h[kept].sum() + mean_field * mean) / mass))
    weights /= comb(NODES - 1, BLOCK - 1)
    each, stand_in = expected_weights(NODES, BLOCK, degree, mean_field)
    assert weights[1:] == pytest.approx([each] * degree)
    assert weights[0] == pytest.approx(stand_in)
    if degree > 1 and mean_field:
        spread = h[1 : degree + 1].var(ddof=1)
        total = sum((row - mean) ** 2 for _, row in rows) / comb(NODES - 1, BLOCK - 1)
        assert total == pytest.approx(row_variance(NODES, BLOCK, degree, mean_field) * spread)


def test_how_often_a_row_is_empty() -> None:
    counts = [sum(1 for u in others if u <= 2) for others in combinations(range(1, 8), 3)]
    assert empty_row_probability(8, 2, 2) == pytest.approx(np.mean(np.array(counts) == 0))


def test_the_first_hop_leaves_no_edge_removal_of_one_layer() -> None:
    """A model of one layer has term (II) = 0 with the first hop exact, whatever the part. With two layers, its spread
    over parts is smaller with stand-ins than without."""
    graph = make_graph(300, 4)
    removed = {}
    for layers in (1, 2):
        model = hf.SAGE(8, 4, hidden=16, layers=layers, norm="none")
        ways = {"plain": hf.Settings(), "exact": hf.Settings(first_hop="exact"), "stand-ins": hf.Settings(mean_field=3)}
        for way, how in ways.items():
            sampler = Prepared.of(hf.RandomNodes(4), graph, model, how)
            removed[layers, way] = bias_split(model, graph, sampler, batches=32).edge_removal
    assert abs(removed[1, "exact"]["mean"]) < 1e-5
    assert abs(removed[1, "plain"]["mean"]) > 1e-3
    # The spread of 32 draws is known to an eighth: for one law, a ratio below 0.6 is four deviations away.
    assert removed[2, "stand-ins"]["ci95"] < 0.6 * removed[2, "plain"]["ci95"]
