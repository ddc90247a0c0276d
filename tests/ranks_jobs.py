"""What runs on several ranks in the tests. Most of it runs in one process too, which is what it is held against."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import handful as hf
from graphs import make_graph
from handful import ranks
from handful.errors import HandfulError, ToldElsewhere
from handful.training.inference import infer

JOBS: dict[str, Callable[[Path], Any]] = {}
"""By name; each runs on every rank and is given the folder of the launch."""


def job(function: Callable[[Path], Any]) -> Callable[[Path], Any]:
    """Let ``function`` run in the launch that all tests share."""
    JOBS[function.__name__] = function
    return function


class Plain(nn.Module):
    """A module of the user's own, with a BatchNorm, and a layer that no batch reaches."""

    def __init__(self, features: int, outputs: int) -> None:
        super().__init__()
        self.first, self.norm = nn.Linear(features, 8), nn.BatchNorm1d(8)
        self.last, self.unused = nn.Linear(8, outputs), nn.Linear(2, 2)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        summed = torch.zeros(len(x), 8).index_add_(0, edge_index[1], self.first(x)[edge_index[0]])
        return self.last(self.norm(summed).relu())


def few_targets(weighted: bool = False) -> hf.Graph:
    """A graph with so few training nodes that some of nine parts have none."""
    graph = make_graph(120, undirected=not weighted, weighted=weighted)
    return graph.replace(train_mask=graph.train_nodes[:12])


# Plain gradient descent: Adam makes a full step of what is rounding alone, as the gradient of a bias before a norm is.
WAYS: dict[str, dict[str, Any]] = {
    "bn": {"parts": 4, "parts_per_step": 4, "norm": "bn"},
    "bn, uneven": {"parts": 7, "parts_per_step": 3, "norm": "bn", "dropout": 0.3},
    "bn, whole epoch": {"parts": 5, "update": "epoch", "norm": "bn"},
    "ln, trimmed": {"parts": 9, "parts_per_step": 4, "norm": "ln", "dropout": 0.3, "weighted": True},
    "idle ranks": {"parts": 4, "parts_per_step": 1, "norm": "none"},
    "neighbours": {"sampler": hf.Neighbors(batch_size=3, fanout=(3, 3)), "parts_per_step": 2, "norm": "ln"},
}


def trained_way(way: str, **more: Any) -> dict[str, Any]:
    """One of ``WAYS``: what the run came to, and its weights."""
    how = dict(WAYS[way])
    graph = few_targets(how.pop("weighted", False))
    sampler = how.pop("sampler", None) or hf.RandomNodes(how.pop("parts"))
    options = {"hidden": 8, "layers": 2, "norm": how.pop("norm"), "dropout": how.pop("dropout", 0.0)}
    run = hf.fit("sage", graph, sampler, options=options, epochs=4, lr=0.1, optimizer="sgd", seed=3, **how, **more)
    return outcome(run)


def outcome(run: hf.Run) -> dict[str, Any]:
    """What is the same however many ranks there are."""
    assert run.model is not None
    counts = {name: getattr(run, name) for name in ("epochs", "steps", "skipped", "best_epoch", "val", "test")}
    losses = [line["loss"] for line in run.history]
    return {**counts, "losses": torch.tensor(losses), "weights": dict(run.model.state_dict())}


@job
def ways(folder: Path) -> dict[str, Any]:
    return {way: trained_way(way) for way in WAYS}


@job
def own_module(folder: Path) -> dict[str, Any]:
    """Every rank makes a module with weights of its own: that of rank 0 is trained."""
    torch.manual_seed(ranks.rank())
    graph = few_targets()
    how = {"epochs": 3, "lr": 0.1, "weight_decay": 0.1, "optimizer": "sgd", "parts_per_step": 4}
    return outcome(hf.fit(Plain(graph.num_features, graph.num_outputs), graph, hf.RandomNodes(4), **how))


