"""The rule that turns outputs into classes, and a detailed assessment of a model. The assessment contains scores per
class, the confusion matrix, the calibration of the probabilities, and the most confident mistakes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from handful.errors import HandfulError
from handful.graph import MASKS, METRICS_OF, Graph, Kind
from handful.random import generator
from handful.samplers.base import Sampler
from handful.samplers.full import FullGraph
from handful.training.inference import infer
from handful.training.metrics import METRICS, Metric, by_column, class_scores, confusion, curve, probabilities, turned

BINS = 10
FITTED = 20_000
"""The maximum number of validation nodes to which a calibration is fitted."""
DRAWS = 100
"""The number of bootstrap samples for an interval. Each sample draws nodes and models with replacement."""
MISTAKES = 20
RANKS = 200
POINTS = 1000
"""The maximum number of points that are kept for the scatter plot of a regression."""


# -- from outputs to classes ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Decision:
    """The rule that turns outputs into probabilities, and probabilities into a class.

    Args:
        kind: the kind of labels; see ``Graph.kind``.
        positive, threshold: for two classes, the positive class and its decision threshold.
        class_weight: the class weights of the loss. Probabilities and ``threshold`` do not include the weights. If
            there are more than two classes, the class with the largest weighted probability is predicted.
        scale, bias: the calibration of the outputs (``calibrate``). ``bias`` has a number for each class; if it is
            empty, the bias is 0.

    >>> Decision("binary").values(torch.tensor([[0.0]]))
    tensor([[0.5000, 0.5000]])
    >>> Decision("binary").pick(np.array([[0.3, 0.7]])), Decision("binary", 0, 0.2).pick(np.array([[0.3, 0.7]]))
    (array([1]), array([0]))
    """

    kind: Kind
    positive: int = 1
    threshold: float = 0.5
    class_weight: tuple[float, ...] | None = None
    scale: float = 1.0
    bias: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.threshold <= 1:
            raise HandfulError(f"threshold is a probability, got {self.threshold}")

    @classmethod
    def on(cls, graph: Graph, class_weight: Tensor | None = None) -> Decision:
        """The decision rule for ``graph`` that is equivalent to a threshold of 0.5 on class-weighted probabilities.

        >>> graph = Graph.from_edge_index([[0], [1]], y=[0, 1], positive=1)
        >>> Decision.on(graph, torch.tensor([1.0, 4.0])).threshold
        0.2
        """
        weight = None if class_weight is None else tuple(class_weight.tolist())
        return cls(graph.kind, int(graph.positive or 0), class_weight=weight).unweighted()

    def unweighted(self) -> Decision:
        """Convert ``threshold``, which applies to class-weighted probabilities, to a threshold for unweighted
        probabilities.
        """
        if self.class_weight is None or self.kind != "binary":
            return self
        one = (1 - self.threshold) * self.class_weight[self.positive]
        other = self.threshold * self.class_weight[1 - self.positive]
        return replace(self, threshold=other / max(one + other, 1e-12))

    def shift(self, width: int) -> Tensor:
        """float32 ``(width,)``: the amount by which the class weights of the loss shift the outputs. The shift is 0 for
        a class whose weight is 0.

        >>> Decision("binary", class_weight=(1.0, 4.0)).shift(1)
        tensor([1.3863])
        """
        if self.class_weight is None:
            return torch.zeros(width)
        weights = torch.tensor(self.class_weight)
        return _by_output(torch.where(weights > 0, weights, 1.0).log(), width)

    def plain(self, outputs: Tensor) -> Tensor:
        """The calibrated outputs without the effect of the class weights: scale·(outputs − shift) + bias.

        >>> Decision("multiclass", scale=2.0, bias=(0.5, 0.0)).plain(torch.tensor([[1.0, 3.0]]))
        tensor([[2.5000, 6.0000]])
        """
        width = outputs.shape[1]
        bias = _by_output(torch.tensor(self.bias), width) if self.bias else torch.zeros(width)
        return self.scale * (outputs - self.shift(width)) + bias

    def values(self, outputs: Tensor) -> Tensor:
        """The probability of each class or label, ``(n, classes)``. For a regression, the outputs are returned
        unchanged.
        """
        if self.kind == "regression":
            return outputs
        result = probabilities(self.plain(outputs), self.kind)
        return torch.stack([1 - result, result], 1) if self.kind == "binary" else result

    def centred(self, outputs: Tensor) -> Tensor:
        """Outputs whose metrics are those of the decisions. For two classes, there is one output per node, shifted so
        that the decision threshold is the probability 0.5. For more classes, the outputs are calibrated. Other outputs
        are returned unchanged.

        >>> Decision("binary", threshold=0.2).centred(torch.logit(torch.tensor([[0.2]])))
        tensor([[0.]])
        """
        if self.kind not in ("binary", "multiclass"):
            return outputs
        plain = self.plain(outputs)
        if self.kind == "multiclass":
            return plain + self.shift(outputs.shape[1])
        plain = plain if plain.shape[1] == 1 else plain.diff(dim=1)
        odds = float(torch.logit(torch.tensor(self.threshold, dtype=torch.float64), eps=1e-9))
        return plain - (odds if self.positive == 1 else -odds)

    def pick(self, values: np.ndarray) -> np.ndarray:
        """int64 ``(n,)``: the predicted class, from the probability of each class."""
        if self.kind == "binary":
            return np.where(values[:, self.positive] >= self.threshold, self.positive, 1 - self.positive)
        if self.class_weight is not None:  # as in ``shift``, a weight of 0 has no effect
            values = values * [weight or 1.0 for weight in self.class_weight]
        return values.argmax(1)  # type: ignore[no-any-return]


def _by_output(values: Tensor, width: int) -> Tensor:
    """Convert one value per class to one value per output: a single output is the log-odds of the second class."""
    return values[1:2] - values[:1] if width == 1 else values


def calibrate(decision: Decision, outputs: Sequence[Tensor], graph: Graph) -> Decision:
    """``decision`` with the ``scale`` and ``bias`` that fit the validation nodes best.

    Let p_v be the probability of the true class of node v, averaged over the models. The result minimises the sum of
    −log p_v over (at most ``FITTED``) validation nodes, plus ½·(log² scale + Σ_k bias_k²), so that few nodes change
    little. With bias 0, this is temperature scaling (Guo et al., 2017). Without validation nodes, for other tasks than
    classification, and for outputs that are not finite, the result is ``decision``.

    Args:
        decision: the decision rule, without a calibration.
        outputs: the outputs ``(N, outputs)`` of every model.
        graph: a graph with labels and a split.

    >>> masks = {"train_mask": [0], "val_mask": [1, 2, 3]}
    >>> graph = Graph.from_edge_index([[0], [1]], x=torch.zeros(4, 1), y=[0, 0, 0, 1], **masks)
    >>> found = calibrate(Decision("binary"), [torch.tensor([[0.0], [-9.0], [-9.0], [-9.0]])], graph)
    >>> found.scale < 1, found.bias[1] > found.bias[0]
    (True, True)
    """
    nodes = torch.empty(0) if graph.val_mask is None else graph.val_mask.nonzero().squeeze(1)
    if decision.kind not in ("binary", "multiclass") or graph.y is None or not len(nodes) or graph.num_classes == 1:
        return decision
    nodes = nodes[:: -(-len(nodes) // FITTED)]
    own = [one[nodes].detach().double() - decision.shift(one.shape[1]) for one in outputs]
    wanted = graph.y[nodes, None]
    scale, bias = (torch.zeros(n, dtype=torch.float64, requires_grad=True) for n in (1, graph.num_classes or 2))
    optimizer = torch.optim.LBFGS([scale, bias], max_iter=100, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        p = [probabilities(scale.exp() * one + _by_output(bias, one.shape[1]), decision.kind) for one in own]
        mean = torch.stack(p).mean(0)
        mean = torch.stack([1 - mean, mean], 1) if decision.kind == "binary" else mean
        penalty = (scale.square().sum() + bias.square().sum()) / 2
        total: Tensor = (penalty - mean.gather(1, wanted).clamp_min(1e-12).log().sum()) / len(nodes)
        total.backward()  # type: ignore[no-untyped-call]
        return total

    with torch.enable_grad():
        optimizer.step(loss)  # type: ignore[no-untyped-call]
    found = [float(scale.detach().exp()), *bias.detach().tolist()]
    return replace(decision, scale=found[0], bias=tuple(found[1:])) if np.isfinite(found).all() else decision


def best_threshold(outputs: Tensor, graph: Graph) -> float:
    """The decision threshold of the positive class that gives the best F1 on the validation nodes.

    The threshold is the midpoint between two adjacent probabilities, or half of the smallest one. If no validation node
    is positive, the threshold is 0.5.

    Args:
        outputs: ``(n, outputs)``, the outputs for the validation nodes, without class weights.
        graph: a graph with two classes.

    >>> graph = Graph.from_edge_index(
    ...     [[0], [1]], x=torch.zeros(5, 1), y=[0, 0, 1, 0, 1], train_mask=[0], val_mask=[1, 2, 3, 4], positive=1
    ... )
    >>> round(best_threshold(torch.tensor([[-3.0], [-1.0], [-2.0], [1.0]]), graph), 3)
    0.194
    """
    assert graph.y is not None
    assert graph.val_mask is not None
    positive = int(graph.positive or 0)
    p = Decision("binary").values(outputs.double().cpu())[:, positive].numpy()
    is_positive = graph.y[graph.val_mask].eq(positive).cpu().numpy()
    if not is_positive.any():
        return 0.5
    distinct, hits, taken = curve(p, is_positive)
    at = int((2 * hits / (taken + hits[-1])).argmax())
    return float(np.append(distinct, 0.0)[at : at + 2].mean())  # no node has exactly this probability


# -- assessment -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Assessment:
    """The results of a model on the assessed nodes. Scores and probabilities are fractions, from 0 to 1.

    Args:
        kind: the kind of the labels; see ``Graph.kind``.
        nodes: the split that is assessed: ``test`` or, if there are no test nodes, ``val`` or ``train``.
        metrics: the value of every metric that fits the kind of labels, on the training, validation and test nodes.
        classes: for each class, its ``name``, its number of nodes per split, and its ``precision``, ``recall`` and
            ``f1``. In a multi-label task, each label has ``f1``, ``average_precision`` and ``roc_auc`` instead.
        positive: the name of the positive class, if there are two classes.
        threshold: for two classes, the decision threshold of the positive class.
        confusion: entry ``[i][j]`` is the number of nodes of class i that are predicted as class j; empty if nodes do
            not have exactly one class.
        calibration: for each interval of probabilities (0 to 0.1, 0.1 to 0.2, …), the mean probability
            (``confidence``), the fraction of nodes that have the class (``share``), and the number of ``nodes``. The
            class is the positive class if there are two classes, and the predicted class otherwise.
        calibration_error: Σ_b n_b/n · |confidence_b − share_b|, over the intervals b.
        mistakes: the wrong predictions with the highest probability; for a regression, those with the largest error.
            Each mistake has ``node``, the kept columns of its table, its ``true`` and ``predicted`` class or value, and
            the ``probability`` or ``error``.
        points: for a regression, the true and predicted values of some nodes.
        ranking: for two classes, the false positive rate, the recall and the precision at some thresholds.
    """

    kind: Kind
    nodes: str
    metrics: dict[str, dict[str, float]]
    classes: list[dict[str, Any]] = field(default_factory=list)
    positive: str | None = None
    threshold: float | None = None
    confusion: list[list[int]] = field(default_factory=list)
    calibration: list[dict[str, float]] = field(default_factory=list)
    calibration_error: float | None = None
    mistakes: list[dict[str, Any]] = field(default_factory=list)
    points: list[list[float]] = field(default_factory=list)
    ranking: list[list[float]] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Convert all fields to plain values."""
        return asdict(self)


