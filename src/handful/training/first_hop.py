"""The precomputed first hop: the features X are constant, so the aggregation ÂX is computed once, before training.

The first layer of GraphSAGE and GCN is then exact in every batch; only LADIES does not support this. A batch needs one
hop less, and no training step aggregates features. ``Known`` stores [X ‖ ÂX] and makes the batches. If there are
mean-field neighbours (``handful.mean_field``), ``Known`` stores [X ‖ ÂX ‖ Â²X]. The batch of a part is trimmed to the
receptive field of its loss, even if the model has BatchNorm. The statistics of BatchNorm then cover only the rows that
a layer computes.

Cluster-GCN's code (``precalc``), VR-GCN and BNS-GCN (``--use-pp``) also precompute the first hop.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn

from handful.adjacency import Adjacency, Hop
from handful.batch import Batch, Sample, make_batch
from handful.budget import free_memory, show_size
from handful.errors import HandfulError, SamplerError
from handful.graph import Graph
from handful.kernels.sparse import bytes_of, from_scipy, is_sparse, scipy_rows
from handful.kernels.stand_in import StandIns, gather_hops
from handful.mean_field import stand_in
from handful.nn.backbone import Stack
from handful.samplers.base import Sampler
from handful.samplers.full import full_adjacency
from handful.settings import Settings
from handful.shuffle.over_ranks import own_rows
from handful.shuffle.shards import ShardedGraph, all_rows
from handful.training.inference import outputs_of
from handful.trim import S, trim

SLOW = 10**10
"""If an aggregation has more additions than this, a message is printed when it starts."""
ROWS = 1 << 20
"""The number of rows per chunk in ``mass_of``."""
LARGEST_SHARE = 0.5
"""If ``first_hop`` is ``auto``, the first hop is precomputed only if the aggregated features need at most this fraction
of the free memory or disk space.
"""


class Aggregates(Stack):
    """X → [X ‖ ÂX ‖ … ‖ Â^K X], in the dtype of X. The aggregation is written as a network without weights, so that
    exact inference can compute the aggregates in memory, within a budget or on shards.

    >>> import handful as hf
    >>> pair = Graph.from_edge_index([[0, 1], [1, 0]], x=torch.tensor([[1.0], [3.0]]))
    >>> outputs_of(Aggregates(1, 2, "mean"), pair)
    tensor([[1., 3., 1.],
            [3., 1., 3.]])
    """

    embeds = False
    last_gives_logits = True
    whole_layers = 0

    def __init__(self, features: int, hops: int, hop: Hop, dtype: torch.dtype = torch.float32) -> None:
        super().__init__(features, (1 + hops) * features, layers=hops, hop=hop)
        self.aggregation, self.dtype = hop, dtype
        # Inference reads the device, the type and the width from the parameters. A layer has few temporary rows, so
        # that half of the width is enough, and chunks are twice as large.
        self.width = nn.ParameterList([nn.Parameter(torch.empty(-(-self.out_features // 2), 0), requires_grad=False)])

    def blocks(self) -> list[list[nn.Module]]:
        return [[self.width]] * self.depth

    def embed(self, x: Tensor) -> Tensor:
        return x

    def layer(self, i: int, adj: Adjacency, h: Tensor) -> Tensor:
        around = getattr(adj, self.aggregation)(h[:, -self.in_features :]).to(self.dtype)
        if not bool(around.isfinite().all()):
            raise HandfulError(f"aggregated features overflow {self.dtype}: save the graph with features in float32")
        return torch.cat([adj.own(h).to(self.dtype), around], 1)

    def head(self, h: Tensor) -> Tensor:
        return h


@dataclass(frozen=True, eq=False)
class Known:
    """The precomputed aggregates of the features, and methods that make batches with them.

    Args:
        graph: the graph with the features [X ‖ ÂX] or [X ‖ ÂX ‖ Â²X].
        features: the number of columns of X.
        hop: the aggregation Â.
        depth: the number of layers of the model.
        mean_field: the weight λ of a stand-in, which is a mean-field neighbour; 0 for no stand-ins.
        mass: ``(N,)``, for every node, the divisor of the aggregation ``hop`` (``Adjacency.mass``); empty if there are
            no mean-field neighbours.
        exact: whether the first hop is exact. The first hop may be sampled only if there are stand-ins.
        seconds: the time that the computation of the aggregates took, in seconds.
        whole: if the batch is the full graph, the number of layers after the first that must compute all rows for
            BatchNorm; ``None`` if the model has no such layers.
        trims: whether samples are trimmed to the receptive field of their loss.
    """

    graph: Graph
    features: int
    hop: Hop
    depth: int
    mean_field: float
    mass: Tensor
    exact: bool = True
    seconds: float = 0.0
    whole: int | None = None
    trims: bool = True

    @property
    def width(self) -> int:
        """The number of columns of a batch's features."""
        return 2 * self.features

    def cut(self, sample: S) -> S:
        """If ``trims``, trim ``sample`` to the receptive field of its loss. If ``sample`` is the full graph, the rows
        that BatchNorm needs are kept.
        """
        full = sample.num_nodes == self.graph.num_nodes
        return trim(sample, max(1, self.depth - 1), self.whole if full else None) if self.trims else sample

    def stand_in(self, sample: Sample) -> tuple[Sample, StandIns]:
        """Call ``handful.mean_field.stand_in`` with the fields of this object."""
        return stand_in(sample, self.depth, self.hop, self.mean_field, self.mass)

    def make_batch(self, sample: Sample) -> Batch:
        """Make a batch from a sample of the graph. Each row of its features is [own ‖ aggregated]."""
        sample = self.cut(sample)
        if not self.mean_field:
            return make_batch(self.graph, sample)
        assert self.graph.x is not None
        assert self.graph.y is not None
        y = self.graph.y.index_select(0, sample.nodes.index_select(0, sample.targets))
        sample, result = self.stand_in(sample)
        return self._fill(sample, result, self.graph.x, sample.nodes, y)

    def expand(self, batch: Batch) -> Batch:
        """Trim ``batch`` and add its stand-ins, as ``make_batch`` does. The features of ``batch`` must be rows of
        ``graph.x``.
        """
        batch = self.cut(batch)
        if not self.mean_field:
            return batch
        sample, result = self.stand_in(batch)
        return self._fill(sample, result, batch.x, result.rows, batch.y)

    def _fill(self, sample: Sample, result: StandIns, x: Tensor, at: Tensor, y: Tensor) -> Batch:
        """Make the batch of ``sample``. Row i of its features comes from row ``at[i]`` of ``x``: it is this row itself,
        or the stand-in of this row.
        """
        edges = None if self.exact else (result.indptr, result.indices, result.weight)
        x = gather_hops(x, at, result.level, self.features, edges)
        return Batch(sample.nodes, sample.layers, sample.targets, sample.target_weight, x=x, y=y)


