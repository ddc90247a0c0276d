"""``Settings``: how to train. Every default stands here, and nowhere else."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from numbers import Integral, Real
from operator import index
from types import UnionType
from typing import Annotated, Any, Literal, TypedDict, Union, get_args, get_origin, get_type_hints

from handful.errors import HandfulError, unknown

OptimizerName = Literal["adam", "adamw", "sgd", "sgdm"]
SchedulerName = Literal["constant", "cosine", "linear"]
ClassWeightName = Literal["none", "balanced"]
Update = Literal["step", "epoch"]
Precision = Literal["fp32", "bf16"]
Evaluation = Literal["exact", "sampled"]
Decayed = Literal["all", "weights"]
FirstHop = Literal["sampled", "exact", "auto"]
Threshold = Literal["half", "f1"]
GraphOn = Literal["auto", "device", "host"]
"""Where the graph is while a model trains. It changes no result, so it is no setting; see ``handful.fit``."""


@dataclass(frozen=True)
class Range:
    """The numbers that an option takes: from ``low`` to ``high``, with both ends unless they are ``open``."""

    low: float
    high: float = math.inf
    open_low: bool = False
    open_high: bool = False

    def __contains__(self, value: float) -> bool:
        above = value > self.low if self.open_low else value >= self.low
        return above and (value < self.high if self.open_high else value <= self.high)

    def __str__(self) -> str:
        """
        >>> print(Range(1), Range(0, open_low=True), Range(0, 1, open_high=True), sep="; ")
        be at least 1; be above 0; lie in [0, 1)
        """
        if self.high == math.inf:
            return f"be {'above' if self.open_low else 'at least'} {self.low}"
        return f"lie in {'(' if self.open_low else '['}{self.low}, {self.high:,}{')' if self.open_high else ']'}"


Count = Annotated[int, Range(1)]
Positive = Annotated[float, Range(0, open_low=True)]
NotNegative = Annotated[float, Range(0)]
Share = Annotated[float, Range(0, 1)]
Rate = Annotated[float, Range(0, 1, open_high=True)]
_WANTED = {str: "a name", bool: "true or false", int: "a whole number", float: "a finite number"}


def check_value(name: str, value: Any, hint: Any) -> Any:
    """``value`` in the plain type of its option, or the error that says what the option takes.

    Args:
        name: of the option, for the message.
        value: what was given.
        hint: ``bool``, ``int``, ``float``, ``str``, ``tuple[int, ...]`` or a ``Literal`` of names; with a ``Range``
            where it is ``Annotated``; or any of these ``| None``.

    >>> check_value("lr", 1, float), check_value("patience", None, Count | None)
    (1.0, None)
    >>> check_value("fanout", "15,10", tuple[int, ...])
    (15, 10)
    >>> check_value("dropout", 1.5, Rate)
    Traceback (most recent call last):
        ...
    handful.errors.HandfulError: dropout must lie in [0, 1), got 1.5
    """
    if get_origin(hint) in (Union, UnionType):
        if value is None:
            return None
        hint = get_args(hint)[0]
    if get_origin(hint) is Annotated:
        base, limits = get_args(hint)
        number = check_value(name, value, base)
        if number not in limits:
            raise HandfulError(f"{name} must {limits}, got {number}")
        return number
    if get_origin(hint) is Literal:
        choices = get_args(hint)
        if value not in choices:
            raise HandfulError(f"{name} must be {', '.join(choices[:-1])} or {choices[-1]}, got '{str(value)[:60]}'")
        return value
    if get_origin(hint) is tuple:
        return _whole_numbers(name, value)
    number = isinstance(value, Real) and not isinstance(value, bool)
    if hint is bool and isinstance(value, bool):
        return value
    if hint is str and isinstance(value, str | Integral) and not isinstance(value, bool) and value != "":
        return str(value)
    if hint is int and number and isinstance(value, Integral) and -(2**63) <= int(value) < 2**63:
        return int(value)
    with suppress(OverflowError):  # an integer beyond all floats
        if hint is float and number and math.isfinite(value):
            return float(value)
    raise HandfulError(f"{name} must be {_WANTED[hint]}, got {value!r:.60}")


def _whole_numbers(name: str, value: Any) -> tuple[int, ...]:
    """One whole number, or several in whatever sequence or text with commas they come, as a tuple."""
    with suppress(TypeError, ValueError):
        given = [int(one) for one in value.split(",")] if isinstance(value, str) else value
        numbers = tuple(index(one) for one in (given if isinstance(given, Iterable) else (given,)))
        if numbers and all(abs(number) < 2**31 for number in numbers):
            return numbers
    raise HandfulError(f"{name} must be whole numbers, one for each hop, got {value!r:.60}")


def check_fields(record: Any) -> None:
    """Give the fields of a frozen dataclass the plain types that they declare, or refuse them."""
    hints = get_type_hints(type(record), include_extras=True)
    for one in fields(record):
        object.__setattr__(record, one.name, check_value(one.name, getattr(record, one.name), hints[one.name]))


@dataclass(frozen=True)
class Settings:
    """How to train.

    Args:
        epochs: how many passes over the sampler's batches.
        lr: the learning rate.
        weight_decay: that of the optimiser.
        decayed: what decays: ``all`` parameters, or ``weights`` without biases and norms (all that is a vector).
        optimizer: ``adam``, ``adamw``, ``sgd``, or ``sgdm`` for SGD with heavy-ball momentum.
        momentum: of ``sgdm`` alone.
        scheduler: how the learning rate changes from epoch to epoch: ``constant``, or down to 0 by ``cosine`` or
            ``linear``.
        clip: the largest norm of a step's gradient; larger ones are scaled down to it. ``None`` for no limit.
        class_weight: ``balanced`` weighs the loss of a node by n / (classes · n_c), where n_c of the n training nodes
            have its class, as scikit-learn does; ``none`` weighs all alike.
        task: ``classification``, ``regression`` or ``multilabel``; ``None`` for what the graph says.
        metric: what epochs are chosen by and what is reported, of those that fit the labels: ``accuracy``,
            ``balanced_accuracy``, ``f1``, ``macro_f1``, ``average_precision``, ``roc_auc``, ``r2``, ``mae``, ``rmse``;
            ``None`` for that of the graph.
        positive: of two classes the one that precision, recall, F1, ROC-AUC and average precision are of, by name or
            number; ``None`` for that of the graph, which is the rarer one unless it says otherwise.
        threshold: from which probability on a node is taken for the positive class: ``half``, or ``f1`` for that with
            the best F1 on the validation nodes.
        update: ``step``, one optimiser step per batch; or ``epoch``, one step per epoch on the mean of the batches'
            losses (the paper's "RNS (no batch)").
        parts_per_step: k, how many consecutive batches a step takes: it goes along the mean of their gradients.
            Batches that make no step (see ``skipped`` of a ``Run``) keep their place among the k and count for nothing;
            an epoch's last step may have fewer. Ranks share the batches of a step, and their number changes nothing.
        precision: ``fp32``, or ``bf16`` for autocast with master weights in float32.
        evaluate_every: epochs between evaluations; the last epoch is always evaluated.
        evaluation: ``exact``, on the full graph; or ``sampled``, by neighbourhoods drawn around the nodes to judge.
        evaluation_fanout: how many edges of a node ``sampled`` evaluation keeps, from the judged nodes outwards, -1 for
            all; ``None`` for the fanout of the sampler ``neighbor``, the run's own or its default.
        patience: stop after this many evaluations without a better validation metric; ``None`` for never.
        first_hop: what the first layer aggregates: the ``sampled`` neighbours of a batch; or ``exact``, all neighbours
            in the full graph, by features that are aggregated once before training. For GraphSAGE and GCN; ``auto`` is
            ``exact`` where model, sampler and memory allow it.
        mean_field: the weight λ of a mean-field neighbour in rows that lack neighbours in their part; 0 for none. It
            needs ``first_hop``. See ``handful.mean_field``.
        trim: compute only the nodes that a batch's loss can see, where that changes nothing else (no BatchNorm).
        checkpoint_activations: keep only what enters a layer, and run the layer again in the backward pass: less
            memory, the same result.
        checkpoint_seconds: the least time between two checkpoints.

    >>> Settings(epochs=3).lr
    0.001
    """

    epochs: Count = 100
    lr: Positive = 1e-3
    weight_decay: NotNegative = 0.0
    decayed: Decayed = "all"
    optimizer: OptimizerName = "adam"
    momentum: Rate = 0.9
    scheduler: SchedulerName = "constant"
    clip: Positive | None = None
    class_weight: ClassWeightName = "none"
    task: str | None = None
    metric: str | None = None
    positive: str | None = None
    threshold: Threshold = "half"
    update: Update = "step"
    parts_per_step: Count = 1
    precision: Precision = "fp32"
    evaluate_every: Count = 1
    evaluation: Evaluation = "exact"
    evaluation_fanout: tuple[int, ...] | None = None
    patience: Count | None = None
    first_hop: FirstHop = "sampled"
    mean_field: NotNegative = 0.0
    trim: bool = True
    checkpoint_activations: bool = False
    checkpoint_seconds: NotNegative = 10.0

    def __post_init__(self) -> None:
        check_fields(self)
        if self.metric is not None:  # ROC-AUC, macro-F1 and R² as people write them
            plain = self.metric.lower().replace("-", "_").replace(" ", "_").replace("²", "2")
            object.__setattr__(self, "metric", plain)
        fanout = self.evaluation_fanout
        if fanout is not None and any(count < 1 and count != -1 for count in fanout):
            raise HandfulError(f"evaluation_fanout takes numbers from 1, or -1 for all edges, got {fanout}")
        if self.update == "epoch" and self.parts_per_step > 1:
            raise HandfulError("update 'epoch' takes all parts in one step: leave parts_per_step out")

    @property
    def step_length(self) -> float:
        """How many batches a step takes; infinite where it takes all of an epoch.

        >>> Settings(parts_per_step=4).step_length, Settings(update="epoch").step_length
        (4, inf)
        """
        return math.inf if self.update == "epoch" else self.parts_per_step


class PlainFields(TypedDict, total=False):
    """The fields of ``Settings`` by name, but for those that ``fit`` also takes as objects of the user's own."""

    epochs: Count
    lr: Positive
    weight_decay: NotNegative
    decayed: Decayed
    momentum: Rate
    clip: Positive | None
    task: str | None
    positive: str | None
    threshold: Threshold
    update: Update
    parts_per_step: Count
    precision: Precision
    evaluate_every: Count
    evaluation: Evaluation
    evaluation_fanout: tuple[int, ...] | None
    patience: Count | None
    first_hop: FirstHop
    mean_field: NotNegative
    trim: bool
    checkpoint_activations: bool
    checkpoint_seconds: NotNegative


class SettingsFields(PlainFields, total=False):
    """The fields of ``Settings`` by name; a test holds the two together."""

    optimizer: OptimizerName
    scheduler: SchedulerName
    class_weight: ClassWeightName
    metric: str | None


QUICK: dict[str, Any] = {"hidden": 128, "layers": 3, "epochs": 60, "lr": 0.01}
"""What `handful train`, `plan`, `compare` and `parts` train with by default: enough epochs at this learning rate for
samplers and m to show what they are worth, in minutes."""
RECOMMENDED: dict[str, Any] = {"first_hop": "auto", "mean_field": 1.0}
"""What `handful train` sets for RNS, where neither a sampler nor these are named: the best at equal seconds
(docs/survey.md). ``Settings`` themselves are those of the paper."""
SETTING_NAMES = tuple(f.name for f in fields(Settings))


def vary_settings(settings: Settings, changes: Mapping[str, Any]) -> Settings:
    """``settings`` with some fields exchanged; a name that is none of them is answered with the nearest that are.

    >>> vary_settings(Settings(), {"epochs": 3}).epochs
    3
    """
    for name in changes:
        if name not in SETTING_NAMES:
            raise HandfulError(unknown("setting", name, SETTING_NAMES))
    return replace(settings, **changes)
