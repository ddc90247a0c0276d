"""Samplers draw the batches of an epoch. Each sampler has its own file and a method ``sample(graph, seed, epoch)``."""

from __future__ import annotations

from handful.samplers.base import Sampler as Sampler
from handful.samplers.base import make_sampler as make_sampler
from handful.samplers.base import register as register
from handful.samplers.base import sampler_class as sampler_class
from handful.samplers.base import sampler_names as sampler_names
from handful.samplers.cluster import Clusters as Clusters
from handful.samplers.full import FullGraph as FullGraph
from handful.samplers.induced import induced_adjacency as induced_adjacency
from handful.samplers.ladies import Ladies as Ladies
from handful.samplers.neighbor import Neighbors as Neighbors
from handful.samplers.random_node import RandomNodes as RandomNodes
from handful.samplers.saint import RandomWalks as RandomWalks
