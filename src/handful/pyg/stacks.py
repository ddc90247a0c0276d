"""``accelerate``: convert a stack of PyG's convolutions to an equivalent stack of handful's layers, with the same
weights.
"""

from __future__ import annotations

import copy
import re
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch_geometric.nn import BatchNorm, GATConv, GCNConv, LayerNorm, Linear, SAGEConv

from handful.adjacency import Adjacency
from handful.errors import HandfulError, explaining
from handful.nn import GAT, GCN, SAGE
from handful.nn.backbone import Backbone, Norm
from handful.nn.network import Chunks

BACKBONES: dict[type, type[Backbone]] = {SAGEConv: SAGE, GCNConv: GCN, GATConv: GAT}
OPTIONS: dict[type, dict[str, Any]] = {
    SAGEConv: {"aggr": "mean", "normalize": False, "project": False},
    GCNConv: {"aggr": "add", "improved": False, "add_self_loops": True, "normalize": True},
    GATConv: {"add_self_loops": True, "negative_slope": 0.2, "dropout": 0.0, "edge_dim": None, "residual": False},
}
"""The options that a PyG convolution must have to be equivalent to a layer of handful."""
WEIGHTS = {
    SAGEConv: {"neighbor.weight": "lin_l.weight", "neighbor.bias": "lin_l.bias", "own.weight": "lin_r.weight"},
    GCNConv: {"linear.weight": "lin.weight", "linear.bias": "bias"},
    GATConv: {"linear.weight": "lin.weight", "source": "att_src", "target": "att_dst", "bias": "bias"},
}
"""The parameters of each convolution: a map from their names in handful to their names in PyG."""
KINDS: dict[type, str] = {nn.ReLU: "r", nn.Linear: "l", Linear: "l", nn.Identity: "", **dict.fromkeys(BACKBONES, "c")}
KINDS |= dict.fromkeys((BatchNorm, LayerNorm, nn.BatchNorm1d, nn.LayerNorm), "n")
"""The letter that stands for each type of module in ``STACK``; the empty string for ``nn.Identity``."""
STACK = re.compile("d?(ld?)?(cn?rd?)*(c|cn?rd?l)")
"""The sequences of steps that a backbone can represent, as a regular expression. Letters are the initials of dropout,
Linear, convolution, norm and ReLU.
"""


Step = tuple[str, Any]
"""One step of a forward pass: its letter in ``STACK``, and its module or, for dropout, its rate."""


def accelerate(model: nn.Module) -> Backbone:
    """Convert ``model`` to a model of handful with the same weights. The outputs are equal up to rounding.

    The function accepts PyG's models ``GCN``, ``GraphSAGE`` and ``GAT``, and every module whose ``forward(x,
    edge_index)`` is a plain stack of their convolutions: [dropout →] [Linear → dropout →] convolution → norm → ReLU →
    dropout → … → convolution [→ norm → ReLU → dropout → Linear]. Parameters that the module does not have
    (``bias=False``, ``root_weight=False``) become zeros that are not trained. If the graph has edge weights, ``SAGE``
    computes a weighted mean.

    Raises:
        HandfulError: the module is not such a stack, or has an option that handful's layers do not support.

    >>> from torch_geometric.nn import GraphSAGE
    >>> ours = accelerate(GraphSAGE(8, 16, num_layers=3, out_channels=4, dropout=0.5, norm="batch_norm"))
    >>> type(ours).__name__, ours.depth, ours.options["norm"]
    ('SAGE', 3, 'bn')
    """
    with explaining(f"{type(model).__name__} cannot be accelerated: {{}}", HandfulError):
        return _converted(copy.deepcopy(model)).train(model.training)


