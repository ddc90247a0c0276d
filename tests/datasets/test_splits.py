from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from handful.datasets.splits import (
    RANDOM_HIGH,
    RANDOM_LOW,
    Masks,
    draw_split,
    random_split,
    rank_split,
    sizes,
    stratified_split,
    time_split,
)
from handful.errors import DatasetError
from handful.graph import MASKS, Graph

shares = st.sampled_from(
    [RANDOM_HIGH, RANDOM_LOW, (0.08, 0.02, 0.9), (0.2, 0.1, 0.1), (1.0, 0.0, 0.0), (0.0, 0.5, 0.5)]
)


def counts(masks: Masks) -> tuple[int, ...]:
    return tuple(int(masks[name].sum()) for name in MASKS)


def assert_disjoint(masks: Masks) -> None:
    assert bool((sum(masks[name].int() for name in MASKS) <= 1).all())


@given(st.integers(0, 500), shares)
def test_sizes_are_the_rounded_shares_and_leave_nobody_out_of_a_whole(count: int, shares: tuple[float, ...]) -> None:
    train, val, test = sizes(count, shares)
    assert abs(train - count * shares[0]) <= 0.5
    assert abs(val - count * shares[1]) <= 1
    assert abs(test - count * shares[2]) <= 1
    assert train + val + test <= count
    if sum(shares) == pytest.approx(1):
        assert train + val + test == count


@given(st.integers(1, 300), shares, st.integers(0, 100))
@settings(max_examples=50)
def test_random_split_has_exact_sizes(count: int, shares: tuple[float, ...], seed: int) -> None:
    masks = random_split(count, shares, seed)
    assert_disjoint(masks)
    assert counts(masks) == sizes(count, shares)


@given(st.lists(st.integers(-1, 6), min_size=1, max_size=300), shares, st.integers(0, 100))
@settings(max_examples=100)
def test_stratified_split_gives_every_class_its_share(
    labels: list[int], shares: tuple[float, float, float], seed: int
) -> None:
    y = torch.tensor(labels)
    masks = stratified_split(y, shares, seed)
    labelled = int((y >= 0).sum())
    wanted = sizes(labelled, shares)
    assert_disjoint(masks)
    assert counts(masks) == wanted
    assert not any(bool(masks[name][y < 0].any()) for name in MASKS)
    for c in range(7):
        share = int((y == c).sum()) / max(labelled, 1)
        for name, size, slack in zip(MASKS, wanted, (1, 2, 2), strict=True):
            assert abs(int(masks[name][y == c].sum()) - share * size) < slack + 1e-9


@pytest.mark.parametrize("draw", ["random", "stratified"])
def test_every_node_has_the_same_chance(draw: str) -> None:
    y = torch.tensor([0] * 30 + [1] * 9 + [2] * 1)
    total = torch.zeros(3, 40)
    repeats = 2000
    for seed in range(repeats):
        masks = random_split(40, RANDOM_LOW, seed) if draw == "random" else stratified_split(y, RANDOM_LOW, seed)
        total += torch.stack([masks[name] for name in MASKS])
    for row, p in zip(total / repeats, RANDOM_LOW, strict=True):
        assert bool(((row - p).abs() < 5 * (p * (1 - p) / repeats) ** 0.5).all())


def test_the_seed_decides() -> None:
    y = torch.arange(200) % 5
    for draw in (lambda s: stratified_split(y, RANDOM_HIGH, s), lambda s: random_split(200, RANDOM_HIGH, s)):
        assert torch.equal(draw(1)["train_mask"], draw(1)["train_mask"])
        assert not torch.equal(draw(1)["train_mask"], draw(2)["train_mask"])


def test_rank_split_takes_the_lowest_first_and_equals_by_id() -> None:
    masks = rank_split(torch.tensor([3, 0, 2, 2, 1]), (0.4, 0.2, 0.4))
    assert [masks[name].nonzero().squeeze(1).tolist() for name in MASKS] == [[1, 4], [2], [0, 3]]