def assess(
    model: nn.Module,
    graph: Graph,
    threshold: float = 0.5,
    sampler: Sampler = FullGraph(),  # noqa: B008  (frozen)
    memory: int | str | None = None,
) -> Assessment:
    """Assess ``model`` on ``graph`` by exact inference.

    Args:
        model: a model with trained weights.
        graph: a graph with features, labels and a split.
        threshold: for two classes, the decision threshold of the positive class, such as ``run.threshold``.
        sampler: the sampler that was used in training; see ``infer``.
        memory: a budget for the inference; see ``infer``.

    >>> import handful as hf
    >>> graph = hf.load("synthetic?nodes=200&degree=4&classes=2")
    >>> run = hf.fit("sage", graph, hf.RandomNodes(2), options={"hidden": 8, "layers": 2}, epochs=2)
    >>> found = assess(run.model, graph, run.threshold)
    >>> sum(map(sum, found.confusion)) == int(graph.test_mask.sum())
    True
    >>> found.metrics["accuracy"]["test"] == run.test
    True
    """
    outputs = infer(model, graph.require_training(), sampler=sampler, memory=memory)
    return assessment(outputs, graph, replace(Decision.on(graph), threshold=threshold))


def averaged(outputs: Sequence[Tensor], decision: Decision) -> Tensor:
    """Outputs ``(N, outputs)`` for which ``decision`` gives the mean of the models' probabilities. The probabilities
    are calibrated, and do not include the class weights of the loss. For a regression, the outputs are averaged.

    >>> averaged([torch.tensor([[0.0]]), torch.tensor([[0.0]])], Decision("binary"))
    tensor([[0.]])
    """
    plain, kind = [decision.plain(one) for one in outputs], decision.kind
    mean = torch.stack(plain).mean(0)
    if len(plain) > 1 and kind != "regression":
        p = torch.stack([probabilities(one.double(), kind) for one in plain]).mean(0).clamp(1e-12, 1 - 1e-12)
        result = p.log() if kind == "multiclass" else torch.logit(p)
        mean = (result[:, None] if kind == "binary" else result).to(mean.dtype)
    return (mean - decision.plain(torch.zeros(1, mean.shape[1]))) / decision.scale


