"""What all samplers have in common: a name, options, samples of structure alone, and batches made of them."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from dataclasses import FrozenInstanceError, dataclass, fields
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from handful import (
    Batch,
    Clusters,
    FullGraph,
    Graph,
    Ladies,
    Neighbors,
    RandomNodes,
    RandomWalks,
    Sample,
    SamplerError,
    make_batch,
)
from handful.adjacency import Adjacency
from handful.batch import training_sample
from handful.kernels.threads import get_threads, set_threads
from handful.samplers import Sampler, base, make_sampler, register, sampler_class, sampler_names
from handful.samplers.base import in_batches, per_graph
from handful.samplers.induced import induced_adjacency
from handful.trim import trim

SAMPLERS = [
    FullGraph(),
    RandomNodes(3),
    RandomNodes(3, drop_last=True, stratify=True),
    RandomNodes(fraction=0.3),
    Neighbors((3, 2), 40),
    Clusters(6, 2),
    RandomWalks(20, 2),
    RandomWalks(20, 2, normalize=True, coverage=2),
    Ladies((20, 20), 40),
]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where partitions are kept."""
    monkeypatch.setenv("HANDFUL_HOME", str(tmp_path))


def assert_same_layers(ones: tuple[Adjacency, ...], others: tuple[Adjacency, ...]) -> None:
    for one, other in zip(ones, others, strict=True):
        for f in fields(Adjacency):
            a, b = getattr(one, f.name), getattr(other, f.name)
            assert torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b, f.name


def assert_same_samples(one: Sample, other: Sample) -> None:
    assert torch.equal(one.nodes, other.nodes)
    assert torch.equal(one.targets, other.targets)
    assert (one.target_weight is None) == (other.target_weight is None)
    if one.target_weight is not None:
        assert torch.equal(one.target_weight, other.target_weight)
    assert_same_layers(one.layers, other.layers)


@pytest.mark.parametrize("sampler", SAMPLERS, ids=str)
def test_an_epoch_is_its_samples_with_what_the_graph_knows(medium: Graph, sampler: Sampler) -> None:
    samples, batches = list(sampler.sample(medium, 3, 1)), list(sampler.epoch(medium, 3, 1))
    assert samples
    for sample, batch in zip(samples, batches, strict=True):
        assert type(sample) is Sample  # structure alone
        assert type(batch) is Batch
        assert_same_samples(sample, batch)
        assert torch.equal(batch.x, medium.x[sample.nodes])
        assert torch.equal(batch.y, medium.y[sample.nodes[sample.targets]])
        assert medium.train_mask[sample.nodes[sample.targets]].all()


@pytest.mark.parametrize("sampler", SAMPLERS, ids=str)
def test_samples_depend_on_seed_and_epoch_alone(medium: Graph, sampler: Sampler) -> None:
    first, again, other = (list(sampler.sample(medium, 3, epoch)) for epoch in (1, 1, 2))
    for a, b in zip(first, again, strict=True):
        assert_same_samples(a, b)
    drawn = [[sample.nodes[sample.targets].tolist() for sample in samples] for samples in (first, other)]
    assert (drawn[0] == drawn[1]) == isinstance(sampler, FullGraph)


@pytest.mark.parametrize("sampler", SAMPLERS, ids=str)
def test_trimming_before_gathering_is_trimming_after_it(medium: Graph, sampler: Sampler) -> None:
    few = medium.replace(train_mask=medium.train_nodes[:8])
    for sample in sampler.sample(few, 0, 0):
        before, after = make_batch(few, trim(sample, 1)), trim(make_batch(few, sample), 1)
        assert_same_samples(before, after)
        assert torch.equal(before.x, after.x)
        assert torch.equal(before.y, after.y)


@pytest.mark.parametrize("sampler", SAMPLERS, ids=str)
def test_all_but_those_with_an_operator_of_their_own_can_evaluate_by_sampling(medium: Graph, sampler: Sampler) -> None:
    nodes = torch.tensor([4, 2])
    if sampler.name == "ladies":
        with pytest.raises(SamplerError, match=r"'ladies'.*own operator.*use evaluation="):
            sampler.evaluation(medium, nodes, 0)
        return
    for fanout in (None, (1,)):
        (sample,) = sampler.evaluation(medium, nodes, 0, fanout)
        assert sample.nodes[sample.targets].tolist() == [4, 2]
    assert sample.layers[0].num_edges == 2


@pytest.mark.parametrize("sampler", SAMPLERS, ids=str)
def test_options_make_the_sampler_again(sampler: Sampler) -> None:
    assert make_sampler(sampler.name, **sampler.options()) == sampler
    assert hash(make_sampler(sampler.name, **sampler.options())) == hash(sampler)
    assert sampler_class(sampler.name) is type(sampler)
    assert {type(one).name for one in SAMPLERS} == set(sampler_names())
    with pytest.raises(FrozenInstanceError):
        sampler.options = None  # type: ignore[assignment, method-assign]


def test_words_leave_out_what_is_off() -> None:
    assert str(RandomNodes(5, drop_last=True)) == "rns(parts=5, drop_last=True)"
    assert str(FullGraph()) == "full()"


