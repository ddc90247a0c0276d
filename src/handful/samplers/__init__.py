"""Where batches come from: one file a sampler, all with the same ``epoch(graph, seed, epoch)``."""

from __future__ import annotations

from handful.samplers.base import Sampler, make_sampler, register, sampler_class, sampler_names
from handful.samplers.cluster import Clusters
from handful.samplers.full import FullGraph
from handful.samplers.ladies import Ladies
from handful.samplers.neighbor import Neighbors
from handful.samplers.random_node import RandomNodes
from handful.samplers.saint import RandomWalks

__all__ = [
    "Clusters",
    "FullGraph",
    "Ladies",
    "Neighbors",
    "RandomNodes",
    "RandomWalks",
    "Sampler",
    "make_sampler",
    "register",
    "sampler_class",
    "sampler_names",
]