def assess_average(
    outputs: Sequence[Tensor], graph: Graph, by_f1: bool = False, class_weight: Tensor | None = None
) -> tuple[Assessment, Decision]:
    """Assess the average of several models, as ``handful predict`` computes this average.

    Args:
        outputs: the outputs ``(N, outputs)`` of every model.
        graph: a graph with labels and a split.
        by_f1: whether to use the threshold with the best F1 on the validation nodes, if there are two classes.
        class_weight: the class weights of the loss, if any.
    """
    decision = calibrate(Decision.on(graph, class_weight), outputs, graph)
    mean = averaged(outputs, decision)
    if graph.kind == "binary" and by_f1:
        decision = replace(decision, threshold=best_threshold(decision.plain(mean)[graph.val_mask], graph))
    return assessment(mean, graph, decision), decision


def interval(
    outputs: Sequence[Tensor], graph: Graph, metric: Metric, nodes: Tensor, decision: Decision
) -> tuple[float, float]:
    """The 95% bootstrap interval of a metric of the averaged models. Each of the ``DRAWS`` bootstrap samples draws
    nodes and models with replacement.

    Args:
        outputs: the outputs ``(N, outputs)`` of every model.
        graph: a graph with labels.
        metric: the metric, computed from outputs.
        nodes: int64, the nodes on which the metric is computed.
        decision: the decision rule of the averaged models.
    """
    rng, values = generator(0), []
    own = [one[nodes] for one in outputs]
    for _ in range(DRAWS if len(nodes) else 0):
        models = [own[i] for i in rng.integers(len(own), size=len(own))]
        drawn = torch.from_numpy(rng.integers(len(nodes), size=len(nodes)))
        mean = averaged([one[drawn] for one in models], decision)
        values.append(metric.of(decision.centred(mean), graph, nodes[drawn]))
    low, high = np.quantile([value for value in values if value == value] or [float("nan")], (0.025, 0.975))
    return float(low), float(high)