def structure(sample: Sample, known: Known | None) -> Sample:
    """Trim ``sample`` and add its stand-ins, as ``known`` specifies; if ``known`` is ``None``, return ``sample``
    unchanged.
    """
    sample = sample if known is None else known.cut(sample)
    return sample if known is None or not known.mean_field else known.stand_in(sample)[0]


@dataclass(frozen=True)
class Prepared(Sampler):
    """A sampler for ``handful.theory``, whose batches have the precomputed first hop and the stand-ins of ``known``."""

    sampler: Sampler
    known: Known

    @classmethod
    def of(cls, sampler: Sampler, graph: Graph, model: nn.Module, settings: Settings) -> Sampler:
        """A sampler that yields the batches on which ``model`` is trained with ``settings``.

        The result is ``sampler`` itself if nothing is precomputed, and a ``Prepared`` sampler otherwise.
        """
        exact = resolve_first_hop(model, graph, sampler, settings)
        return cls(sampler, know(graph, model, settings)) if exact else sampler

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.sampler.name

    @property
    def method(self) -> str:
        return "rns-mean-field" if self.sampler.method == "rns" and self.known.mean_field else self.sampler.method

    def options(self) -> dict[str, Any]:
        return {**self.sampler.options(), "first_hop": "exact", "mean_field": self.known.mean_field}

    def sample(self, graph: Graph, seed: int, epoch: int) -> Iterator[Sample]:
        return self.sampler.sample(graph, seed, epoch)

    def epoch(self, graph: Graph, seed: int, epoch: int) -> Iterator[Batch]:
        return map(self.known.make_batch, self.sampler.sample(graph, seed, epoch))


