"""Samplers, the sources of batches: one file per sampler, all with the same ``sample(graph, seed, epoch)``."""

from __future__ import annotations

from handful.samplers.base import Sampler, make_sampler, register, sampler_class, sampler_names
from handful.samplers.cluster import Clusters
from handful.samplers.full import FullGraph
from handful.samplers.induced import induced_adjacency
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
    "induced_adjacency",
    "make_sampler",
    "register",
    "sampler_class",
    "sampler_names",
]
