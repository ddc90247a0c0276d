"""Link prediction: some edges are held out, and a model learns to give edges higher scores than other pairs of nodes.

The score of a pair is the dot product of the model's outputs for its two nodes. Each step trains on one part. The
positives are the edges inside the part, and the negatives are random pairs of nodes in the part. To score the held-out
pairs, the model runs on the graph without the held-out edges.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, NamedTuple

import torch
from torch import Tensor

from handful.batch import Batch
from handful.errors import GraphError, HandfulError, SamplerError
from handful.graph import Graph, Kind, fingerprint
from handful.random import generator
from handful.samplers.base import Sampler
from handful.samplers.induced import without_edge
from handful.settings import Settings
from handful.training.execution import InMemory, copy_to
from handful.training.loop import Loop
from handful.training.loss import pair_scores

PAIRS = 65_536
"""The number of held-out pairs that are scored at a time."""
NEGATIVES = 1
"""The random stream of the negatives has four keys: seed, epoch, step, and this number. Other streams do not have a
fourth key.
"""


class Links(NamedTuple):
    """A graph for link prediction, which can be passed to ``fit``. ``split_links`` creates it."""

    graph: Graph
    """The graph without the held-out edges."""
    pairs: Tensor
    """int64 ``(2, P)``: the two nodes of each held-out pair."""
    y: Tensor
    """int64 ``(P,)``: 1 for a held-out edge, 0 for a pair without an edge."""
    val: Tensor
    """bool ``(P,)``: whether each pair is for validation; the others are for the test."""


@dataclass(frozen=True, eq=False, repr=False)
class LinkGraph(Graph):
    """A ``Links`` as a graph for training. Every node is a training node with the label 0, which is not used."""

    pairs: Tensor = None  # type: ignore[assignment]
    judged: Graph = None  # type: ignore[assignment]
    """A graph without edges, in which each node stands for a held-out pair."""
    kind: Kind = "links"
    num_outputs: int = 64
    """The number of outputs, if ``fit`` makes the model by name."""

    @classmethod
    def of(cls, links: Links) -> LinkGraph:
        """Convert ``links`` to a graph for training."""
        common: dict[str, Any] = {"num_classes": 2, "class_names": None, "task": "classification", "positive": 1}
        none, first = torch.zeros(links.graph.num_nodes, dtype=torch.int64), torch.zeros(len(links.y) + 1).long()
        judged = Graph(first, first[:0], y=links.y, val_mask=links.val, **common, checked=True)
        own = {"metric": "roc_auc", "y": none, "train_mask": none == 0, "val_mask": none > 0, "test_mask": none > 0}
        return cls(**links.graph.__getstate__() | common | own, pairs=links.pairs, judged=judged)

    def identity(self) -> dict[str, Any]:
        judged: Any = self.judged
        return super().identity() | {"links": fingerprint(self.pairs, judged.y, judged.val_mask)}

    def replace(self, **fields: Any) -> Graph:
        if not set(fields) <= {"name", "metric"}:
            raise GraphError(f"{self.name} is a graph for links: leave out {', '.join(sorted(fields))}")
        return super().replace(**fields)


class OfLinks(InMemory):
    """The execution for link prediction. The targets of a batch are the ends of pairs in a part, and the outputs for
    the evaluation are the scores of the held-out pairs.
    """

    def batches(self, loop: Loop) -> Iterator[Batch | None]:
        def add_pairs(step: int, batch: Batch | None) -> Batch | None:
            return None if batch is None else with_pairs(batch, loop.seed, loop.epoch, step)

        return map(add_pairs, count(), super().batches(loop))

    def outputs(self, loop: Loop) -> tuple[Tensor, Tensor]:
        assert isinstance(loop.graph, LinkGraph)
        pairs, model = loop.graph.pairs, loop.model if self.sends_to is None else copy_to(loop.graph.device, loop.model)
        outputs = self.infer(loop, model)
        scores = [pair_scores(outputs[some.reshape(-1)]).cpu() for some in torch.split(pairs, PAIRS, 1)]
        return torch.arange(pairs.shape[1]), torch.cat(scores)


def with_pairs(batch: Batch, *keys: int) -> Batch:
    """Replace the targets of a part's batch by pairs of nodes: first the first nodes of all pairs, then the second
    nodes of all pairs. Before the call, the targets of ``batch`` must be all nodes of the part.

    The label is 1 for the edges of the part, and 0 for random pairs. As many random pairs as edges are drawn; those
    that are edges, or that have the same node twice, are left out. An edge and its reverse count as one pair. ``keys``
    are seed, epoch and step.
    """
    edges, nodes = batch.layers[-1].edge_index, len(batch.targets)
    edges = edges[:, edges[0] < edges[1]]  # this omits stand-ins, which are numbered after the nodes
    drawn = torch.from_numpy(generator(*keys, NEGATIVES).integers(nodes, size=edges.shape)).to(edges.device)
    pairs = torch.cat([edges, without_edge(drawn.sort(0).values, edges, nodes)], 1)
    y = (torch.arange(pairs.shape[1], device=edges.device) < edges.shape[1]).long()
    return replace(batch, targets=batch.targets[pairs.reshape(-1)], y=y)


def check_links(sampler: Sampler, settings: Settings, memory: int | str | None) -> None:
    """Raise an error if link prediction is not possible with these arguments.

    Raises:
        HandfulError: an argument does not allow link prediction; the message names it.
    """
    if not sampler.induces:
        raise SamplerError(f"links are all edges of a part, and {sampler} draws edges: use rns, cluster or full")
    if memory is not None or settings.evaluation != "exact":
        raise HandfulError("links are trained in memory and evaluated exactly: leave memory and evaluation out")


def split_links(graph: Graph, val: float = 0.05, test: float = 0.1, seed: int = 42) -> Links:
    """Hold out edges of ``graph`` for validation and test, and draw the same number of node pairs that are not edges.

    Both directions and all copies of an edge are held out together. Self-loops stay in the graph. The pairs that are
    not edges are distinct, and are drawn uniformly from all such pairs in the full graph.

    Args:
        graph: an undirected graph with features; its labels are not used.
        val: the fraction of edges that is held out for validation.
        test: the fraction of edges that is held out for the test.
        seed: the random seed.

    Raises:
        HandfulError: the graph is directed, has no features, or has too few edges or too few pairs that are not edges;
            or a fraction is not valid.

    >>> import handful as hf
    >>> links = split_links(hf.load("synthetic?nodes=200&degree=8").to_undirected())
    >>> run = hf.fit("sage", links, hf.RandomNodes(parts=2), options={"hidden": 16, "layers": 2}, epochs=2)
    >>> run.metric, run.steps
    ('roc_auc', 4)
    """
    if not isinstance(graph, Graph) or not graph.undirected or graph.x is None:
        raise GraphError(f"links take an undirected Graph with features, got {graph}: see to_undirected and from_pyg")
    if not all(isinstance(share, float | int) and share >= 0 for share in (val, test)) or val + test >= 1:
        raise HandfulError(f"val and test take shares of the edges, together below 1, got {val!r} and {test!r}")
    graph, nodes = graph.to("cpu"), torch.arange(graph.num_nodes)
    first = nodes * (nodes - 1) // 2  # pairs u < v are numbered first[v] + u
    low, high = graph.edge_index.sort(0).values
    number = torch.where(low < high, first[high] + low, -1)
    edges = torch.unique(number[low < high])
    in_val, held = int(val * len(edges)), int(val * len(edges)) + int(test * len(edges))
    free = len(nodes) * (len(nodes) - 1) // 2 - len(edges)
    if (in_val == 0 < val) or (held - in_val == 0 < test) or not 0 < held <= free:
        what = f"{graph.name} has {len(edges)} edges between two nodes and {free} pairs without one"
        raise GraphError(f"{what}: too few for val {val:g} and test {test:g}")
    rng = generator(seed)
    out = edges[torch.from_numpy(rng.permutation(len(edges))[:held])]
    gaps = torch.from_numpy(rng.choice(free, held, replace=False))  # gap k is pair k + the edges before it
    pairs = torch.cat([out, gaps + torch.searchsorted(edges - torch.arange(len(edges)), gaps, right=True)])
    upper, place = torch.searchsorted(first, pairs, right=True) - 1, torch.arange(2 * held)
    kept = ~torch.isin(number, out)
    of_edges = {name: getattr(graph, name) for name in ("indices", "edge_weight", "edge_attr")}
    fields = {name: None if values is None else values[kept] for name, values in of_edges.items()}
    indptr = torch.cat([torch.zeros(1, dtype=torch.int64), kept.cumsum(0)])[graph.indptr]
    ends = torch.stack([pairs - first[upper], upper])
    return Links(graph.replace(indptr=indptr, **fields), ends, (place < held).long(), place % held < in_val)