def know(
    graph: Graph, model: nn.Module, settings: Settings, memory: int | str | None = None, shared: bool = False
) -> Known:
    """Precompute the aggregated features of ``graph`` for the first layer of ``model``.

    Args:
        graph: a graph in memory, memory-mapped from files, or in shards.
        model: a model for which ``refusal`` returns ``None``.
        settings: the training settings; ``mean_field`` is λ.
        memory: a budget, as for ``fit``. If there is a budget, the aggregates are kept in files in the folder of the
            saved graph.
        shared: whether each rank computes only some of the rows. At the end, every rank has all rows.
    """
    assert graph.x is not None
    assert isinstance(model, Stack)
    hop = model.hop
    assert hop is not None
    hops = hops_of(settings)
    beside = None if memory is None or graph.folder is None else _writable(graph.folder / "hops")
    began = perf_counter()
    if hops * graph.num_edges * graph.x.shape[1] > SLOW:
        print(f"handful: aggregating the features of {graph.name} (once)…", file=sys.stderr, flush=True)
    if is_sparse(graph.x) and memory is None:
        x = sparse_aggregates(graph, hops, hop)
    else:
        network = Aggregates(graph.x.shape[1], hops, hop, graph.x.dtype).to(graph.device)
        x = outputs_of(network, graph, shared=shared, memory=memory, scratch=beside)
    mass = mass_of(graph, hop) if settings.mean_field else torch.empty(0)
    wide = replace(graph, x=x)  # the graph is already checked
    wide.__dict__.update({name: vars(graph)[name] for name in ("has_loops", "checksum") if name in vars(graph)})
    stands_in = settings.mean_field if model.depth > 1 else 0.0  # with one layer no neighbour is missing
    exact = settings.first_hop == "exact" or not stands_in
    whole = model.whole_layers - 1 if model.whole_layers else None
    seconds = perf_counter() - began
    return Known(wide, graph.x.shape[1], hop, model.depth, stands_in, mass, exact, seconds, whole, settings.trim)


def sparse_aggregates(graph: Graph, hops: int, hop: Hop) -> Tensor:
    """[X ‖ ÂX ‖ … ‖ Â^K X] for sparse features X: sparse rows, or dense rows if these need less memory."""
    from scipy.sparse import csr_array, hstack

    assert graph.x is not None
    edges, blocks = full_adjacency(graph.to("cpu")).operator(hop)[0], [scipy_rows(graph.x)]
    arrays = (array.numpy() for array in (edges.weight, edges.indices, edges.indptr) if array is not None)
    matrix = csr_array(tuple(arrays), shape=(graph.num_nodes,) * 2)
    for _ in range(hops):
        blocks.append(matrix @ blocks[-1])
    result = hstack(blocks, format="csr")
    if 2 * result.nnz > result.shape[0] * result.shape[1]:  # a value needs its column too
        return torch.from_numpy(result.toarray()).to(graph.device)
    return from_scipy(result).to(graph.device)


def aggregate_bytes(graph: Graph, hops: int) -> int:
    """The size of ÂX, …, Â^K X in bytes. For sparse X, it is an upper limit: no two neighbours share a column."""
    assert graph.x is not None
    if not is_sparse(graph.x):
        return hops * graph.x.nbytes
    edges, total = Adjacency(graph.indptr, graph.indices, graph.num_nodes), 0.0
    held = graph.x.crow_indices().diff()[:, None].to(torch.float32)
    for _ in range(hops):
        held = (held + edges.matmul(held)).clamp_max(graph.num_features)
        total += float(held.double().sum())
    return int(8 * total)