def assessment(outputs: Tensor, graph: Graph, decision: Decision) -> Assessment:
    """Assess the outputs ``(N, outputs)`` of a model. For a regression, the outputs must have the unit of the
    labels.
    """
    outputs, graph = outputs.detach().cpu(), graph.require_training().to("cpu")
    masks: dict[str, Tensor] = {name.removesuffix("_mask"): getattr(graph, name) for name in MASKS}
    there = {name: mask for name, mask in masks.items() if bool(mask.any())}
    judged_by, centred = next(name for name in ("test", "val", "train") if name in there), decision.centred(outputs)
    metrics = {
        name: {split: METRICS[name].of(centred[mask], graph, mask) for split, mask in there.items()}
        for name in METRICS_OF[graph.kind]
    }
    nodes = masks[judged_by].nonzero().squeeze(1)
    common: dict[str, Any] = {"kind": graph.kind, "nodes": judged_by, "metrics": metrics}
    if graph.kind == "regression":
        return Assessment(**common, **_of_numbers(outputs, graph, nodes))
    if graph.kind == "multilabel":
        return Assessment(**common, classes=_of_labels(outputs, graph, masks, nodes))
    return Assessment(**common, **_of_classes(outputs, graph, masks, nodes, decision))


# -- classes ----------------------------------------------------------------------------------------------------------