def _converted(model: nn.Module) -> Backbone:
    steps = _steps(model)
    letters = "".join(kind for kind, _ in steps)
    if not STACK.fullmatch(letters):
        names = {"d": "dropout", "l": "Linear", "c": "convolution", "n": "norm", "r": "ReLU"}
        raise HandfulError(f"{' → '.join(names[letter] for letter in letters) or 'nothing'} is no stack of handful's")
    starts = [i for i, letter in enumerate(letters) if letter == "c"]
    layers = [dict(steps[lo:hi]) for lo, hi in zip(starts, [*starts[1:], None], strict=True)]
    drops = letters.startswith("d")
    before, hidden, last = dict(steps[drops : starts[0]]), [layer for layer in layers if "r" in layer], layers[-1]
    kinds = {type(layer["c"]) for layer in layers}
    norms = {_norm(layer.get("n")) for layer in hidden}
    rates = {part.get("d", 0.0) for part in [*hidden, before] if part}
    heads = {layer["c"].heads for layer in layers if isinstance(layer["c"], GATConv)}
    if any(len(different) > 1 for different in (kinds, norms, rates, heads)):
        raise HandfulError("its layers differ in their convolution, norm, dropout or number of heads")
    for layer in layers:
        _check(layer["c"], final=layer is last and "l" not in last)
    first, out = before.get("l", layers[0]["c"]), last.get("l", last["c"])
    ours = BACKBONES[kinds.pop()](
        _widths(first)[0],
        _widths(out)[1],
        hidden=_widths(first)[1],
        layers=len(layers),
        dropout=max(rates, default=0.0),
        norm=norms.pop() if norms else "none",
        residual=False,
        input_projection="l" in before,
        output_projection="l" in last,
        input_dropout=steps[0][1] if drops else 0.0,
        **({"heads": heads.pop()} if heads else {}),
    )
    weight = next(model.parameters())
    _copy(ours.to(weight.device, weight.dtype), before, layers)
    _compare(model, ours)
    return ours


def _steps(model: nn.Module) -> list[Step]:
    """The steps that ``model`` applies to its features, in order. Identity modules are left out."""
    whole = _Whole(model).train()
    try:
        x, edge_index, *nodes = _Tracer().trace(whole).nodes
    except Exception as error:  # a forward may raise any error if its arguments are not tensors
        raise HandfulError(f"its forward cannot be traced ({str(error).split('. ')[0]})") from None
    out, steps = x, []
    for node in nodes:
        step = ("", None) if node.op == "output" else _step(whole, node)
        if not node.args or node.args[0] is not out:
            raise HandfulError(f"its step {node.name} does not take the output of the step before it")
        others = [value for value in (*node.args[1:], *node.kwargs.values()) if isinstance(value, fx.Node)]
        if others != [edge_index] * (step[0] == "c"):
            raise HandfulError(f"its step {node.name} takes more than features and edge_index")
        out = node
        steps += [step] if step[0] else []
    return steps


class _Whole(nn.Module):
    """A wrapper that calls ``model.forward``. Tracing needs this wrapper, since PyG's ``Sequential`` defines
    ``forward`` on the instance.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor, edge_index: Tensor) -> Any:
        return self.model.forward(x, edge_index)


class _Tracer(fx.Tracer):
    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return not isinstance(m, nn.Sequential)


def _step(model: nn.Module, node: fx.Node) -> Step:
    if node.op == "call_module":
        module = model.get_submodule(str(node.target))
        name = type(module).__name__
        if isinstance(module, nn.Dropout):
            return "d", module.p
        if type(module) in KINDS:
            return KINDS[type(module)], module
    else:
        name = getattr(node.target, "__name__", str(node.target))
        if name in ("relu", "relu_"):
            return "r", None
        if name == "dropout":
            rate, training = (node.kwargs.get(key, 0.5) for key in ("p", "training"))
            return "d", rate if training else 0.0
    raise HandfulError(f"handful's layers have no {name}")


def _check(conv: Any, final: bool) -> None:
    """Raise an error if handful has no layer that is equivalent to the convolution."""
    options = OPTIONS[type(conv)]
    if isinstance(conv, GATConv) and conv.heads > 1:
        options = {**options, "concat": not final}
    for name, value in options.items():
        if (given := getattr(conv, name)) != value:
            raise HandfulError(f"its {type(conv).__name__} has {name}={given}, and handful's has {name}={value}")


def _norm(norm: nn.Module | None) -> Norm:
    """handful's name for a PyG norm."""
    if isinstance(norm, LayerNorm) and norm.mode != "node":
        raise HandfulError(f"its LayerNorm has mode={norm.mode!r}, and handful's has mode='node'")
    torch_norm = getattr(norm, "module", norm)
    if isinstance(torch_norm, nn.BatchNorm1d) and not (torch_norm.track_running_stats and torch_norm.momentum):
        raise HandfulError("its BatchNorm keeps no moving average of its statistics")
    if norm is not None and getattr(torch_norm, "weight", None) is None:
        raise HandfulError(f"its {type(norm).__name__} has affine=False, and handful's has weights")
    return "none" if norm is None else "bn" if isinstance(torch_norm, nn.BatchNorm1d) else "ln"


