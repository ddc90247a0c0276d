"""Plans: sizes without loading, memory that is close to what is then measured, and which m fits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from handful import Experiment, RandomNodes
from handful.datasets.shape import shape_of
from handful.errors import HandfulError
from handful.plan import Part, cut_seconds, disk_rate, plan
from handful.training.cost import LiveBytes
from handful.training.loop import train_epoch

PAPERS = "synthetic?nodes=111000000&degree=14.4&features=128&half=true&train=0.011"


@pytest.mark.slow
@pytest.mark.parametrize("norm", ["bn", "ln"])
def test_the_memory_of_a_step_is_near_what_a_step_of_the_true_graph_takes(norm: str) -> None:
    name = "synthetic?nodes=60000&degree=10&features=32&train=0.05"
    asked = Experiment(name, sampler=RandomNodes(3), hidden=32, layers=2, norm=norm, epochs=1)
    shape = shape_of(name)
    large = asked.with_(graph=name.replace("60000", "2400000"))
    small = plan(large, timed=False)
    assert small.shape.edges == 40 * shape.edges
    loop = asked.begin(asked.load(42), 42)
    with LiveBytes() as counted:
        train_epoch(loop)
    # Beside the step an epoch holds the deal, a byte for each node, and the edges inside parts.
    planned = small.chosen.step_bytes / 40 + shape.nodes + shape.edges * shape.index_bytes / 3
    # The margin of a third is for what the allocator keeps.
    assert planned / 2 < counted.peak < planned * 1.3


@pytest.mark.slow
def test_more_parts_take_less_and_the_smallest_that_fits_is_told() -> None:
    found = plan(Experiment(PAPERS, sampler=RandomNodes(8), hidden=256, layers=3, norm="ln"), timed=False)
    steps = [part.step_bytes for part in found.parts]
    budgets = [part.budget(found.shape, found.base) for part in found.parts]
    assert [part.m for part in found.parts] == [1, 2, 4, 8, 16, 32, 64]
    assert steps == sorted(steps, reverse=True)
    assert budgets == sorted(budgets, reverse=True)
    assert found.chosen.m == 8
    tight = replace(found, memory=budgets[3])
    assert [tight.fits(part) != "no" for part in tight.parts] == [False] * 3 + [True] * 4
    assert tight.smallest == 8
    none = replace(found, memory=1 << 20)
    assert none.smallest is None
    assert found.chosen.read(found.shape) >= found.shape.topology_bytes
    two = replace(found, processes=2)
    assert two.sent_replicated == 4 * found.parameters * 8
    assert two.sent_sharded > two.sent_replicated
    assert found.sent_replicated == found.sent_sharded == 0


def test_features_that_no_part_needs_are_not_read() -> None:
    shape = shape_of(PAPERS)
    assert Part(8, 0, 0, needed=0.0).read(shape) == shape.topology_bytes + shape.nodes
    all_of_it = Part(8, 0, 0, needed=1.0).read(shape)
    assert all_of_it == shape.topology_bytes + shape.nodes + shape.feature_bytes


def test_what_a_plan_is_not_for() -> None:
    with pytest.raises(HandfulError, match="rns and full, not saint"):
        plan(Experiment("debian", sampler="saint"))
    with pytest.raises(HandfulError, match="leave fraction out"):
        plan(Experiment("debian", sampler=RandomNodes(fraction=0.5)))
    with pytest.raises(HandfulError, match="no features"):
        plan(Experiment("synthetic?nodes=1000&features=0"))


def test_rates_are_measured() -> None:
    assert 0 < cut_seconds(1000, 4) < 1e-5
    assert disk_rate(None) > 1e6
