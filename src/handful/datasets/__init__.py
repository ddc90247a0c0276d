"""Load graphs by name from the registry, or from files."""

from __future__ import annotations

from handful.datasets.registry import Query, Source, load, sources, write
from handful.datasets.splits import random_split, rank_split, stratified_split
from handful.files import home

__all__ = ["Query", "Source", "home", "load", "random_split", "rank_split", "sources", "stratified_split", "write"]
