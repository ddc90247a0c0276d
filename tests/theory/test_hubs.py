from __future__ import annotations

import numpy as np
import pytest
import torch

from handful.graph import Graph
from handful.theory.hubs import HubShare, largest_hubs


def watched(present: np.ndarray, gradients: np.ndarray) -> HubShare:
    hubs = np.arange(present.shape[1]) + 100
    watch = HubShare(hubs)
    for row, gradient in zip(present, gradients, strict=True):
        nodes = np.concatenate([[3, 5], hubs[row]])
        watch.add(torch.from_numpy(nodes), torch.from_numpy(gradient))
    return watch


@pytest.mark.parametrize("seed", range(4))
def test_against_least_squares_on_stacked_gradients(seed: int) -> None:
    rng = np.random.default_rng(seed)
    present = rng.random((40, 3)) < 0.4
    gradients = rng.normal(size=(40, 7)) + present @ rng.normal(size=(3, 7)) + 5
    design = np.c_[np.ones(40), present]
    fitted = design @ np.linalg.lstsq(design, gradients, rcond=None)[0]
    plain = 1 - ((gradients - fitted) ** 2).sum() / ((gradients - gradients.mean(0)) ** 2).sum()
    assert watched(present, gradients).share == pytest.approx(1 - (1 - plain) * 39 / 36)


def test_a_hub_that_is_always_there_explains_nothing() -> None:
    rng = np.random.default_rng(0)
    present = np.c_[np.ones(60, bool), rng.random(60) < 0.5]
    noise = rng.normal(size=(60, 400))
    assert watched(present, noise).share == pytest.approx(watched(present[:, 1:], noise).share)
    assert abs(watched(present, noise).share) < 0.02


def test_too_little_to_tell() -> None:
    assert np.isnan(watched(np.eye(3, dtype=bool), np.ones((3, 2))).share)
    assert np.isnan(watched(np.ones((3, 1), bool), np.ones((3, 2))).share)


def test_largest_hubs() -> None:
    star = Graph.from_edge_index(np.array([[4, 4, 4, 2, 2], [0, 1, 3, 0, 1]]), 6)
    assert largest_hubs(star, 2).tolist() == [4, 0]