def _names(graph: Graph) -> list[str]:
    return list(graph.class_names or map(str, range(graph.num_classes or 0)))


def _rows(names: list[str], counts: dict[str, Tensor], scores: Mapping[str, Any]) -> list[dict[str, Any]]:
    """For every class or label: its name, its number of nodes per split, and its scores."""
    return [
        {"name": name, **{k: int(n[c]) for k, n in counts.items()}, **{k: float(v[c]) for k, v in scores.items()}}
        for c, name in enumerate(names)
    ]


def _of_classes(
    outputs: Tensor, graph: Graph, masks: dict[str, Tensor], nodes: Tensor, decision: Decision
) -> dict[str, Any]:
    assert graph.y is not None
    names, y = _names(graph), graph.y[nodes]
    values = decision.values(outputs[nodes].double())
    guess = torch.from_numpy(decision.pick(values.numpy()))
    sure = values.gather(1, guess[:, None]).squeeze(1)
    own: dict[str, Any] = {"calibration": calibration(sure, guess == y)}
    if graph.kind == "binary":
        p, is_positive = values[:, decision.positive], y == decision.positive
        own = {"positive": names[decision.positive], "threshold": decision.threshold}
        own |= {"calibration": calibration(p, is_positive), "ranking": ranking(p.numpy(), is_positive.numpy())}
    table = confusion(guess, y, len(names))
    scores = class_scores(table)
    counts = {split: torch.bincount(graph.y[mask], minlength=len(names)) for split, mask in masks.items()}
    wrong = (guess != y).nonzero().squeeze(1)
    wrong = wrong[sure[wrong].argsort(descending=True, stable=True)[:MISTAKES]]
    mistakes = []
    for i in wrong.tolist():
        both = {"true": names[int(y[i])], "predicted": names[int(guess[i])]}
        mistakes.append(node_record(graph, int(nodes[i]), **both, probability=float(sure[i])))
    error = sum(b["nodes"] * abs(b["confidence"] - b["share"]) for b in own["calibration"]) / max(1, len(nodes))
    own |= {"classes": _rows(names, counts, scores), "confusion": table.tolist()}
    return own | {"calibration_error": error, "mistakes": mistakes}


