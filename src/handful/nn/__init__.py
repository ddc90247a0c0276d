"""The backbones, one file each, and their register by name."""

from __future__ import annotations

import inspect
from typing import Any

from handful.errors import HandfulError, unknown
from handful.nn.backbone import Backbone, parameter_count
from handful.nn.gat import GAT
from handful.nn.gcn import GCN
from handful.nn.sage import SAGE

MODELS: dict[str, type[Backbone]] = {"gcn": GCN, "sage": SAGE, "gat": GAT}


def make_model(name: str, in_features: int, out_features: int, **options: Any) -> Backbone:
    """A backbone by name; an option that it does not have is an error with the nearest names."""
    if name not in MODELS:
        raise HandfulError(unknown("model", name, MODELS))
    known = set(inspect.signature(Backbone.__init__).parameters) | set(inspect.signature(MODELS[name]).parameters)
    for option in options:
        if option not in known:
            raise HandfulError(f"model '{name}': " + unknown("option", option, known - {"self", "options"}))
    return MODELS[name](in_features, out_features, **options)


__all__ = ["GAT", "GCN", "MODELS", "SAGE", "Backbone", "make_model", "parameter_count"]
