from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import torch

from handful import Batch, Graph, SamplerError
from handful.batch import make_batch
from handful.samplers import Sampler, base, make_sampler, register, sampler_names
from handful.samplers.random_node import induced_adjacency


def test_every_sampler_is_known_by_name() -> None:
    assert {"full", "neighbor", "cluster", "saint", "ladies", "rns"} <= set(sampler_names())
    for name in sampler_names():
        sampler = make_sampler(name)
        assert sampler.name == name
        assert make_sampler(name, **sampler.options()) == sampler


def test_a_sampler_of_ones_own_in_a_few_lines(medium: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example of docs/samplers.md."""
    monkeypatch.setattr(base, "_REGISTER", dict(base._REGISTER))

    @register("window")
    @dataclass(frozen=True)
    class Window(Sampler):
        """Consecutive nodes: for graphs whose numbering means something."""

        size: int = 1000

        def epoch(self, graph: Graph, seed: int, epoch: int) -> Iterator[Batch]:
            for nodes in torch.arange(graph.num_nodes).split(self.size):
                yield make_batch(graph, nodes, (induced_adjacency(graph, nodes.numpy()),))

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