def ranking(p: np.ndarray, is_positive: np.ndarray) -> list[list[float]]:
    """False positive rate, recall and precision at up to ``RANKS`` thresholds, the highest first.

    >>> ranking(np.array([0.9, 0.8, 0.3]), np.array([True, False, True]))[-1]
    [1.0, 1.0, 0.6666666666666666]
    """
    _, hits, taken = curve(p, is_positive)
    some = np.unique(np.linspace(0, len(hits) - 1, RANKS).astype(int)) if len(p) else slice(0)
    hits, taken, negative = hits[some], taken[some], max(1, int((~is_positive).sum()))
    result = np.stack([(taken - hits) / negative, hits / max(1, int(is_positive.sum())), hits / taken], 1)
    return result.tolist()  # type: ignore[no-any-return]


def calibration(p: Tensor, came_true: Tensor) -> list[dict[str, float]]:
    """For each interval of probabilities (0 to 0.1, 0.1 to 0.2, …) that has nodes: the mean of ``p``, the fraction of
    nodes for which ``came_true`` is true, and the number of nodes.

    >>> calibration(torch.tensor([0.05, 0.92, 0.98]), torch.tensor([False, True, False]))[-1]["share"]
    0.5
    """
    place = (p * BINS).long().clamp(0, BINS - 1)
    out = []
    for interval in sorted(set(place.tolist())):
        here = place == interval
        means = float(p[here].double().mean()), float(came_true[here].double().mean())
        out.append({"confidence": means[0], "share": means[1], "nodes": int(here.sum())})
    return out


def _of_labels(outputs: Tensor, graph: Graph, masks: dict[str, Tensor], nodes: Tensor) -> list[dict[str, Any]]:
    assert graph.y is not None
    chosen, y = turned(outputs[nodes], graph.y[nodes], graph)
    counts = {split: (graph.y[mask] == 1).sum(0) for split, mask in masks.items()}
    scores = {name: by_column(METRICS[name].function, chosen, y) for name in ("f1", "average_precision", "roc_auc")}
    return _rows(_names(graph), counts, scores)


# -- numbers ----------------------------------------------------------------------------------------------------------


def _of_numbers(outputs: Tensor, graph: Graph, nodes: Tensor) -> dict[str, Any]:
    assert graph.y is not None
    guess = outputs[nodes].double()
    y = graph.y[nodes].double().reshape(guess.shape)
    error = guess - y
    size = error.abs() / error.square().nanmean(0).sqrt().clamp_min(1e-300)  # numbers may have different units
    worst = size.nan_to_num(-1.0).view(-1).argsort(descending=True, stable=True)[:MISTAKES]
    mistakes = []
    for i, k in (divmod(place, guess.shape[1]) for place in worst.tolist()):
        values = {"number": k} if guess.shape[1] > 1 else {}
        values |= {"true": float(y[i, k]), "predicted": float(guess[i, k]), "error": float(error[i, k])}
        mistakes.append(node_record(graph, int(nodes[i]), **values))
    both = torch.stack([y.view(-1), guess.view(-1)], 1)
    both = both[~both.isnan().any(1)]
    return {"mistakes": mistakes, "points": both[:: max(1, -(-len(both) // POINTS))].tolist()}


def node_record(graph: Graph, node: int, **values: Any) -> dict[str, Any]:
    """A record of a node: its id (its index, if nodes have no ids), the kept columns of its table, and ``values``.

    >>> kept = {"schema": {"kept": ["name"]}, "kept": np.array([["Ann"], ["Bob"]])}
    >>> node_record(Graph.from_edge_index([[0], [1]], ids=["a", "b"], **kept), 1, predicted="ok")
    {'node': 'b', 'name': 'Bob', 'predicted': 'ok'}
    """
    texts = () if graph.kept is None else graph.kept[node].tolist()
    kept = dict(zip((graph.schema or {}).get("kept", ()), texts, strict=True)) if texts else {}
    kept = {f"{name} (kept)" if name in ("node", *values) else name: text for name, text in kept.items()}
    return {"node": node if graph.ids is None else graph.ids[node].item(), **kept, **values}
