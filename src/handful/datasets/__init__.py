"""Where graphs come from: by name from the registry, or from files."""

from __future__ import annotations

from handful.datasets.registry import Request, Source, home, load, sources
from handful.datasets.splits import random_split, rank_split, stratified_split

__all__ = ["Request", "Source", "home", "load", "random_split", "rank_split", "sources", "stratified_split"]
