"""The batches of a step on several ranks: the mean of their gradients and what BatchNorm learns, as in one process."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import handful as hf
import ranks_jobs
from graphs import make_graph
from handful import ranks
from handful.random import derive_seed
from handful.training.group import Group
from handful.training.loss import node_loss
from handful.training.module import seed_step
from in_ranks import Launch, shared_launch
from small import assert_close_weights, small_sage

__all__ = ["shared_launch"]


def assert_same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    """Counts are equal, numbers up to rounding."""
    for name in ("epochs", "steps", "skipped", "best_epoch"):
        assert found[name] == expected[name], name
    assert found["val"] == pytest.approx(expected["val"])
    assert found["test"] == pytest.approx(expected["test"])
    assert torch.allclose(found["losses"], expected["losses"], atol=1e-5)
    assert set(found["weights"]) == set(expected["weights"])
    for name, weight in found["weights"].items():
        assert torch.allclose(weight, expected["weights"][name], atol=1e-5), name


@pytest.mark.parametrize("way", ranks_jobs.WAYS)
def test_the_result_does_not_depend_on_the_number_of_ranks(shared_launch: Launch, way: str) -> None:
    expected = ranks_jobs.trained_way(way)
    for found in shared_launch["ways"]:
        assert_same(found[way], expected)
    assert (expected["skipped"] > 0) == (way in ("bn, uneven", "ln, trimmed"))
    first, second = (found[way]["weights"] for found in shared_launch["ways"])
    assert all(torch.equal(first[name], second[name]) for name in first)  # all ranks have the very same model


def test_a_module_of_ones_own_begins_with_the_weights_of_rank_0(shared_launch: Launch) -> None:
    expected = ranks_jobs.own_module(shared_launch.folder)
    for found in shared_launch["own_module"]:
        assert_same(found, expected)


def test_any_rank_stops_all_of_them(shared_launch: Launch) -> None:
    assert shared_launch["stopped"] == [2, 2]


def test_a_run_that_one_process_began_goes_on_in_several(shared_launch: Launch) -> None:
    expected = ranks_jobs.trained_way("bn")
    for found in shared_launch["recorded"]:
        assert_same(found["first"], expected)
        assert_same(found["again"], expected)
    assert len((shared_launch.folder / "begun" / "metrics.jsonl").read_text().splitlines()) == 4


def test_a_step_goes_along_the_mean_of_its_batches() -> None:
    graph, sampler = make_graph(), hf.RandomNodes(5)
    ours, theirs = small_sage(graph, norm="none"), small_sage(graph, norm="none")
    run = hf.fit(ours, graph, sampler, epochs=1, lr=0.1, optimizer="sgd", parts_per_step=2, seed=5, trim=False)
    assert run.steps == 3
    step = torch.optim.SGD(theirs.parameters(), lr=0.1)
    batches = list(enumerate(sampler.epoch(graph, 5, 0)))
    for group in (batches[:2], batches[2:4], batches[4:]):
        losses = []
        for index, batch in group:
            seed_step(theirs, derive_seed(5, 0, index))
            losses.append(node_loss(theirs(batch)[batch.targets], batch.y))
        step.zero_grad()
        torch.stack(losses).mean().backward()
        step.step()
    assert_close_weights(ours.state_dict(), theirs.state_dict())


def test_a_group_alone_leaves_batchnorm_to_itself() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    group = Group(model)
    for place in range(2):
        model(torch.randn(5, 2)).sum().backward()
        group.add(place)
    gradient = model[0].bias.grad.clone()
    assert group.mean(3) == 2
    assert torch.equal(model[0].bias.grad, gradient / 2)
    assert group.mean(1) == 0
    group.close()
    assert int(model[1].num_batches_tracked) == 2


def test_running_statistics_and_other_buffers_that_ranks_cannot_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "size", lambda: 2)
    with pytest.raises(hf.HandfulError, match="without momentum"):
        Group(nn.BatchNorm1d(2, momentum=None))
    model = nn.BatchNorm1d(2)
    model.register_buffer("seen", torch.zeros(1))
    group = Group(model)
    model.seen += 1
    with pytest.raises(hf.HandfulError, match="buffer seen"):
        group.close()