def _weights(module: Any) -> dict[str, Tensor | None]:
    """The parameters of a convolution or a Linear, by their names in handful; ``None`` for a missing parameter."""
    names = WEIGHTS.get(type(module), {"weight": "weight", "bias": "bias"})
    known = dict(module.named_parameters(remove_duplicate=False))
    return {ours: known.get(theirs) for ours, theirs in names.items()}


def _widths(module: Any) -> tuple[int, int]:
    """The number of inputs and the number of outputs."""
    weight = next(iter(_weights(module).values()))
    if weight is None or isinstance(weight, nn.parameter.UninitializedParameter):
        raise HandfulError("its weights have no shape yet: call it once first")
    return weight.shape[1], weight.shape[0] if getattr(module, "concat", True) else module.out_channels


def _copy(ours: Backbone, before: dict[str, Any], layers: list[dict[str, Any]]) -> None:
    """Copy the weights of PyG's convolutions, Linears and norms to ``ours``."""
    pairs: list[tuple[Any, Any]] = [*zip(ours.convs, (layer["c"] for layer in layers), strict=True)]
    pairs += [(ours.input_projection, before["l"])] if "l" in before else []
    pairs += [(ours.output_projection, layers[-1]["l"])] if "l" in layers[-1] else []
    for mine, module in pairs:
        for name, value in _weights(module).items():
            parameter = mine.get_parameter(name)
            if value is None:
                nn.init.zeros_(parameter.requires_grad_(False))
            elif value.numel() != parameter.numel():
                raise HandfulError("its hidden layers differ in their width")
            else:
                parameter.data.copy_(value.detach().view_as(parameter))
    for act, layer in zip(ours.acts, layers, strict=False):
        norm: Any = act.norm
        if norm is not None:
            theirs = getattr(layer["n"], "module", layer["n"])
            norm.load_state_dict(theirs.state_dict())
            norm.eps, norm.momentum = theirs.eps, getattr(theirs, "momentum", None)


def _compare(model: nn.Module, ours: Backbone) -> None:
    """Raise an error if the outputs of the two models differ on a small graph."""
    weight = next(ours.parameters())
    indptr, indices = torch.tensor([0, 2, 3, 5]), torch.tensor([1, 2, 0, 0, 1])
    edges = Adjacency(indptr, indices, 3).to(weight.device)
    x = torch.linspace(-1, 1, 3 * ours.in_features, device=weight.device, dtype=weight.dtype).view(3, -1)
    with torch.no_grad():
        theirs, same = model.eval()(x, edges.edge_index), ours.eval().infer(x, edges, Chunks(3))
    if theirs.shape != same.shape or not torch.allclose(theirs, same, rtol=1e-3, atol=1e-3):
        raise HandfulError("handful's layers give other outputs")