def _writable(folder: Path) -> Path | None:
    """Create ``folder`` if it does not exist, and return it; return ``None`` if it cannot be created."""
    try:
        folder.mkdir(exist_ok=True)
    except OSError:
        return None
    return folder


def mass_of(graph: Graph, hop: Hop) -> Tensor:
    """float32 ``(N,)``: for every node, the divisor of the aggregation ``hop``; see ``Adjacency.mass``.

    >>> mass_of(Graph.from_edge_index([[0, 1], [1, 0]]), "gcn")
    tensor([2., 2.])
    """
    edges = own_rows(graph) if isinstance(graph, ShardedGraph) else full_adjacency(graph)
    out = torch.empty(edges.num_targets, device=edges.device)
    for lo in range(0, len(out), ROWS):
        out[lo : lo + ROWS] = edges.cut(lo, min(lo + ROWS, len(out))).mass(hop)
    return all_rows(out) if isinstance(graph, ShardedGraph) else out


# -- whether it can be precomputed ------------------------------------------------------------------------------------


def refusal(hop: Hop | None, name: str, sampler: Sampler, mean_field: float) -> str | None:
    """The reason why the first hop cannot be precomputed; ``None`` if it can be. The model is called ``name``, and the
    aggregation in its first layer is ``hop``.
    """
    if hop is None:
        return f"the first layer of {name} does not aggregate the features as they are"
    if sampler.layerwise:
        return f"sampler '{sampler.name}' draws the edges of every layer, the first included"
    if mean_field and not sampler.induces:
        return f"mean_field is for parts of the graph with all edges inside, and sampler '{sampler.name}' draws edges"
    return None


def check_first_hop(hop: Hop | None, name: str, sampler: Sampler, settings: Settings) -> None:
    """Raise an error if ``settings`` require a precomputed first hop that cannot be precomputed.

    Raises:
        SamplerError: the settings require a precomputed first hop, but it cannot be precomputed.
    """
    why = refusal(hop, name, sampler, settings.mean_field)
    if why is not None and asks(settings):
        what = "first_hop 'exact'" if settings.first_hop == "exact" else f"mean_field {settings.mean_field:g}"
        raise SamplerError(f"{what} cannot be: {why}. Use first_hop 'sampled' and mean_field 0")


def resolve_first_hop(
    model: nn.Module, graph: Graph, sampler: Sampler, settings: Settings, memory: int | str | None = None
) -> bool:
    """Whether to precompute the first hop. If ``settings.first_hop`` is ``auto`` and the first hop is not precomputed,
    the reason is printed.

    Raises:
        SamplerError: the settings require a precomputed first hop, but it cannot be precomputed.
    """
    hop, name = model.hop if isinstance(model, Stack) else None, type(model).__name__
    check_first_hop(hop, name, sampler, settings)
    if settings.first_hop != "auto":
        return asks(settings)
    assert graph.x is not None
    why = refusal(hop, name, sampler, settings.mean_field)
    if why is None:
        needed = bytes_of(graph.x) + aggregate_bytes(graph, hops_of(settings))
        if memory is not None and is_sparse(graph.x):  # files have dense rows
            needed = (2 + hops_of(settings)) * 4 * graph.x.numel()
        place = graph.folder or tempfile.gettempdir()
        free = free_memory() if memory is None else shutil.disk_usage(place).free
        if free is not None and needed > LARGEST_SHARE * free:
            why = f"the aggregated features take {show_size(needed)}, and {show_size(free)} are free"
    if why is not None:
        what = "first_hop auto is sampled" + (" and mean_field is 0" if settings.mean_field else "")
        print(f"handful: {what}: {why}", file=sys.stderr, flush=True)
    return why is None


def asks(settings: Settings) -> bool:
    """Whether ``settings`` require precomputed aggregates of the full graph. The setting ``auto`` does not require
    them.
    """
    return settings.first_hop == "exact" or (settings.first_hop == "sampled" and settings.mean_field > 0)


def hops_of(settings: Settings) -> int:
    """K: how often the features are aggregated."""
    return 2 if settings.mean_field else 1
