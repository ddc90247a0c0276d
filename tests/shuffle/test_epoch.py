"""The batches of the shuffle are byte for byte those that are made in memory, and its budget is kept."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import handful as hf
from graphs import make_graph
from handful.batch import Batch, make_batch
from handful.errors import HandfulError
from handful.samplers import Sampler
from handful.shuffle import epoch
from handful.shuffle.epoch import NEAR, Trim, fetch, fetch_rows, shuffle_epoch
from handful.shuffle.scratch import Budget, Scratch
from handful.trim import trim

AMPLE = 1 << 40


def to_depth(depth: int | None) -> Trim:
    """What trims to ``depth``, or not at all."""
    return (lambda sample: sample) if depth is None else partial(trim, depth=depth)


def in_memory(graph: hf.Graph, sampler: Sampler, depth: int | None) -> list[Batch]:
    return [make_batch(graph, to_depth(depth)(sample)) for sample in sampler.sample(graph, 3, 1)]


def bytes_of(tensor: Tensor) -> list[int]:
    return [] if tensor.numel() == 0 else tensor.contiguous().view(-1).view(torch.uint8).tolist()


def assert_same(ours: Any, theirs: Any) -> None:
    """Every field, to the byte: values, types and shapes."""
    for name in (field.name for field in fields(theirs)):
        a, b = getattr(ours, name), getattr(theirs, name)
        if isinstance(b, Tensor):
            assert (a.dtype, a.shape) == (b.dtype, b.shape), name
            assert bytes_of(a) == bytes_of(b), name
        elif name == "layers":
            for one, other in zip(a, b, strict=True):
                assert_same(one, other)
        else:
            assert a == b, name


@st.composite
def graphs(draw: st.DrawFn) -> hf.Graph:
    """Graphs of 2 to 30 nodes with self-loops and repeated edges: directed or not, weighted or not, of any type."""
    n = draw(st.integers(2, 30))
    node = st.integers(0, n - 1)
    pairs = draw(st.lists(st.tuples(node, node), max_size=90))
    role = np.array(draw(st.lists(st.sampled_from([0, 0, 1, 2]), min_size=n, max_size=n)))
    role[draw(node)] = 0
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    dtype = draw(st.sampled_from([torch.float32, torch.float16, torch.bfloat16]))
    weights = rng.random(len(pairs)).astype(np.float32) if draw(st.booleans()) else None
    labels = [rng.integers(0, 3, n), rng.random(n).astype(np.float32), rng.integers(0, 2, (n, 2)).astype(np.float32)]
    graph = hf.Graph.from_edge_index(
        np.array(pairs, np.int64).reshape(-1, 2).T,
        n,
        x=torch.from_numpy(rng.standard_normal((n, draw(st.integers(1, 5))))).to(dtype),
        y=labels[draw(st.integers(0, 2))],
        edge_weight=weights,
        train_mask=role == 0,
        val_mask=role == 1,
        test_mask=role == 2,
    )
    return graph.to_undirected() if draw(st.booleans()) else graph


@settings(max_examples=150)
@given(graphs(), st.data())
def test_batches_are_those_in_memory_to_the_byte(graph: hf.Graph, data: st.DataObject) -> None:
    parts = data.draw(st.integers(1, min(9, graph.num_nodes)))
    sampler = hf.RandomNodes(parts, drop_last=data.draw(st.booleans()))
    depth = data.draw(st.none() | st.integers(1, 3))
    spilled = data.draw(st.lists(st.integers(0, 4000), max_size=40))

    def make_room(budget: Budget, needed: int, scratch: Scratch, what: str) -> None:
        """As with too little memory: at any moment some of what waits goes to files."""
        if spilled:
            scratch.spill(spilled.pop())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Budget, "make_room", make_room)
        patch.setattr(epoch, "BLOCK", data.draw(st.sampled_from([1 << 12, 7])))
        patch.setattr(epoch, "ROWS", data.draw(st.sampled_from([1 << 25, 40])))
        patch.setattr(epoch, "LEAST_BLOCK", 1)
        patch.setattr(epoch, "LEAST_ROWS", 1)
        ours = list(shuffle_epoch(graph, sampler.deal(graph, 3, 1), AMPLE, trimmed=to_depth(depth)))
    for a, b in zip(ours, in_memory(graph, sampler, depth), strict=True):
        assert_same(a, b)


@pytest.mark.parametrize("depth", [None, 2])
@pytest.mark.parametrize(
    "sampler",
    [hf.RandomNodes(5, stratify=True), hf.RandomNodes(300), hf.Clusters(clusters=12, per_batch=5)],
    ids=["stratified", "many", "cluster"],
)
def test_every_partition_can_be_shuffled(sampler: Sampler, depth: int | None) -> None:
    graph = make_graph(n=900, weighted=True)
    ours = list(shuffle_epoch(graph, sampler.deal(graph, 3, 1), AMPLE, trimmed=to_depth(depth)))
    for a, b in zip(ours, in_memory(graph, sampler, depth), strict=True):
        assert_same(a, b)


def test_a_saved_graph_is_read_from_its_files(tmp_path: Path) -> None:
    graph = hf.load(hf.save(make_graph(n=3000, degree=9), tmp_path / "saved"))
    said: list[tuple[str, float]] = []
    sampler = hf.RandomNodes(4)
    deal = sampler.deal(graph, 3, 1)
    ours = list(shuffle_epoch(graph, deal, AMPLE, trimmed=to_depth(2), say=lambda *told: said.append(told)))
    for a, b in zip(ours, in_memory(graph, sampler, 2), strict=True):
        assert_same(a, b)
    assert [what for what, share in said if share == 1.0] == ["reading edges", "cutting parts", "reading features"]


def test_too_small_a_budget_names_what_would_do() -> None:
    graph = make_graph()
    batches = shuffle_epoch(graph, hf.RandomNodes(4).deal(graph, 0, 0), 3 << 30, step_bytes=lambda sample: 1 << 40)
    with pytest.raises(HandfulError, match=r"a training step on one part of 4 takes .*use at least \d+ parts, or mem"):
        next(batches)


def test_a_graph_elsewhere_is_refused() -> None:
    graph = make_graph()
    there = replace(graph, indptr=graph.indptr.to("meta"), checked=True)
    batches = shuffle_epoch(there, hf.RandomNodes(2).deal(graph, 0, 0), AMPLE)
    with pytest.raises(HandfulError, match="memory is that of the CPU"):
        next(batches)


CHILD = """
import json, resource, sys, threading, time
import handful as hf
from handful.budget import anonymous
folder, memory, limited = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "limited"
how = dict(options={"hidden": 32, "layers": 2, "norm": "ln"}, epochs=1)
hf.fit("sage", hf.load("synthetic?nodes=200&degree=4"), hf.RandomNodes(4), memory="64GiB", **how)  # compile
graph, held, peak, on = hf.load(folder), anonymous(), 0, True
def watch():
    global peak
    while on:
        peak = max(peak, anonymous())
        time.sleep(0.001)
