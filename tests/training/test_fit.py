"""``fit``: what it trains, what it leaves behind, what it refuses, and which runs it goes on with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from sklearn.metrics import average_precision_score, r2_score
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim.lr_scheduler import ExponentialLR, StepLR
from torch_geometric.nn import GCN

import handful as hf
from graphs import make_graph
from handful.kernels.dispatch import use
from handful.training.fit import begin, device_names
from handful.training.loop import Loop, batch_loss
from handful.training.metrics import accuracy
from small import BreakOff, Last, assert_close_weights, full_batch, small_sage, timeless, train_by_hand


def test_learns_and_reports_the_best_epoch(graph: hf.Graph) -> None:
    model = small_sage(graph)
    run = hf.fit(model, graph, hf.RandomNodes(2), epochs=15, lr=1e-2)
    assert run.test > 0.8
    best = max(run.history, key=lambda line: line["val"])
    assert (run.val, run.test, run.best_epoch) == (best["val"], best["test"], best["epoch"])
    assert (run.epochs, run.steps, len(run.history)) == (15, 30, 15)
    assert run.peak_ram_bytes > 0
    assert 0 < run.train_seconds <= run.seconds
    assert graph.test_mask is not None
    assert graph.y is not None
    logits = hf.infer(model, graph)
    assert accuracy(logits[graph.test_mask], graph.y[graph.test_mask]) == run.test


def test_the_same_seed_gives_the_same_run(graph: hf.Graph) -> None:
    runs = [hf.fit(small_sage(graph), graph, hf.RandomNodes(3), epochs=4, seed=s) for s in (1, 1, 2)]
    losses = [[line["loss"] for line in run.history] for run in runs]
    assert losses[0] == losses[1] != losses[2]


def test_fields_by_name_win_over_settings(graph: hf.Graph) -> None:
    settings = hf.Settings(epochs=3, lr=0.5, optimizer="sgd")
    both = hf.fit(small_sage(graph), graph, hf.FullGraph(), settings, lr=0.01)
    alone = hf.fit(small_sage(graph), graph, hf.FullGraph(), epochs=3, lr=0.01, optimizer="sgd")
    assert timeless(both.history) == timeless(alone.history)


@pytest.mark.parametrize("metric", ["accuracy", "average_precision", "roc_auc"])
def test_two_classes_use_one_logit_and_binary_metrics(metric: str) -> None:
    graph = make_graph(200, classes=2).replace(metric=metric)
    assert graph.num_outputs == 1
    run = hf.fit(small_sage(graph), graph, hf.RandomNodes(2), epochs=10, lr=1e-2)
    assert run.metric == metric
    assert run.test > 0.7


def pyg_gcn(graph: hf.Graph, dropout: float = 0.3) -> GCN:
    torch.manual_seed(0)
    return GCN(graph.num_features, 16, 2, graph.num_classes, dropout=dropout)


def test_any_pyg_module_trains(graph: hf.Graph) -> None:
    runs = [hf.fit(pyg_gcn(graph), graph, hf.RandomNodes(2), epochs=15, lr=1e-2) for _ in range(2)]
    assert runs[0].test > 0.8
    assert timeless(runs[0].history) == timeless(runs[1].history)


def test_a_sampler_of_ones_own_needs_only_samples(graph: hf.Graph) -> None:
    @dataclass(frozen=True)
    class Twice(hf.Sampler):
        def sample(self, graph: hf.Graph, seed: int, epoch: int) -> Iterator[hf.Sample]:
            for _ in range(2):
                yield from hf.FullGraph().sample(graph, seed, epoch)

    assert hf.fit(small_sage(graph), graph, Twice(), epochs=2).steps == 4


def test_begin_has_trained_nothing_yet(graph: hf.Graph) -> None:
    model = small_sage(graph)
    loop = begin(model, graph, hf.RandomNodes(2), hf.Settings(optimizer="sgdm", class_weight="balanced"), seed=7)
    assert (loop.epoch, loop.steps, loop.history, loop.seed) == (0, 0, [], 7)
    assert loop.optimizer.param_groups[0]["momentum"] == 0.9
    assert {id(p) for p in loop.optimizer.param_groups[0]["params"]} == {id(p) for p in model.parameters()}
    assert loop.class_weight is not None
    assert same_device(loop.graph.device, "cpu")


def same_device(device: torch.device, name: str) -> bool:
    return device == torch.device(name)


@pytest.mark.parametrize(
    ("given", "names"),
    [("cpu", ["cpu"]), ("cuda:0, cuda:1", ["cuda:0", "cuda:1"]), (torch.device("cpu"), [torch.device("cpu")])],
)
def test_devices_by_name(given: Any, names: list[Any]) -> None:
    assert device_names(given) == names
    assert device_names(names) == names


# -- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"evaluation_fanout": 0}, "evaluation_fanout takes numbers from 1"),
        ({"epochs": 0}, "epochs must be at least 1"),
        ({"epoch": 3}, "there is no setting 'epoch': did you mean epochs"),
        ({"optimizer": "adm"}, "optimizer must be adam, adamw, sgd or sgdm"),
        ({"seed": -1}, "seed takes a whole number"),
        ({"seed": "a"}, "seed takes a whole number"),
        ({"loss": "ce"}, "loss takes a function"),
        ({"scheduler": torch.optim.lr_scheduler.StepLR}, "must take the optimiser alone"),
        ({"class_weight": [0.0, 0.0, 0.0, 0.0]}, "not only zeros"),
        ({"class_weight": ["a", "b", "c", "d"]}, "a number for every class"),
        ({"callbacks": [print]}, "takes instances of Callback"),
        ({"device": "meta"}, "cannot be used here"),
        ({"class_weight": [1.0, 2.0]}, "class_weight has shape .2,. for 4 classes"),
        ({"loss": F.cross_entropy}, r"loss must give one value per node"),
        ({"optimizer": lambda parameters: None}, "must take \\(parameters, lr, weight_decay\\)"),
        ({"device": "gpu"}, "device 'gpu' cannot be used here"),
    ],
)
def test_what_cannot_be_is_named(graph: hf.Graph, wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(hf.HandfulError, match=words):
        hf.fit(small_sage(graph), graph, hf.RandomNodes(2), **wrong)


def test_a_graph_without_labels_is_refused(graph: hf.Graph) -> None:
    bare = hf.Graph(graph.indptr, graph.indices)
    with pytest.raises(hf.GraphError, match="cannot be trained on: it has no x, y, train_mask"):
        hf.fit(nn.Linear(1, 1), bare, hf.FullGraph())


def test_a_model_with_too_few_outputs_is_refused(graph: hf.Graph) -> None:
    with pytest.raises(hf.HandfulError, match=r"outputs of shape \(\d+, 3\), and the labels need \(nodes, 4\)"):
        hf.fit(hf.SAGE(graph.num_features, 3), graph, hf.FullGraph())


# -- which runs are gone on with --------------------------------------------------------------------------------------


def swapped(mask: Tensor | None, other: Tensor | None) -> tuple[Tensor, Tensor]:
    """Two masks of the same sizes as before, with one node of each in the other."""
    assert mask is not None
    assert other is not None
    mask, other = mask.clone(), other.clone()
    a, b = int(mask.nonzero()[0]), int(other.nonzero()[0])
    mask[a], other[a], mask[b], other[b] = False, True, True, False
    return mask, other


def changed_graph(what: str) -> hf.Graph:
    graph = make_graph(80, weighted=True)
    assert graph.y is not None
    if what == "features":
        return graph.replace(x=graph.x + 1e-3)
    if what == "labels":
        return graph.replace(y=(graph.y + 1) % 4)
    if what == "split nodes":
        train, val = swapped(graph.train_mask, graph.val_mask)
        return graph.replace(train_mask=train, val_mask=val)
    if what == "weights":
        return graph.replace(edge_weight=2 * graph.edge_weight)
    assert what == "graph name"
    return graph.replace(name="another")


def squared(logits: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(logits, y, reduction="none").square()


def rooted(logits: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(logits, y, reduction="none").sqrt()


def made_sgd(parameters: Any, lr: float, weight_decay: float) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=lr, momentum=MOMENTUM)


def made_step(optimizer: torch.optim.Optimizer) -> StepLR:
    return StepLR(optimizer, STEP)


MOMENTUM, STEP = 0.5, 2
ADAGRAD, RMSPROP = torch.optim.Adagrad, torch.optim.RMSprop
PAIRS = [
    *(({}, {"graph": what}, f"{what} was") for what in ("features", "labels", "split nodes", "weights", "graph name")),
    ({"class_weight": [1.0, 2.0, 3.0, 4.0]}, {"class_weight": torch.ones(4)}, r"class_weight was \[1.0, 2.0, 3.0, 4.0\]"
     r" and is now \[1.0, 1.0, 1.0, 1.0\]"),
    ({}, {"class_weight": [1.0, 1.0, 1.0, 1.0]}, r"own was None and is now \{'class_weight': \[1.0"),
    ({}, {"class_weight": "balanced"}, "class_weight was none and is now balanced"),
    ({"optimizer": ADAGRAD}, {"optimizer": RMSPROP}, r"optimizer was \S*Adagrad and is now \S*RMSprop"),
    ({"optimizer": partial(torch.optim.SGD, momentum=0.5)}, {"optimizer": partial(torch.optim.SGD, momentum=0.6)},
     "momentum was 0.5 and is now 0.6"),
    ({"optimizer": made_sgd}, {"optimizer": made_sgd, "MOMENTUM": 0.6}, "momentum was 0.5 and is now 0.6"),
    ({"scheduler": partial(ExponentialLR, gamma=0.5)}, {"scheduler": partial(ExponentialLR, gamma=0.25)},
     "gamma was 0.5 and is now 0.25"),
    ({"scheduler": made_step}, {"scheduler": made_step, "STEP": 3}, "step_size was 2 and is now 3"),
    ({"loss": squared}, {"loss": rooted}, r"loss was \S*squared and is now \S*rooted"),
    ({}, {"loss": squared}, r"own was None and is now \{'loss': '\S*squared'\}"),
    ({"model": "pyg"}, {"model": "pyg", "dropout": 0.4}, r"dropout\S* was 0.3 and is now 0.4"),
    ({}, {"model": "pyg"}, r"model was sage and is now torch_geometric\.nn\.models\S*GCN"),
    ({}, {"dropout": 0.25}, "dropout was 0.5 and is now 0.25"),
    ({}, {"seed": 1}, r"seeds was \[42\] and is now \[1\]"),
    ({}, {"sampler": hf.RandomNodes(3)}, "parts was 2 and is now 3"),
    ({}, {"sampler": hf.FullGraph()}, "sampler was rns and is now full"),
    ({}, {"device": ["cpu", "cpu"]}, "device was cpu and is now cpu,cpu"),
]  # fmt: skip


@pytest.mark.parametrize("finished", [True, False], ids=["finished", "broken off"])
@pytest.mark.parametrize(("was", "now", "words"), PAIRS, ids=[words[:40] for *_, words in PAIRS])
def test_a_run_that_differs_is_not_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, was: dict, now: dict, words: str, finished: bool
) -> None:
    def train(how: dict[str, Any], **more: Any) -> hf.Run:
        how = dict(how)
        for name in ("MOMENTUM", "STEP"):
            if name in how:
                monkeypatch.setitem(globals(), name, how.pop(name))
        graph = changed_graph(how.pop("graph")) if "graph" in how else make_graph(80, weighted=True)
        sampler, options = how.pop("sampler", hf.RandomNodes(2)), {k: how.pop(k) for k in ("dropout",) if k in how}
        model = pyg_gcn(graph, **options) if how.pop("model", "") == "pyg" else small_sage(graph, **options)
        return hf.fit(model, graph, sampler, epochs=2, checkpoint_seconds=0.0, out=tmp_path, **how, **more)

    if finished:
        train(was)
    else:
        with pytest.raises(KeyboardInterrupt):
            train(was, callbacks=[BreakOff(1)])
    with pytest.raises(hf.RunError, match=words):
        train(now, resume=True)
    assert train({**was, "MOMENTUM": 0.5, "STEP": 2}, resume=True).epochs == 2


# -- a budget of memory ----------------------------------------------------------------------------------------------


def test_a_budget_changes_neither_weights_nor_history(graph: hf.Graph, tmp_path: Path) -> None:
    def run(memory: str | None, **more: Any) -> hf.Run:
        torch.manual_seed(0)
        model = hf.SAGE(graph.num_features, graph.num_outputs, hidden=16, layers=2, norm="ln")
        return hf.fit(model, graph, hf.RandomNodes(3), epochs=3, lr=1e-2, memory=memory, checkpoint_seconds=0.0, **more)

    free, bound = run(None), run("64GiB")
    assert [line["loss"] for line in free.history] == [line["loss"] for line in bound.history]
    for a, b in zip(free.model.parameters(), bound.model.parameters(), strict=True):
        assert torch.equal(a, b)
    with pytest.raises(KeyboardInterrupt):
        run("64GiB", out=tmp_path / "run", callbacks=[BreakOff(2)])
    resumed = run("48GiB", out=tmp_path / "run", resume=True)  # how to run, not what
    assert [line["loss"] for line in free.history] == [line["loss"] for line in resumed.history]


@pytest.mark.parametrize(
    ("sampler", "memory", "words"),
    [
        (hf.RandomNodes(2), "much", "a size is a number of bytes"),
        (hf.RandomNodes(2), "1MB", "holds .* already: give more"),
        (hf.RandomNodes(fraction=0.5), "8GiB", "draws its batches one by one: use sampler rns"),
        (hf.Neighbors(), "8GiB", "draws its batches one by one: use sampler rns"),
    ],
)
def test_a_budget_that_cannot_be_kept_is_refused(graph: hf.Graph, sampler: Any, memory: str, words: str) -> None:
    with pytest.raises(hf.HandfulError, match=words):
        hf.fit(small_sage(graph), graph, sampler, memory=memory)


# -- numbers, labels, classes that matter -----------------------------------------------------------------------------


def numbers(graph: hf.Graph) -> hf.Graph:
    """``graph`` with a number to predict, far from 0 and with a spread far from 1."""
    assert graph.x is not None
    return graph.replace(y=5000 + 300 * graph.x[:, 0] + 100 * graph.x[:, 1], num_classes=None)


def several_labels(graph: hf.Graph) -> hf.Graph:
    assert graph.x is not None
    y = (graph.x[:, :3] > 0).float()
    y[::7, 1] = torch.nan
    return graph.replace(y=y, num_classes=None)


def test_a_number_is_learned_as_plain_torch_does(graph: hf.Graph) -> None:
    known = numbers(graph)
    mean, spread = known.y[known.train_mask].mean(), known.y[known.train_mask].std(correction=0)

    def squared(outputs: Tensor, y: Tensor) -> Tensor:
        return F.mse_loss(outputs[:, 0], (y - mean) / spread)

    by_hand = small_sage(known)
    steps = torch.optim.SGD(by_hand.parameters(), lr=0.05)
    weights = train_by_hand(by_hand, known, hf.RandomNodes(2), steps, epochs=3, loss=squared)
    last, model = Last(), small_sage(known)
    how = {"epochs": 3, "lr": 0.05, "optimizer": "sgd", "trim": False}  # dropout goes by a node's place
    run = hf.fit(model, known, hf.RandomNodes(2), callbacks=[last], **how)
    assert_close_weights(last.weights, weights)
    assert (run.metric, run.threshold) == ("r2", None)
    long = hf.fit(model, known, hf.RandomNodes(2), epochs=40, lr=0.01, metric="mae")
    predicted = hf.infer(model, known)[:, 0]  # in the unit of the labels
    error = (predicted - known.y)[known.test_mask].abs().mean()
    assert long.test == pytest.approx(float(error), rel=1e-5)
    assert long.test < 0.5 * float(spread)
    assert long.val == min(line["val"] for line in long.history)  # of an error the least is the best


def test_several_labels_are_learned_as_plain_torch_does(graph: hf.Graph) -> None:
    known = several_labels(graph)

    def binary(logits: Tensor, y: Tensor) -> Tensor:
        rows = [
            F.binary_cross_entropy_with_logits(z[~t.isnan()], t[~t.isnan()]) for z, t in zip(logits, y, strict=True)
        ]
        return torch.stack(rows).mean()

    by_hand = small_sage(known)
    steps = torch.optim.SGD(by_hand.parameters(), lr=0.05)
    weights = train_by_hand(by_hand, known, hf.RandomNodes(2), steps, epochs=3, loss=binary)
    last = Last()
    fitted = {"epochs": 3, "lr": 0.05, "optimizer": "sgd", "callbacks": [last], "trim": False}
    run = hf.fit(small_sage(known), known, hf.RandomNodes(2), **fitted)
    assert_close_weights(last.weights, weights)
    assert run.metric == "roc_auc"
    assert hf.fit("sage", known, hf.RandomNodes(2), options=TINY, epochs=20, lr=0.01).test > 0.75


TINY = {"hidden": 16, "layers": 2}


def test_units_travel_with_the_weights(graph: hf.Graph, tmp_path: Path) -> None:
    known = numbers(graph)
    run = hf.fit("sage", known, hf.FullGraph(), options=TINY, epochs=2, out=tmp_path)
    assert run.model is not None
    expected = hf.infer(run.model, known)
    assert abs(float(expected.mean()) - 5000) < 500
    assert torch.equal(hf.infer(hf.open_run(tmp_path).model, known), expected)
    again = hf.fit("sage", known, hf.FullGraph(), options=TINY, epochs=2, out=tmp_path, resume=True)
    assert torch.equal(hf.infer(again.model, known), expected)
    hf.fit(run.model, graph.replace(y=graph.y % 2, num_classes=2), hf.FullGraph(), epochs=1)
    assert run.model.units is None  # classes have none


def test_what_needs_classes_says_so(graph: hf.Graph) -> None:
    known = numbers(graph)
    for wrong, words in (
        ({"class_weight": "balanced"}, "class_weight is for classes"),
        ({"threshold": "f1"}, "threshold is for two classes"),
        ({"metric": "accuracy"}, "metric 'accuracy' is not one for regression"),
        ({"positive": "1"}, "positive is for two classes"),
    ):
        with pytest.raises(hf.HandfulError, match=words):
            hf.fit("sage", known, hf.RandomNodes(2), options=TINY, **wrong)
    with pytest.raises(hf.HandfulError, match="stratified parts need classes"):
        hf.fit("sage", known, hf.RandomNodes(2, stratify=True), options=TINY, epochs=1)
    with pytest.raises(hf.HandfulError, match="labels of this graph are numbers, and cross-entropy needs classes"):
        batch_loss(small_sage(known), full_batch(known))


def test_the_positive_class_and_the_threshold_are_those_asked_for() -> None:
    graph = make_graph(300, classes=2)
    few = torch.rand(300, generator=torch.Generator().manual_seed(0)) < 0.15
    graph = graph.replace(y=torch.where(few, 0, 1), class_names=("fraud", "ok"), num_classes=2)
    options = {"options": TINY, "epochs": 4, "lr": 0.01, "metric": "average_precision"}
    fraud = hf.fit("sage", graph, hf.RandomNodes(2), threshold="f1", class_weight="balanced", **options)
    ok = hf.fit("sage", graph, hf.RandomNodes(2), positive="ok", **options)
    assert ok.threshold == 0.5 != fraud.threshold
    assert ok.val > 0.8 > fraud.val
    assert fraud.model is not None
    test = graph.test_mask.numpy()
    expected = average_precision_score(few[test], -hf.infer(fraud.model, graph)[test, 0])
    assert fraud.test == pytest.approx(expected)


# -- what people hand in ----------------------------------------------------------------------------------------------


def test_a_model_by_name_is_the_same_each_time(graph: hf.Graph) -> None:
    torch.manual_seed(0)
    first = hf.fit("sage", graph, hf.RandomNodes(2), options=TINY, epochs=2)
    torch.manual_seed(1)
    second = hf.fit("sage", hf.to_pyg(graph), hf.RandomNodes(2), options=TINY, epochs=2)
    assert timeless(first.history) == timeless(second.history)
    assert first.model.options["hidden"] == 16
    other = hf.fit("sage", graph, hf.RandomNodes(2), options=TINY, epochs=2, seed=7)
    assert other.history[0]["loss"] != first.history[0]["loss"]


def test_a_bar_shows_progress(graph: hf.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    hf.fit("sage", graph, hf.RandomNodes(2), options=TINY, epochs=2, progress=True)
    assert "2/2 epochs · loss" in capsys.readouterr().err
    hf.fit("sage", graph, hf.RandomNodes(2), options=TINY, epochs=1)
    assert capsys.readouterr().err == ""


def test_a_metric_of_ones_own_chooses_the_epoch(graph: hf.Graph, tmp_path: Path) -> None:
    def doubt(p: Tensor, y: Tensor) -> Tensor:
        return 1 - p[torch.arange(len(y)), y].mean()

    doubt.higher_is_better = False  # type: ignore[attr-defined]
    run = hf.fit("sage", graph, hf.RandomNodes(2), options=TINY, epochs=5, metric=doubt, out=tmp_path)
    assert (run.metric, run.val) == ("doubt", min(line["val"] for line in run.history))
    back = hf.open_run(tmp_path).result
    assert (back.metric, back.higher_is_better) == ("doubt", False)
    assert "doubt" in str(back)
    assert "<caption>Run</caption>" in back._repr_html_()


class TwoOutputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 2)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.linear(x)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"model": TwoOutputs()}, r"gives outputs of shape \(\d+, 2\), and the labels need \(nodes, 4\)"),
        ({"loss": nn.CrossEntropyLoss()}, "one value per node.*give it reduction='none'"),
        ({"loss": lambda out, y: out @ y}, "loss cannot be computed from outputs"),
        ({"loss": "mse"}, "loss takes a function of"),
        ({"scheduler": 3}, "scheduler .*must take the optimiser alone"),
        ({"scheduler": lambda optimizer: None}, "scheduler .*must give a torch scheduler, got None"),
        ({"scheduler": StepLR}, "scheduler .*must take the optimiser alone"),
        ({"optimizer": torch.optim.SGD([torch.zeros(1)], lr=1)}, "optimizer takes a name or a class"),
        ({"optimizer": lambda parameters, **_: 3}, "must give a torch optimizer, got 3"),
        ({"graph": 3}, "graph takes a Graph or a PyG Data"),
        ({"settings": 3}, "settings takes a Settings"),
        ({"model": TwoOutputs(), "options": {}}, "options are for a model that is given by name"),
        ({"model": "sag"}, "there is no model 'sag': did you mean sage"),
    ],
)
def test_raw_errors_have_become_clear_ones(graph: hf.Graph, wrong: dict[str, Any], words: str) -> None:
    given = {"model": "sage", "graph": graph, "sampler": hf.FullGraph(), "epochs": 1} | wrong
    with pytest.raises(hf.HandfulError, match=words):
        hf.fit(**given)


def test_a_class_of_torch_optim_is_taken(graph: hf.Graph) -> None:
    runs = [
        hf.fit("sage", graph, hf.FullGraph(), options=TINY, epochs=3, weight_decay=0.1, optimizer=one)
        for one in ("adamw", torch.optim.AdamW)
    ]
    losses = [[line["loss"] for line in run.history] for run in runs]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


@pytest.mark.triton
@pytest.mark.parametrize(
    ("name", "norm"),
    [("sage", "bn"), *(pytest.param(*way, marks=pytest.mark.slow) for way in (("gat", "ln"), ("gcn", "bn")))],
)
def test_five_epochs_by_triton_end_like_by_numba(name: str, norm: str) -> None:
    """With the same batches and, since the loss of every step shows its dropout, the same masks.

    By SGD: a bias before a norm has no gradient but rounding, which Adam would scale up.
    """
    pytest.importorskip("triton")
    graph = make_graph(16, degree=2)
    how = {"epochs": 5, "evaluate_every": 5, "optimizer": "sgd", "lr": 0.1}
    options = {"hidden": 8, "layers": 2, "norm": norm, "dropout": 0.5}
    found = []
    for way in ("numba", "triton"):
        seen = Seen()
        with use(way):  # type: ignore[arg-type]
            sampler = hf.RandomNodes(2)
            run = hf.fit(name, graph, sampler, options=options, callbacks=[seen], **how)
        assert run.model is not None
        found.append((seen, run.model.state_dict()))
    (ours, weights), (theirs, expected) = found
    assert len(ours.losses) == 10
    assert all(torch.equal(a, b) for a, b in zip(ours.nodes, theirs.nodes, strict=True))
    assert ours.losses == pytest.approx(theirs.losses, rel=1e-4)
    for key, value in expected.items():
        torch.testing.assert_close(weights[key], value, rtol=1e-4, atol=1e-5)


class Seen(hf.Callback):
    """The nodes and the loss of every step."""

    def __init__(self) -> None:
        self.nodes: list[Tensor] = []
        self.losses: list[float] = []

    def on_gradient(self, loop: Loop, batch: hf.Batch, loss: float, seed: int) -> None:
        self.nodes.append(batch.nodes)
        self.losses.append(loss)


def test_several_numbers_are_learned_in_one_run(tmp_path: Path) -> None:
    graph = hf.load("synthetic?nodes=300&degree=6&features=8&classes=3")
    assert graph.x is not None
    y = torch.stack([3 * graph.x[:, 0] + 10, 1000 * graph.x[:, 1] - 5], 1)
    y[:20, 0] = torch.nan
    graph = graph.replace(y=y, num_classes=None)
    assert (graph.kind, graph.num_outputs) == ("regression", 2)
    options = {"hidden": 32, "layers": 2, "dropout": 0.0}
    run = hf.fit("sage", graph, hf.FullGraph(), options=options, epochs=100, lr=0.02, out=tmp_path)
    assert run.model is not None
    assert graph.test_mask is not None
    found, test = hf.infer(run.model, graph), graph.test_mask & ~y[:, 0].isnan()
    each = [r2_score(y[test, k], found[test, k]) for k in (0, 1)]
    assert min(each) > 0.8
    assert hf.open_run(tmp_path).predict(graph) == pytest.approx(found.numpy(), rel=1e-4)
    judged = hf.assess(run.model, graph)
    assert judged.metrics["r2"]["test"] == pytest.approx(run.test)
    assert {one["number"] for one in judged.mistakes} == {0, 1}
