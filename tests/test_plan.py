"""Plans: sizes without loading, memory that is close to what is then measured, and which m fits."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import handful as hf
from graphs import make_graph
from handful import Experiment, RandomNodes
from handful.cli.app import app
from handful.cli.plan import duration
from handful.datasets.shape import shape_of
from handful.errors import HandfulError
from handful.plan import Part, cut_seconds, disk_rate, plan
from handful.storage import save
from handful.training.cost import LiveBytes
from handful.training.loop import train_epoch
from npz import write_npz

PAPERS = "synthetic?nodes=111000000&degree=14.4&features=128&half=true&train=0.011"


def test_the_shape_of_a_graph_is_known_without_loading_it(tmp_path: Path) -> None:
    graph = make_graph(300)
    assert graph.train_mask is not None
    saved = save(graph, tmp_path / "g")
    shape = shape_of(str(saved))
    assert (shape.nodes, shape.edges, shape.features) == (300, graph.num_edges, graph.num_features)
    assert (shape.outputs, shape.train) == (graph.num_outputs, int(graph.train_mask.sum()))
    assert shape.folder == saved
    assert shape.known == "its header and masks"
    (saved / "indices.npy").write_bytes(b"")  # nothing of it is read
    assert shape_of(str(saved)) == shape
    assert shape_of(str(saved), "random:20/40/40").train == 60

    loaded = shape_of(str(write_npz(tmp_path / "g.npz", graph)))
    assert (loaded.nodes, loaded.edges, loaded.train) == (shape.nodes, shape.edges, shape.train)
    assert loaded.known == "loading it"

    papers = shape_of(PAPERS)
    assert (papers.nodes, papers.edges, papers.train) == (111_000_000, 1_598_400_000, 1_221_000)
    assert papers.element == 2
    debian = hf.load("debian")
    named = shape_of("debian")
    assert (named.nodes, named.edges, named.features) == (debian.num_nodes, debian.num_edges, debian.num_features)
    assert named.train == pytest.approx(len(debian.train_nodes), rel=0.01)


@pytest.mark.parametrize("norm", ["bn", "ln"])
def test_the_memory_of_a_step_is_near_what_a_step_of_the_true_graph_takes(norm: str) -> None:
    name = "synthetic?nodes=60000&degree=10&features=32&train=0.05"
    asked = Experiment(name, sampler=RandomNodes(3), hidden=32, layers=2, norm=norm, epochs=1)
    shape = shape_of(name)
    small = plan(
        asked, timed=False, shape=replace(shape, nodes=40 * shape.nodes, edges=40 * shape.edges, train=40 * shape.train)
    )
    loop = asked.begin(asked.load(42), 42)
    with LiveBytes() as counted:
        train_epoch(loop)
    # The margin of a third is for what the allocator keeps.
    assert counted.peak < small.chosen.step_bytes / 40 * 1.3
    assert counted.peak > small.chosen.step_bytes / 40 / 2


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


def test_the_command() -> None:
    words = ["plan", "synthetic?nodes=3000&degree=6&features=8", "--hidden", "16", "--layers", "2", "--parts", "3"]
    answer = CliRunner().invoke(app, [*words, "--memory", "4GiB", "--processes", "2"])
    assert answer.exit_code == 0, answer.output
    for said in ("an epoch", "an exact evaluation", "scratch files", "sent per epoch", "m = 3 fits into a budget"):
        assert said in answer.output
    answer = CliRunner().invoke(app, ["plan", PAPERS, "--parts", "8", "--no-timed", "--json", "--hidden", "64"])
    found = json.loads(answer.stdout)
    assert found["arithmetic"]
    assert found["epoch_seconds"] is None
    assert found["graph"]["edges"] == 1_598_400_000
    assert [row["parts"] for row in found["by_parts"]] == [1, 2, 4, 8, 16, 32, 64]


@pytest.mark.parametrize(("seconds", "text"), [(0.0312, "0.031 s"), (75, "75 s"), (1500, "25 min"), (9000, "2.5 h")])
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text