if limited:
    status = open("/proc/self/status").read()
    data = 1024 * int(status.split("VmData:")[1].split()[0])
    resource.setrlimit(resource.RLIMIT_DATA, (data + memory + (64 << 20), resource.RLIM_INFINITY))
watcher = threading.Thread(target=watch)
watcher.start()
try:
    run = hf.fit("sage", graph, hf.RandomNodes(4), memory=held + memory, **how)
    print(json.dumps({"peak": peak - held, "loss": run.history[0]["loss"], "held": held}))
finally:
    on = False
    watcher.join()
"""


def child(folder: Path, memory: int, limited: bool) -> dict[str, float]:
    command = [sys.executable, "-c", CHILD, str(folder), str(memory), "limited" if limited else "free"]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="no RssAnon")
def test_the_budget_is_kept(tmp_path: Path) -> None:
    """A graph of 180 MB within 160 MB more than is held: by what the system says, and by a limit that it enforces."""
    folder = tmp_path / "graph"
    hf.save(hf.load("synthetic?nodes=300000&degree=20&train=0.01&val=0.001&features=256&half=true"), folder)
    seen = [child(folder, 160 << 20, limited) for limited in (False, True)]
    assert all(one["peak"] < 160 << 20 for one in seen), seen
    assert seen[0]["loss"] == seen[1]["loss"]


# -- reading ----------------------------------------------------------------------------------------------------------


def test_files_and_memory_can_be_fetched(tmp_path: Path) -> None:
    array = np.arange(100_000, dtype=np.int64).reshape(-1, 10)
    np.save(tmp_path / "a.npy", array)
    for x in (array, np.load(tmp_path / "a.npy", mmap_mode="c")):
        fetch(x, 10, 9_000)
        fetch(x, 5, 5)
        np.testing.assert_array_equal(x, array)


def test_near_rows_are_read_in_one_go(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[tuple[int, int]] = []
    monkeypatch.setattr(epoch, "fetch", lambda array, lo, hi: runs.append((lo, hi)))
    x, far = np.empty((100_000, 4), np.int16), NEAR // 8 + 1
    fetch_rows(x, np.array([0, 3, 3 + far, 4 + far, 4 + 3 * far]))
    assert runs == [(0, 4), (3 + far, 5 + far), (4 + 3 * far, 5 + 3 * far)]
    fetch_rows(x, np.empty(0, np.int64))
    assert len(runs) == 3