@job
def recorded(folder: Path) -> dict[str, Any]:
    """A run in a folder that one process has begun, see ``begun_run``; then once more, when it has ended."""
    first = trained_way("bn", out=folder / "begun", resume=True, checkpoint_seconds=0.0)
    again = trained_way("bn", out=folder / "begun", resume=True, checkpoint_seconds=0.0)
    return {"first": first, "again": again}


class Halfway(hf.Callback):
    """Stop a run after two epochs, as a kill would leave it: the checkpoint, and no result."""

    def on_epoch(self, loop: Any) -> None:
        if loop.epoch == 3:
            raise KeyboardInterrupt


def begun_run(folder: Path) -> None:
    """A run that was broken off after its second epoch, in one process."""
    try:
        trained_way("bn", out=folder / "begun", checkpoint_seconds=0.0, callbacks=[Halfway()])
    except KeyboardInterrupt:
        return
    raise AssertionError("it was not broken off")


@job
def stopped(folder: Path) -> int:
    """The last rank alone wants to stop after its second epoch."""

    class Stop(hf.Callback):
        def on_epoch(self, loop: Any) -> None:
            if loop.epoch == 2 and ranks.rank() == ranks.size() - 1:
                loop.stop()

    model = hf.SAGE(8, 4, hidden=8, layers=2)
    return hf.fit(model, make_graph(), hf.RandomNodes(2), epochs=9, parts_per_step=2, callbacks=[Stop()]).epochs


@job
def inferred(folder: Path) -> dict[str, Tensor]:
    """Exact inference in which every rank computes its rows, in chunks of 7."""
    out = {}
    graph = make_graph(101)
    for name in ("gcn", "sage", "gat", "sgformer", "graphland-sage"):
        torch.manual_seed(0)
        model = hf.make_model(name, graph.num_features, graph.num_outputs, hidden=8)
        with ranks.sharing():
            out[name] = infer(model, graph, chunk=7)
    return out


@job
def mistakes(folder: Path) -> list[str]:
    """What each rank is told of mistakes on one of them, on both, and of data that differ."""
    said = []

    def tell(fail: Callable[[], Any]) -> None:
        try:
            fail()
            said.append("")
        except HandfulError as error:
            said.append(f"{type(error).__name__}: {error}")

    def fail(*failing: int) -> None:
        with ranks.agreed():
            if ranks.rank() in failing:
                raise HandfulError(f"something is wrong on {ranks.rank()}")

    tell(lambda: fail(1))
    tell(lambda: fail(0, 1))
    tell(fail)
    other = make_graph(seed=ranks.rank()).replace(name="the same")
    tell(lambda: hf.fit("sage", other, hf.RandomNodes(2), options={"hidden": 8, "layers": 2}, epochs=1))
    refused = folder / "refused"
    if ranks.rank() == 0:
        refused.mkdir()
        (refused / "result.json").write_text("{}")
    tell(lambda: hf.fit("sage", make_graph(), hf.RandomNodes(2), options={"hidden": 8}, epochs=1, out=refused))
    assert issubclass(ToldElsewhere, HandfulError)
    return [words.replace(str(folder), "") for words in said]


@job
def talk(folder: Path) -> dict[str, Any]:
    """What ranks tell each other, in pieces of three bytes."""
    me, size = ranks.rank(), ranks.size()
    ranks.PIECE = 3
    sent = [torch.arange(2 * (me + to), dtype=torch.int32).view(-1, 2) + 100 * me for to in range(size)]
    half = torch.full((2, 3), float(me)).bfloat16()
    with ranks.alone():
        by_itself = (ranks.rank(), ranks.size(), ranks.gathered(me))
    return {
        "told": ranks.told({"rank": me, "none": None}),
        "tensors": ranks.told_tensors({"half": half, "empty": torch.zeros(0, 2), "one": torch.tensor(me)}),
        "gathered": ranks.gathered([me, "é"]),
        "summed": ranks.summed(1.0, me),
        "largest": ranks.largest(me, -me),
        "exchanged": ranks.exchanged(sent),
        "alone": by_itself,
    }
