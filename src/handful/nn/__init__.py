"""The backbones, one file each, and their register by name."""

from __future__ import annotations

import inspect
from typing import Any

from handful.errors import HandfulError, unknown
from handful.nn.backbone import Backbone, parameter_count
from handful.nn.gat import GAT
from handful.nn.gcn import GCN
from handful.nn.graphland import GraphLandSAGE
from handful.nn.network import Network
from handful.nn.sage import SAGE
from handful.nn.sgformer import SGFormer

MODELS: dict[str, type[Network]] = {
    "gcn": GCN,
    "sage": SAGE,
    "gat": GAT,
    "sgformer": SGFormer,
    "graphland-sage": GraphLandSAGE,
}


def model_options(name: str) -> set[str]:
    """The options of a model, by name."""
    if name not in MODELS:
        raise HandfulError(unknown("model", name, MODELS))
    classes = [cls for cls in MODELS[name].__mro__ if issubclass(cls, Network)]
    known = {option for cls in classes for option in inspect.signature(cls.__init__).parameters}
    return known - {"self", "args", "kwargs", "options", "in_features", "out_features"}


def make_model(name: str, in_features: int, out_features: int, **options: Any) -> Network:
    """A model by name; an option that it does not have is an error with the nearest names."""
    known = model_options(name)
    for option in options:
        if option not in known:
            raise HandfulError(f"model '{name}': " + unknown("option", option, known))
    return MODELS[name](in_features, out_features, **options)  # type: ignore[call-arg]


__all__ = [
    "GAT",
    "GCN",
    "MODELS",
    "SAGE",
    "Backbone",
    "GraphLandSAGE",
    "Network",
    "SGFormer",
    "make_model",
    "model_options",
    "parameter_count",
]
