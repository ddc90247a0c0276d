"""``Settings``: how to train. ``TableOptions``: how tables become a graph. The defaults of both are in this module."""

from __future__ import annotations

import codecs
import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from numbers import Integral, Real
from operator import index
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from handful.errors import DatasetError, HandfulError, explaining, require_name

OptimizerName = Literal["adam", "adamw", "sgd", "sgdm"]
SchedulerName = Literal["constant", "cosine", "linear"]
ClassWeightName = Literal["none", "balanced"]
Update = Literal["step", "epoch"]
Precision = Literal["fp32", "bf16"]
MOST_HASHED = 4096
"""The maximum number of features of a hashed column."""
Task = Literal["classification", "regression", "multilabel"]
Repeated = Literal["sum", "mean", "first", "count"]
Unknown = Literal["error", "skip", "add"]
GraphOn = Literal["auto", "device", "host"]
"""Where the graph is kept during training. This does not change the result, so it is not a setting; see
``handful.fit``.
"""


@dataclass(frozen=True)
class Range:
    """The range of an option, from ``low`` to ``high``. A bound belongs to the range unless ``open_low`` or
    ``open_high`` excludes it.
    """

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
    """Convert ``value`` to the type of its option, or raise an error that lists the values that the option accepts.

    Args:
        name: the name of the option, for the message.
        value: the value to check.
        hint: ``bool``, ``int``, ``float``, ``str``, ``tuple[int, ...]``, ``tuple[str, ...]`` or a ``Literal`` of names;
            an ``Annotated`` type also has a ``Range``; any type may be ``| None``.

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
        return _names(name, value) if str in get_args(hint) else _whole_numbers(name, value)
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
    """Convert one number, a sequence of numbers, or a text with commas to a tuple of whole numbers."""
    with suppress(TypeError, ValueError):
        given = [int(one) for one in value.split(",")] if isinstance(value, str) else value
        numbers = tuple(index(one) for one in (given if isinstance(given, Iterable) else (given,)))
        if numbers and all(abs(number) < 2**31 for number in numbers):
            return numbers
    raise HandfulError(f"{name} must be whole numbers, one for each hop, got {value!r:.60}")


def _names(name: str, value: Any) -> tuple[str, ...]:
    """Convert one text or a sequence of texts to a tuple of texts."""
    names = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, Iterable) else (value,)
    if not all(isinstance(one, str) for one in names):
        raise HandfulError(f"{name} must be texts, got {value!r:.60}")
    return names


def check_fields(record: Any) -> None:
    """Convert the fields of a frozen dataclass to their declared types, or raise an error."""
    hints = get_type_hints(type(record), include_extras=True)
    for one in fields(record):
        object.__setattr__(record, one.name, check_value(one.name, getattr(record, one.name), hints[one.name]))


@dataclass(frozen=True)
class Settings:
    """How to train.

    Args:
        epochs: number of epochs; each is a pass over the batches of the sampler.
        lr: learning rate, such as 0.01.
        weight_decay: weight decay of the optimiser, such as 1e-4.
        decayed: which parameters decay: `all`, or `weights` (all except biases and the parameters of norms, which are
            vectors).
        optimizer: optimiser: `adam`, `adamw`, `sgd`, or `sgdm` (SGD with heavy-ball momentum).
        momentum: momentum of `sgdm`.
        scheduler: schedule of the learning rate over epochs: `constant`; `cosine` or `linear` decay to 0.
        clip: maximum norm of the gradient of a step, such as 1.0; ``None`` for no limit.
        class_weight: weights of the classes in the loss; `none`: all classes have the same weight; `balanced`: a class
            with n_c of the n training nodes has the weight n / (classes · n_c), as in scikit-learn.
        task: task: `classification`, `regression` or `multilabel`; ``None`` for the task of the graph.
        metric: the metric by which the best epoch is chosen: `accuracy`, `balanced_accuracy`, `f1`, `macro_f1`,
            `average_precision`, `roc_auc`, `r2`, `mae` or `rmse`; ``None`` for the metric of the graph.
        positive: for two classes, the name or index of the positive class; ``None`` for the positive class of the
            graph, which is the rarer class by default.
        threshold: the decision threshold of the positive class; `half`: 0.5; `f1`: the threshold with the best F1 on
            the validation nodes.
        update: when the optimiser makes a step; `step`: after each batch; `epoch`: once per epoch, on the mean of the
            batches' losses (the paper's "RNS (no batch)").
        parts_per_step: k, the number of consecutive batches whose mean gradient makes one step. A skipped batch (see
            ``skipped`` in ``Run``) counts as one of the k batches, but has no gradient. The last step of an epoch may
            have fewer batches. Ranks share the batches of a step, and the number of ranks does not change the result.
        precision: floating-point precision: `fp32`, or `bf16` (autocast with master weights in float32).
        evaluate_every: number of epochs from one evaluation to the next; the last epoch is always evaluated.
        evaluation: how to evaluate: on the full graph (`exact`), or on sampled neighbourhoods of the evaluated nodes
            (`sampled`).
        evaluation_fanout: the fanout of `sampled` evaluation, such as `15,10`; -1 takes all edges. If ``None``, the
            fanout is that of the run's sampler if this sampler is ``neighbor``, and otherwise the default of
            ``neighbor``.
        patience: stop after this many evaluations, such as 20, without a better validation metric; ``None`` for never.
        first_hop: which neighbours the first layer aggregates; `sampled`: those in the batch; `exact`: all, once before
            training. Only GraphSAGE and GCN support ``exact``. ``auto`` means ``exact`` if
            ``mean_field`` is 0, and ``sampled`` otherwise. If the model, the sampler or the available memory does not
            allow this choice, ``auto`` falls back to ``sampled`` and sets ``mean_field`` to 0.
        mean_field: the weight λ, such as 3, of the mean-field neighbour, which replaces the neighbours outside the
            part; 0 for none. Only GraphSAGE and GCN support it. See ``handful.mean_field``.
        label_features: use the training labels of neighbours as features: `yes`, `no`, or `auto` if possible. A
            training step uses only the labels of neighbours outside its batch. Label features require a classification
            task and a sampler of induced subgraphs, such as ``rns``. See ``handful.training.label_features``.
        trim: compute only the receptive field of the batch's seed nodes. If the model has BatchNorm, only the last
            layer is trimmed. If the run also has an exact first hop or mean-field neighbours, all layers of a part are
            trimmed.
        checkpoint_activations: keep only the inputs of layers, and recompute other activations in the backward pass;
            this saves memory and gives the same result.
        checkpoint_seconds: minimum time between two checkpoints, in seconds.

    >>> Settings(epochs=3).lr
    0.001
    """

    epochs: Count = 100
    lr: Positive = 1e-3
    weight_decay: NotNegative = 0.0
    decayed: Literal["all", "weights"] = "all"
    optimizer: OptimizerName = "adam"
    momentum: Rate = 0.9
    scheduler: SchedulerName = "constant"
    clip: Positive | None = None
    class_weight: ClassWeightName = "none"
    task: str | None = None
    metric: str | None = None
    positive: str | None = None
    threshold: Literal["half", "f1"] = "half"
    update: Update = "step"
    parts_per_step: Count = 1
    precision: Precision = "fp32"
    evaluate_every: Count = 1
    evaluation: Literal["exact", "sampled"] = "exact"
    evaluation_fanout: tuple[int, ...] | None = None
    patience: Count | None = None
    first_hop: Literal["sampled", "exact", "auto"] = "sampled"
    mean_field: NotNegative = 0.0
    label_features: Literal["no", "yes", "auto"] = "no"
    trim: bool = True
    checkpoint_activations: bool = False
    checkpoint_seconds: NotNegative = 10.0

    def __post_init__(self) -> None:
        if isinstance(self.label_features, bool):  # in Python, and in older records
            object.__setattr__(self, "label_features", "yes" if self.label_features else "no")
        check_fields(self)
        if self.metric is not None:  # other spellings, such as ROC-AUC, macro-F1 and R²
            plain = self.metric.lower().replace("-", "_").replace(" ", "_").replace("²", "2")
            object.__setattr__(self, "metric", plain)
        fanout = self.evaluation_fanout or ()
        if any(count < 1 and count != -1 for count in fanout):
            raise HandfulError(f"evaluation_fanout takes numbers from 1, or -1 for all edges, got {fanout}")
        if self.update == "epoch" and self.parts_per_step > 1:
            raise HandfulError("update 'epoch' uses all parts in one step: leave parts_per_step out")

    @property
    def step_length(self) -> float:
        """The number of batches per optimiser step; infinite if there is one step per epoch.

        >>> Settings(parts_per_step=4).step_length, Settings(update="epoch").step_length
        (4, inf)
        """
        return math.inf if self.update == "epoch" else self.parts_per_step


QUICK: dict[str, Any] = {"hidden": 128, "layers": 3, "epochs": 60, "lr": 0.01}
"""The defaults of `handful train`, `plan`, `compare` and `parts`. These defaults are enough to compare samplers and
values of m, and training takes only minutes.
"""
RECOMMENDED: dict[str, Any] = {"first_hop": "auto", "mean_field": 3.0, "label_features": "auto"}
"""The values of these settings in `handful train` and `parts`, if the user sets neither a sampler nor a first hop nor a
mean field. At equal training time, these values are the best (docs/survey.md). The defaults of ``Settings`` are those
of the paper.
"""
ENOUGH: dict[str, Any] = {"patience": 8, "seeds": (42, 123, 456)}
"""The default ``patience`` and seeds of `handful train`; training on a graph of about 20,000 nodes takes a minute or
two.
"""
SETTING_NAMES = tuple(f.name for f in fields(Settings))


def vary_settings(settings: Settings, changes: Mapping[str, Any]) -> Settings:
    """``settings`` with some fields replaced. An unknown name raises an error that suggests similar names.

    >>> vary_settings(Settings(), {"epochs": 3}).epochs
    3
    """
    for name in changes:
        require_name("setting", name, SETTING_NAMES)
    return replace(settings, **changes)


@dataclass(frozen=True)
class TableOptions:
    """The roles of the columns of tables, and the encoding of their values.

    Args:
        source: the column of the edge list with the sources; by default a column with a common name, such as `source`.
        target: the column of the edge list with the targets; by default a column with a common name, such as `target`.
        weight: the column of edge weights; by default a column with a common name, such as `weight`.
        edge_columns: columns of the edge list that become node features: each node gets the mean of the column over its
            edges.
        edge_time: the column of the edge list with times, if the split is `time:COLUMN`; edges from the first time of
            validation on are left out.
        id: the column of node ids; by default a column with a common name, such as `id`.
        label: the column of labels, or several columns for a multi-label task; by default a column with a common name,
            such as `label`.
        split_column: the column with the values `train`, `val` and `test`; by default `split`.
        features: the columns that are features; by default all columns without another role. The columns in
            ``categorical``, ``hashed`` and ``numbers`` are also features.
        categorical: columns of numbers that stand for categories; they are one-hot encoded, like text.
        hashed: columns of text or lists that are encoded by hashing their words, with tf-idf weights; `COLUMN=512`
            gives 512 features, `COLUMN` gives 64. In Python, this can also be a dictionary of columns and widths.
        numbers: columns of whole numbers that are features even if all values are distinct, as they are in a column of
            identifiers.
        ignore: columns to leave out.
        keep: columns that are not features but are copied to predictions and lists of mistakes, such as names.
        task: task: `classification`, `regression` (a numeric label) or `multilabel` (columns of 0 and 1).
        impute: what to do with missing numbers; `median`: replace them by the median of the column; `error`: stop with
            an error.
        scale: how to scale numbers: `standard` (mean 0, standard deviation 1), `quantile` (normal scores) or `none`.
        unknown: what to do with edges to ids that have no row in the node table; `error`: stop with an error; `skip`:
            leave out the edge; `add`: add a node with missing values.
        repeated: how to merge repeated edges: the new weight is the `sum`, `mean` or `first` of their weights, or their
            `count`. By default, weights are summed, and repeated edges without weights are kept.
        undirected: add the reverse of every edge.
        decimal: the decimal separator in CSV files: `.` or `,`.
        encoding: the encoding of CSV files, such as `latin-1`.
        dates: the order of day, month and year in dates that are text: `dmy`, `mdy` or `ymd`; `auto` detects the order.
        strict: if true, raise an error if the columns of a later table differ from those in training; if false, only
            print a note.
    """

    source: str | None = None
    target: str | None = None
    weight: str | None = None
    edge_columns: tuple[str, ...] = ()
    edge_time: str | None = None
    id: str | None = None
    label: tuple[str, ...] | None = None
    split_column: str | None = None
    features: tuple[str, ...] | None = None
    categorical: tuple[str, ...] = ()
    hashed: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    task: Task = "classification"
    impute: Literal["median", "error"] = "median"
    scale: Literal["standard", "quantile", "none"] = "standard"
    unknown: Unknown = "error"
    repeated: Repeated | None = None
    undirected: bool = False
    decimal: Literal[".", ","] = "."
    encoding: str = "utf-8"
    dates: Literal["auto", "dmy", "mdy", "ymd"] = "auto"
    strict: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.hashed, Mapping):
            object.__setattr__(self, "hashed", tuple(f"{name}={width}" for name, width in self.hashed.items()))
        check_fields(self)
        if wide := [name for name, width in self.widths.items() if not 1 <= width <= MOST_HASHED]:
            raise DatasetError(f"hashed: '{wide[0]}' must have a width from 1 to {MOST_HASHED}")
        wanted = f"encoding '{self.encoding}' is unknown: give one such as latin-1 or cp1252"
        with explaining(wanted, LookupError, kind=DatasetError):
            codecs.lookup(self.encoding)

    @property
    def widths(self) -> dict[str, int]:
        """The hashed columns, and the number of features of each.

        >>> TableOptions(hashed=("note", "tags=512")).widths
        {'note': 64, 'tags': 512}
        """
        result = {}
        for name in self.hashed:
            column, _, width = name.rpartition("=")
            sized = bool(column) and width.isdigit()
            result[column if sized else name] = int(width) if sized else 64
        return result
