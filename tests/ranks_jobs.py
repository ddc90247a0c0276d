"""What runs on several ranks in the tests. Most of it runs in one process too, which is what it is held against."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import handful as hf
from graphs import make_graph
from handful import ranks
from handful.batch import batch_checksum
from handful.errors import HandfulError, ToldElsewhere
from handful.shuffle.over_ranks import shard_batches
from handful.shuffle.shards import ShardedGraph, shard
from handful.training.inference import infer
from handful.trim import trim

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
    "mean field": {"parts": 5, "parts_per_step": 2, "norm": "bn", "first_hop": "exact", "mean_field": 1.0},
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


def prepare(folder: Path, size: int) -> None:
    """What the jobs find: a run that was broken off after its second epoch, and graphs in shards."""
    for name, graph in sharded_graphs().items():
        shard(graph, folder / "shards" / name, size)
    for name in ("cut short", "of another graph", "missing", "too many", "of another version"):
        shard(make_graph(60), folder / "bad" / name, size + (name == "too many"))
    last = f"shard-{size - 1}"
    with (folder / "bad" / "cut short" / last / "x.npy").open("r+b") as file:
        file.truncate(100)
    shutil.rmtree(folder / "bad" / "missing" / last)
    shutil.rmtree(folder / "bad" / "of another graph" / last)
    shard(make_graph(60, seed=1), folder / "other", size)
    shutil.copytree(folder / "other" / last, folder / "bad" / "of another graph" / last)
    header = folder / "bad" / "of another version" / last / "graph.json"
    header.write_text(header.read_text().replace('"version": 1', '"version": 99'))
    begun_run(folder)


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
        out[name] = infer(model, graph, chunk=7, shared=True)
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
    whole, ranks.PIECE = ranks.PIECE, 3
    sent = [torch.arange(2 * (me + to), dtype=torch.int32).view(-1, 2) + 100 * me for to in range(size)]
    half = torch.full((2, 3), float(me)).bfloat16()
    found = {
        "told": ranks.broadcast({"rank": me, "none": None}),
        "tensors": ranks.broadcast_tensors({"half": half, "empty": torch.zeros(0, 2), "one": torch.tensor(me)}),
        "gathered": ranks.gather([me, "é"]),
        "summed": ranks.add_up(1.0, me),
        "largest": ranks.largest(me, -me),
        "exchanged": ranks.exchange(sent),
    }
    ranks.PIECE = whole
    return found


# -- shards -----------------------------------------------------------------------------------------------------------


def sharded_graphs() -> dict[str, hf.Graph]:
    """Directed and not, weighted and not, half precision, with and without self-loops, tiny."""
    plain = make_graph(150)
    loops = torch.cat([plain.edge_index, plain.nodes[::3].repeat(2, 1)], 1)
    fields = {name: getattr(plain, name) for name in ("x", "y", "train_mask", "val_mask", "test_mask")}
    return {
        "plain": plain,
        "weighted": make_graph(120, undirected=False, weighted=True),
        "half": plain.replace(x=plain.x.bfloat16()),
        "loops": hf.Graph.from_edge_index(loops, **fields),
        "few": few_targets(),
        "tiny": make_graph(7, degree=2, classes=2),
        "numbers": plain.replace(task="regression", y=plain.y.float() + 0.5),
    }


SAMPLERS = {
    "rns": hf.RandomNodes(3),
    "one part": hf.RandomNodes(1),
    "many": hf.RandomNodes(7),
    "drop_last": hf.RandomNodes(4, drop_last=True),
    "stratified": hf.RandomNodes(2, stratify=True),
}


def epochs() -> Iterator[tuple[str, str, int, int, int | None]]:
    """Graph, sampler, epoch, batches a step and depth of trimming, each of them with most of the others."""
    k = 0
    for graph in sharded_graphs():
        for sampler in SAMPLERS:
            if not (graph == "numbers" and sampler == "stratified"):
                yield graph, sampler, k % 3, (1, 2, 3, 5)[k % 4], (None, 1, 2)[k % 3]
            k += 1


@job
def batches(folder: Path) -> dict[str, list[str]]:
    """Checksums of the batches that this rank owns, in the places of all; in one process, those of all."""
    found = {}
    opened = {
        name: graph if ranks.size() == 1 else hf.load(folder / "shards" / name)
        for name, graph in sharded_graphs().items()
    }
    for name, sampler, epoch, per_step, depth in epochs():
        graph, source = opened[name], SAMPLERS[sampler]
        if isinstance(graph, ShardedGraph):
            owner = lambda index, k=per_step: ranks.owner(index, k, ranks.size())  # noqa: E731
            trimmed = (lambda sample: sample) if depth is None else partial(trim, depth=depth)
            made = list(shard_batches(graph, source, 5, epoch, owner, trimmed))
        else:
            samples = (s if depth is None else trim(s, depth) for s in source.sample(graph, 5, epoch))
            made = [hf.make_batch(graph, sample) for sample in samples]
        found[f"{name}, {sampler}"] = ["" if batch is None else batch_checksum(batch) for batch in made]
    return found


@job
def sharded(folder: Path) -> dict[str, Any]:
    """Runs on graphs in shards; in one process, on the whole graphs."""
    found = {}
    graphs = sharded_graphs()
    for name, model in (("plain", "gcn"), ("weighted", "sage"), ("loops", "gat"), ("numbers", "graphland-sage")):
        graph = graphs[name] if ranks.size() == 1 else hf.load(folder / "shards" / name)
        options = {"hidden": 8, "dropout": 0.3} | ({} if model == "graphland-sage" else {"layers": 2, "norm": "ln"})
        how = {"epochs": 3, "lr": 0.05, "optimizer": "sgd", "parts_per_step": 3}
        if model in ("gcn", "sage"):
            how |= {"first_hop": "exact", "mean_field": 1.0}
        checksums = hf.training.callbacks.Checksums()
        run = hf.fit(model, graph, hf.RandomNodes(4), options=options, seed=7, callbacks=[checksums], **how)
        found[model] = {**outcome(run), "checksums": checksums.found}
        assert run.model is not None
        logits = infer(run.model, graph, chunk=11)
        lo, hi = (graph.begin, graph.begin + len(logits)) if isinstance(graph, ShardedGraph) else (0, len(logits))
        found[model] |= {"logits": logits, "rows": [lo, hi], "identity": graph.identity()}
    return found


@job
def bad_shards(folder: Path) -> dict[str, str]:
    """What is said of shards that do not fit, and of what cannot be done with those that do."""
    said = {}

    def tell(name: str, fail: Callable[[], Any]) -> None:
        try:
            fail()
            said[name] = ""
        except HandfulError as error:
            said[name] = f"{type(error).__name__}: {error}".replace(str(folder), "")

    for path in sorted((folder / "bad").iterdir()):
        tell(path.name, lambda path=path: hf.load(path))
    graph = hf.load(folder / "shards" / "plain")
    small = {"options": {"hidden": 8, "layers": 2}, "epochs": 1}
    tell("sampler", lambda: hf.fit("sage", graph, hf.Neighbors(), **small))
    tell("model", lambda: hf.fit("sgformer", graph, hf.RandomNodes(2), options={"hidden": 8}, epochs=1))
    tell("evaluation", lambda: hf.fit("sage", graph, hf.RandomNodes(2), evaluation="sampled", **small))
    tell("split", lambda: hf.load(folder / "shards" / "plain", split="random:60/20/20"))
    tell("device", lambda: graph.to("meta"))
    tell("edges", lambda: graph.edge_index)
    return said