def test_random_split_among_some() -> None:
    among = torch.arange(100) % 2 == 0
    masks = random_split(100, RANDOM_HIGH, 0, among)
    assert counts(masks) == sizes(50, RANDOM_HIGH)
    assert not bool(sum(masks[name].int() for name in MASKS)[~among].any())


def test_a_drawn_split_by_spelling() -> None:
    y = torch.from_numpy(np.arange(100) % 4)
    graph = Graph.from_edge_index(np.zeros((2, 0), np.int64), y=y)
    assert torch.equal(draw_split(graph, "rh", 3)["val_mask"], stratified_split(y, RANDOM_HIGH, 3)["val_mask"])
    assert counts(draw_split(graph, "rl", 0)) == (10, 10, 80)
    assert counts(draw_split(graph, "random:60/20/20", 0)) == (60, 20, 20)
    assert counts(draw_split(graph, "stratified:50/25/5", 0)) == (50, 25, 5)
    graph.replace(**draw_split(graph, "rh", 0))
    for wrong in ("rx", "random", "random:60/20", "random:a/b/c", "other:60/20/20"):
        with pytest.raises(DatasetError, match="random:60/20/20"):
            draw_split(graph, wrong, 0)
    with pytest.raises(DatasetError, match="sum to at most 1"):
        draw_split(graph, "random:60/30/20", 0)
    with pytest.raises(DatasetError, match="needs labels"):
        draw_split(Graph.from_edge_index(np.zeros((2, 0), np.int64), num_nodes=3), "rh", 0)


def test_numbers_large_and_small_have_their_share() -> None:
    y = torch.from_numpy(np.random.default_rng(0).exponential(size=1000)).float()
    y[:100] = torch.nan
    masks = stratified_split(y, (0.5, 0.25, 0.25), seed=3)
    assert [int(mask.sum()) for mask in masks.values()] == [450, 225, 225]
    assert not any(bool(mask[:100].any()) for mask in masks.values())
    tenth = torch.quantile(y[100:], torch.linspace(0.1, 0.9, 9))
    place = torch.bucketize(y, tenth)
    counts = torch.bincount(place[masks["train_mask"]], minlength=10)
    assert int(counts.max() - counts.min()) <= 2


def test_a_rare_label_is_in_every_part() -> None:
    y = torch.zeros(400, 3)
    y[:, 0] = (torch.arange(400) % 2).float()
    y[torch.arange(8) * 50, 2] = 1
    y[5] = torch.nan
    for seed in range(5):
        masks = stratified_split(y, (0.5, 0.25, 0.25), seed)
        assert [int(y[mask, 2].sum()) for mask in masks.values()] == [4, 2, 2]
        assert not masks["train_mask"][5]


def test_graphs_of_every_task_can_be_split() -> None:
    for y in (torch.rand(40), (torch.rand(40, 3) > 0.5).float()):
        graph = Graph.from_edge_index([[0], [1]], y=y)
        for split in ("rh", "random:60/20/20", "stratified:60/20/20"):
            assert sum(int(mask.sum()) for mask in draw_split(graph, split, 0).values()) == 40


@given(st.lists(st.integers(0, 12), min_size=3, max_size=60), st.integers(0, 5))
def test_times_are_in_order_and_never_cross_a_boundary(times: list[int], unlabelled: int) -> None:
    time = np.array(times, float)
    among = np.arange(len(time)) >= min(unlabelled, len(time) - 3)
    if len(np.unique(time[among])) < 3:
        with pytest.raises(DatasetError, match="three different times"):
            time_split(time, (0.5, 0.25, 0.25), among)
        return
    masks, first = time_split(time, (0.5, 0.25, 0.25), among)
    train, val, test = (time[masks[name]] for name in MASKS)
    assert train.max() < first[0] == val.min()
    assert val.max() < first[1] == test.min()
    assert np.array_equal(sum(masks.values()), among)


def test_a_split_by_time_without_ties_has_the_shares() -> None:
    time = np.random.default_rng(0).permutation(1000).astype(float)
    masks, _ = time_split(time, (0.5, 0.25, 0.25), np.ones(1000, bool))
    assert [int(mask.sum()) for mask in masks.values()] == [500, 250, 250]
