"""The display names of methods, models, optimisers and the terms of the theory; and the paper's seeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

PAPER_SEEDS = (42, 123, 456, 789, 101112)
DATASETS = (
    *("debian", "synthetic"),
    *("ogbn-arxiv", "ogbn-products", "ogbn-proteins", "ogbn-papers100M", "pokec"),
    *("hm-categories", "pokec-regions", "web-topics", "tolokers-2", "city-reviews", "artnet-exp", "web-fraud"),
    *("hm-prices", "avazu-ctr", "city-roads-M", "city-roads-L", "twitch-views", "artnet-views", "web-traffic"),
    "pyg:…",
)
"""The names of data sets. A name that ends in ``:…`` is a family of data sets."""
METHODS = {
    "full": "Full graph",
    "neighbor": "Neighbour sampling",
    "cluster": "ClusterGCN",
    "saint": "GraphSAINT",
    "ladies": "LADIES",
    "rns": "RNS",
    "rns-mean-field": "RNS + mean field",
    "rns-labels": "RNS + mean field + labels",
}
"""The display names of the methods, in the order of the paper's tables; methods that are not in the paper come last."""
MODELS = {
    "gcn": "GCN",
    "sage": "GraphSAGE",
    "gat": "GAT",
    "sgformer": "SGFormer",
    "graphland-sage": "GraphLand's GraphSAGE",
}
REGIMES = {"full": "Full graph", "rns-no-batch": "RNS (no batch)", "rns": "RNS"}
OPTIMIZERS = {"sgd": "SGD", "sgdm": "SGD+M", "adam": "Adam", "adamw": "AdamW"}
TERMS = {
    "bias": "Bias |L_full − L̄|",
    "loss_variance": "Variance of losses",
    "R": "Variance of gradients R(w)",
    "grad_norm_sq": "Gradient norm ‖∇L̄‖²",
    "adam_R": "R(w) in Adam's metric",
    "adam_norm": "‖∇L̄‖² in Adam's metric",
    "alpha_error": "Error of exponent |α − α_full|",
}
"""The display names of the terms of the implicit objective, and of the error of the degree exponent."""
STRUCTURE = {
    "edges": "edges of a part",
    "average_degree": "average degree",
    "isolated": "isolated nodes",
    "components": "components",
    "largest_component": "largest component (nodes)",
    "diameter": "diameter (lower bound)",
    "average_distance": "average distance",
    "homophily": "homophily",
}
FLOWS = {
    "sgd": {
        "modified": "L̄ + α/4·‖∇L̄‖² + α/4·R",
        "unmodified": "L̄ alone",
        "appendix_coefficient": "L̄ + m·α/4·(‖∇L̄‖² + R)",
    },
    "sgdm": {
        "modified": "L̄ + c·‖∇L̄‖² + α/4·ρ·R, c = α/4·(1+β)/(1−β)",
        "unmodified": "L̄ alone",
        "one_factor": "L̄ + c·(‖∇L̄‖² + R)",
        "mean_alone": "L̄ + c·‖∇L̄‖²",
    },
    "adam": {"modified": "the corrected flow", "unmodified": "the plain one"},
}
"""The display names of the gradient flows that are compared with the mean trajectory of an optimiser."""
SPEEDUPS = {
    "epoch": "Epoch time",
    "epochs": "Epochs to target",
    "start": "Time to target",
    "nostart": "Time to target without start-up",
}
PARTS = "m, the number of parts"
METRICS = {"f1": "F1", "macro_f1": "macro-F1", "roc_auc": "ROC-AUC", "r2": "R²", "mae": "MAE", "rmse": "RMSE"}
"""The display names of metrics for which replacing ``_`` by a space is not enough."""

_NAMES = {**MODELS, **OPTIMIZERS, **REGIMES, **METHODS}
_COLORED = ("rns", "full", "neighbor", "cluster", "saint", "ladies", "rns-labels", "rns-mean-field")
_COLORS = {name: hue for hue, name in enumerate(_COLORED)}
PALETTE = 10
"""The number of colours in the palette of the report."""


def title(name: str) -> str:
    """The display name of a method, model, optimiser or regime. Any other name is returned unchanged.

    >>> title("saint"), title("mine")
    ('GraphSAINT', 'mine')
    """
    return _NAMES.get(name, name)


def hues(names: Sequence[str]) -> list[int]:
    """Choose a colour for each name: methods have fixed colours, and other names get the first free colour.

    >>> hues(["full", "mine", "rns"])
    [1, 2, 0]
    """
    own = [_COLORS.get(name) for name in names]
    others = iter(([hue for hue in range(PALETTE) if hue not in own] or list(range(PALETTE))) * len(names))
    return [next(others) if hue is None else hue for hue in own]


def words(value: Any) -> str:
    """Format the value of a setting as text.

    >>> words((4, 2)), words(True), words(None), words(0.001)
    ('4, 2', 'yes', 'none', '0.001')
    """
    if isinstance(value, list | tuple):
        return ", ".join(map(words, value)) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def number(value: float, sign: str = "") -> str:
    """Format a number with four significant digits; all digits of its integer part are kept. Very large and very small
    numbers are written with an exponent.

    >>> number(12.3456), number(20312.4), number(0.5, "+"), number(1e-9), number(1e15)
    ('12.35', '20,312', '+0.5', '1e-09', '1e+15')
    """
    return f"{value:{sign},.0f}" if 1e4 <= abs(value) < 1e12 else f"{value:{sign}.4g}"


def shown(value: float | None, form: str) -> str:
    """Format a number with ``form``. A missing number or NaN becomes a dash.

    >>> shown(0.25, "{:.0%}"), shown(None, "{:.0%}"), shown(float("nan"), "{:.2f}")
    ('25%', '–', '–')
    """
    return "–" if value is None or value != value else form.format(value)


def spaced(name: str) -> str:
    """The display name of a metric, such as ``average precision`` for ``average_precision`` and ``ROC-AUC`` for
    ``roc_auc``.
    """
    return METRICS.get(name) or name.replace("_", " ")
