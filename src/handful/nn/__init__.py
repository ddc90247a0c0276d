"""The models, one file per model, and a registry of the models by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn

from handful.errors import HandfulError, require_name, unknown
from handful.nn.backbone import parameter_count as parameter_count
from handful.nn.gat import GAT as GAT
from handful.nn.gcn import GCN as GCN
from handful.nn.graphland import GraphLandSAGE as GraphLandSAGE
from handful.nn.network import Network as Network
from handful.nn.network import declared_options
from handful.nn.sage import SAGE as SAGE
from handful.nn.sgformer import SGFormer as SGFormer

MODELS: dict[str, type[Network]] = {
    "gcn": GCN,
    "sage": SAGE,
    "gat": GAT,
    "sgformer": SGFormer,
    "graphland-sage": GraphLandSAGE,
}


def model_defaults(name: str) -> dict[str, Any]:
    """The default value of each option of the model ``name``.

    >>> model_defaults("graphland-sage")
    {'hidden': 512, 'layers': 3, 'dropout': 0.2}
    """
    require_name("model", name, MODELS)
    return {option: parameter.default for option, parameter in declared_options(MODELS[name]).items()}


def model_options(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """All options of a model: the ``given`` ones, and the defaults of the others. No model is created.

    Raises:
        HandfulError: the model does not exist, has no such option (the message suggests similar names), or does not
            accept a value.
    """
    defaults = model_defaults(name)
    for option in given:
        if option not in defaults:
            raise HandfulError(f"model '{name}': " + unknown("option", option, defaults))
    return MODELS[name].check(defaults | dict(given))


def make_model(name: str, in_features: int, out_features: int, **options: Any) -> Network:
    """Make a model by name. For an unknown option, the error message suggests similar names.

    >>> make_model("sage", in_features=8, out_features=3, hidden=16, layers=2).depth
    2
    """
    complete = model_options(name, options)
    return MODELS[name](in_features, out_features, **complete)


def model_name(model: nn.Module | type[nn.Module]) -> str | None:
    """The name under which the class of ``model`` is registered; ``None`` if it is not registered."""
    kind = model if isinstance(model, type) else type(model)
    return next((name for name, cls in MODELS.items() if kind is cls), None)