def test_a_sampler_of_ones_own_in_a_few_lines(medium: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example of docs/samplers.md."""
    monkeypatch.setattr(base, "_REGISTER", dict(base._REGISTER))

    @register("window")
    @dataclass(frozen=True)
    class Window(Sampler):
        """Consecutive nodes: for graphs whose numbering means something."""

        size: int = 1000

        def sample(self, graph: Graph, seed: int, epoch: int) -> Iterator[Sample]:
            for nodes in torch.arange(graph.num_nodes).split(self.size):
                yield training_sample(graph, nodes, (induced_adjacency(graph, nodes.numpy()),))

    sampler = make_sampler("window", size=120)
    batches = list(sampler.epoch(medium, 0, 0))
    assert [b.num_nodes for b in batches] == [120, 120, 60]
    assert batches[1].nodes.tolist() == list(range(120, 240))
    assert str(sampler) == "window(size=120)"
    with pytest.raises(SamplerError, match="no option 'sise': did you mean size"):
        make_sampler("window", sise=3)


def test_unknown_names_are_answered_with_the_nearest() -> None:
    with pytest.raises(SamplerError, match="no sampler 'neigbor': did you mean neighbor"):
        make_sampler("neigbor")
    with pytest.raises(SamplerError, match="sampler 'neighbor': there is no option 'fan_out': did you mean fanout"):
        make_sampler("neighbor", fan_out=(3,))


@pytest.fixture(params=[1, 2, 3])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = get_threads()
    set_threads(request.param)
    yield request.param
    set_threads(before)


@given(st.integers(0, 40), st.integers(1, 12))
def test_batches_are_full_but_the_last_and_keep_the_order(count: int, size: int) -> None:
    nodes = np.arange(count)[::-1]
    drawn = list(in_batches(nodes, size, lambda step, batch: (step, batch)))
    assert [node for _, batch in drawn for node in batch] == nodes.tolist()
    assert all(len(batch) == size for _, batch in drawn[:-1])
    assert [step for step, _ in drawn] == list(range(-(-count // size)))


def steps(count: int, draw: Callable[[int], Any]) -> Iterator[Any]:
    return in_batches(np.arange(count), 1, lambda step, _: draw(step))


@pytest.mark.parametrize("count", [0, 1, 7])
def test_draws_come_in_order_whatever_the_threads(threads: int, count: int) -> None:
    assert list(steps(count, lambda step: step * step)) == [step * step for step in range(count)]


def test_as_many_are_drawn_at_once_as_there_are_threads(threads: int) -> None:
    together = Barrier(threads, timeout=20)  # nobody passes before all have come

    def draw(step: int) -> int:
        together.wait()
        return step

    assert list(steps(2 * threads, draw)) == list(range(2 * threads))


def test_nothing_is_drawn_before_it_is_asked_for(threads: int) -> None:
    drawn: list[int] = []
    coming = steps(3 * threads, lambda step: drawn.append(step) or step)
    assert drawn == []
    assert next(coming) == 0
    assert sorted(drawn) == list(range(threads))


def test_an_error_in_a_draw_is_raised(threads: int) -> None:
    def draw(step: int) -> int:
        if step == 2:
            raise KeyError("lost")
        return step

    with pytest.raises(KeyError, match="lost"):
        list(steps(4, draw))


def test_the_last_result_is_kept_for_every_graph_and_goes_with_it(medium: Graph) -> None:
    made: list[int] = []
    once = per_graph(lambda graph, number: made.append(number) or np.full(3, number))
    other = medium.replace(name="other")
    for graph, number in ((medium, 1), (other, 1), (medium, 1), (medium, 2), (other, 1), (medium, 1)):
        assert once(graph, number).tolist() == [number] * 3
    assert made == [1, 1, 2, 1]
    kept, forgotten = weakref.ref(once(other, 1)), weakref.ref(other)
    del other, graph
    gc.collect()
    assert forgotten() is None
    assert kept() is None


@pytest.mark.parametrize("wrong", [0, -1, 1.0, "3", None, True, float("nan"), (3,), 2**31])
def test_what_is_no_size_is_named(wrong: Any) -> None:
    with pytest.raises(SamplerError, match="sampler 'saint': roots must"):
        RandomWalks(roots=wrong)


@pytest.mark.parametrize(
    ("given", "numbers"),
    [(5, (5,)), ([5, 2], (5, 2)), ((-1,), (-1,)), (np.array([3, 4]), (3, 4)), (iter([1]), (1,)), ("7,2", (7, 2))],
)
def test_numbers_of_any_sequence_become_a_plain_tuple(given: Any, numbers: tuple[int, ...]) -> None:
    found = Neighbors(given).fanout
    assert found == numbers
    assert all(type(number) is int for number in found)


@pytest.mark.parametrize("wrong", [(), "ten", 2.5, (2.5,), (np.float32(2.5),), None, [1, None]])
def test_what_is_no_sequence_of_whole_numbers_is_refused(wrong: Any) -> None:
    with pytest.raises(SamplerError, match="fanout must be whole numbers, one for each hop, got"):
        Neighbors(wrong)
