"""ClusterGCN: METIS splits the graph into clusters once; a step trains on the subgraph of a few clusters."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import ClassVar, NamedTuple
from zipfile import BadZipFile

import numpy as np

from handful.batch import Sample
from handful.errors import SamplerError
from handful.files import home, write_aside
from handful.graph import Graph
from handful.kernels.csr import row_of_edge
from handful.random import generator
from handful.samplers.base import Deal, Sampler, Size, check_options, per_graph, register
from handful.samplers.induced import dealt_samples, part_dtype


@register("cluster")
@dataclass(frozen=True)
class Clusters(Sampler):
    """ClusterGCN (paper, appendix): a batch is the subgraph induced by the union of B random clusters.

    An epoch shuffles the clusters and uses each once, in ⌈C/B⌉ steps; empty clusters do not count. The loss is the mean
    over the training nodes of the batch. METIS ignores self-loops and the directions and weights of edges; the batch
    keeps them.

    Args:
        clusters: C, the number of clusters.
        per_batch: B, the number of clusters in a batch.

    >>> import handful as hf
    >>> graph = hf.load("synthetic?nodes=100&degree=4")
    >>> sum(sample.num_nodes for sample in Clusters(clusters=10, per_batch=5).sample(graph, seed=0, epoch=0))
    100
    """

    clusters: Size = 200
    per_batch: Size = 20
    induces: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_options(self)
        if self.per_batch > self.clusters:
            raise SamplerError(f"per_batch is {self.per_batch}, but there are only {self.clusters} clusters to join")

    def prepare(self, graph: Graph) -> float:
        """Split the graph into clusters, unless they are cached; return the time that METIS took, in seconds."""
        return partition(graph, self.clusters).seconds

    def share(self, graph: Graph) -> float:
        return self.per_batch / self.clusters

    def sample(self, graph: Graph, seed: int, epoch: int) -> Iterator[Sample]:
        return dealt_samples(graph, *self.deal(graph, seed, epoch))

    def deal(self, graph: Graph, seed: int, epoch: int) -> Deal:
        return Deal(*deal_clusters(partition(graph, self.clusters).cluster, self.per_batch, generator(seed, epoch)))


def deal_clusters(cluster: np.ndarray, per_batch: int, rng: np.random.Generator) -> tuple[np.ndarray, int]:
    """Shuffle the clusters, and join ``per_batch`` clusters per batch. Return the batch of each node, and the number
    of batches.
    """
    sizes = np.bincount(cluster)
    present = np.flatnonzero(sizes)
    batches = -(-len(present) // per_batch)
    batch_of = np.zeros(len(sizes), part_dtype(batches))
    batch_of[present] = rng.permutation(len(present)) // per_batch
    return batch_of[cluster], batches


class Partition(NamedTuple):
    """The METIS partition of a graph, and the time that METIS took, in seconds."""

    cluster: np.ndarray
    """int32 ``(N,)``, the cluster of every node."""
    seconds: float


@per_graph
def partition(graph: Graph, clusters: int) -> Partition:
    """The METIS clusters of a graph, computed once per topology and cached on disk with the time that METIS took."""
    if clusters > graph.num_nodes:
        raise SamplerError(f"cannot cut {graph.num_nodes} nodes into {clusters} clusters: use fewer clusters")
    path = home() / "partitions" / f"{graph.checksum}-metis-{clusters}.npz"
    kept = _read(path, graph.num_nodes, clusters)
    if kept is None:
        began = perf_counter()
        kept = Partition(metis(graph, clusters), perf_counter() - began)
        _write(path, kept)
    return kept


def metis(graph: Graph, clusters: int) -> np.ndarray:
    """Split ``graph`` into ``clusters`` clusters of about equal size, with few edges between clusters."""
    if graph.num_edges > 1_000_000:
        print(f"handful: METIS cuts {graph.name} into {clusters} clusters (once)…", file=sys.stderr, flush=True)
    return cut_by_metis(*graph.topology, clusters)


def cut_by_metis(
    indptr: np.ndarray,
    indices: np.ndarray,
    parts: int,
    edge_weight: np.ndarray | None = None,
    node_weight: np.ndarray | None = None,
    recursive: bool = False,
) -> np.ndarray:
    """Split a graph with METIS, and return the part of every node, int32 ``(N,)``.

    The two directions of an edge count as one edge, and self-loops are ignored.

    Args:
        indptr, indices: a checked CSR.
        parts: the number of parts.
        edge_weight, node_weight: int64; the weights of several edges between two nodes are added.
        recursive: whether to bisect recursively, instead of splitting into all parts at once.
    """
    import pymetis
    from scipy.sparse import csr_array

    row, n = row_of_edge(indptr), len(indptr) - 1
    apart = row != indices
    weight = np.ones(int(apart.sum()), np.int64) if edge_weight is None else edge_weight[apart]
    one_way = csr_array((weight, (row[apart], indices[apart])), shape=(n, n))
    both = csr_array(one_way + one_way.T)
    both.sort_indices()
    edges = pymetis.CSRAdjacency(both.indptr.astype(np.int64), both.indices.astype(np.int64))
    costs = None if edge_weight is None else both.data
    result = pymetis.part_graph(parts, edges, vweights=node_weight, eweights=costs, recursive=recursive)
    return np.asarray(result.vertex_part, np.int32)


def _read(path: Path, nodes: int, clusters: int) -> Partition | None:
    """Read the partition from the cache; ``None`` if the cache has no partition of this graph."""
    try:
        with np.load(path, allow_pickle=False) as kept:
            cluster, seconds = kept["cluster"], float(kept["seconds"])
    except (OSError, ValueError, EOFError, KeyError, TypeError, BadZipFile):
        return None
    fits = cluster.dtype == np.int32 and cluster.shape == (nodes,) and cluster.min() >= 0 and cluster.max() < clusters
    return Partition(cluster, seconds) if fits and seconds >= 0 else None


def _write(path: Path, kept: Partition) -> None:
    """Write a partition to the cache, if the cache is writable."""

    def write(aside: Path) -> None:
        with aside.open("wb") as file:
            np.savez(file, cluster=kept.cluster, seconds=kept.seconds)

    with suppress(OSError):
        write_aside(path, write)
