"""Where batches come from: one file a sampler, all with the same ``epoch(graph, seed, epoch)``."""

from __future__ import annotations

from handful.samplers.base import Sampler, make_sampler, register, sampler_class, sampler_names
from handful.samplers.full import FullGraph
from handful.samplers.random_node import RandomNodes

__all__ = [
    "FullGraph",
    "RandomNodes",
    "Sampler",
    "make_sampler",
    "register",
    "sampler_class",
    "sampler_names",
]
