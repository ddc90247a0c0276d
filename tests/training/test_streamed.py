"""Exact inference within a budget: it is that in memory, keeps to the budget, and goes on after a kill."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import handful as hf
from faults.programs import finished, start
from graphs import make_graph
from handful.adjacency import Adjacency
from handful.errors import HandfulError
from handful.training.cost import LiveBytes
from handful.training.streamed import Blocked, OnDisk, forget, infer_within, job_name, least_room

MODELS = [
    ("gcn", {}),
    ("sage", {}),
    ("sage", {"self_loops": True, "input_projection": True}),
    ("gat", {"heads": 2}),
    ("gat", {"output_projection": True, "norm": "ln", "residual": False}),
    ("sgformer", {"gnn_layers": 2}),
    ("graphland-sage", {}),
]


def a_graph(n: int, edges: int, seed: int, weighted: bool, undirected: bool, dtype: torch.dtype) -> hf.Graph:
    rng = np.random.default_rng(seed)
    given = {"edge_weight": rng.random(edges).astype(np.float32)} if weighted else {}
    x = torch.from_numpy(rng.normal(size=(n, 5)).astype(np.float32)).to(dtype)
    graph = hf.Graph.from_edge_index(rng.integers(0, n, (2, edges)), n, x=x, y=rng.integers(0, 3, n), **given)
    return graph.to_undirected() if undirected else graph


@pytest.mark.parametrize("name", ["gcn", "sage"])
def test_features_of_two_bytes_are_never_widened_as_a_whole(name: str, tmp_path: Path) -> None:
    graph = hf.load("synthetic?nodes=20000&degree=4&features=64&half=true")
    model = hf.make_model(name, 64, graph.num_outputs, hidden=8, layers=2, norm="ln").eval()
    with torch.no_grad(), LiveBytes() as counted:
        infer_within(model, graph, least_room(model, graph), tmp_path)
    assert counted.peak < 4 * graph.num_nodes * 64


@pytest.mark.parametrize(("name", "options"), MODELS, ids=str)
@given(
    st.integers(1, 60), st.integers(0, 150), st.integers(0, 2**32 - 1), st.booleans(), st.booleans(),
    st.sampled_from([torch.float32, torch.float16, torch.bfloat16]), st.sampled_from([10_000, 30_000, 1 << 24]),
)  # fmt: skip
@settings(max_examples=12)
def test_it_is_inference_in_memory(
    tmp_path_factory: pytest.TempPathFactory,
    name: str,
    options: dict[str, object],
    n: int,
    edges: int,
    seed: int,
    weighted: bool,
    undirected: bool,
    dtype: torch.dtype,
    room: int,
) -> None:
    graph = a_graph(n, edges, seed, weighted, undirected, dtype)
    torch.manual_seed(seed)
    model = hf.make_model(name, 5, 3, hidden=8, layers=2, **options).eval()
    folder = tmp_path_factory.mktemp("passes")
    with torch.no_grad():
        found = infer_within(model, graph, room + 100 * edges, folder)  # one node may have all edges
    torch.testing.assert_close(found, hf.infer(model, graph), rtol=1e-4, atol=1e-5)
    assert len(list(folder.glob("pass-*.bin"))) == 1


@pytest.mark.parametrize("weighted", [False, True])
def test_products_by_blocks_are_those_of_the_adjacency(weighted: bool) -> None:
    graph = a_graph(50, 200, 1, weighted, False, torch.float32)
    assert graph.x is not None
    edges = graph.indptr, graph.indices, 50, graph.edge_weight
    plain, blocked = Adjacency(*edges), Blocked(*edges, shift=3)
    for lo, hi in ((0, 50), (0, 20), (13, 14), (20, 50)):
        one, other = plain.rows(lo, hi), blocked.rows(lo, hi)
        for product in ("mean", "gcn", "mean_with_loops", "matmul", "own"):
            torch.testing.assert_close(getattr(other, product)(graph.x), getattr(one, product)(graph.x))
        base = torch.ones(hi - lo, 5)
        torch.testing.assert_close(other.mean(graph.x, base=base), one.mean(graph.x, base=base))


def test_within_memory_and_in_the_unit_of_the_labels() -> None:
    graph = make_graph(200)
    model = hf.make_model("sage", graph.num_features, graph.num_outputs, hidden=8, layers=2)
    model.units = ([3.0], [2.0])
    found = hf.infer(model.train(), graph, memory="8GiB")
    torch.testing.assert_close(found, hf.infer(model, graph), rtol=1e-4, atol=1e-5)
    assert model.training


def test_what_cannot_be_done_is_refused(tmp_path: Path) -> None:
    from torch_geometric.nn import GraphSAGE

    graph = make_graph(60)
    model = hf.make_model("sage", graph.num_features, graph.num_outputs, hidden=8, layers=2)
    with pytest.raises(HandfulError, match="layers of a GraphSAGE cannot be seen"):
        hf.infer(GraphSAGE(graph.num_features, 8, 2), graph, memory="8GiB")
    with pytest.raises(HandfulError, match="operator of sampler 'ladies' is made in memory"):
        hf.infer(model, graph, sampler=hf.Ladies((4, 4)), memory="8GiB")
    with pytest.raises(HandfulError, match=r"inference on .* needs .* that this process holds.*give at least"):
        hf.infer(model, graph, memory="1MiB")
    hub = hf.Graph.from_edge_index(np.stack([np.arange(3000), np.zeros(3000, int)]), 3000, x=torch.zeros(3000, 4))
    small = hf.make_model("sage", 4, 2, hidden=4, layers=1).eval()
    with pytest.raises(HandfulError, match=r"the edges of node 0 alone take .*: give .* more memory"):
        infer_within(small, hub, 4 * 3000 + 10_000, tmp_path)


def test_a_pass_that_was_broken_off_is_gone_on_with(tmp_path: Path) -> None:
    """Every chunk is made once, those of before the break not again; files that are not needed any more are gone."""
    made: list[tuple[int, int]] = []

    def through(folder: Path, stop: int) -> torch.Tensor:
        chunks = OnDisk(folder, 2 * 3 * (4 * 6 * 2 + 64), 2, 8)
        h = torch.arange(20.0).reshape(10, 2)
        for which in range(4):

            def make(lo: int, hi: int, which: int = which, h: torch.Tensor = h) -> torch.Tensor:
                if len(made) == stop:
                    raise KeyboardInterrupt
                made.append((which, lo))
                return 2 * h[lo:hi] + 1

            h = chunks.collect(make, chunks.of_rows(10))
            del make
        chunks.drop_spent()
        return h

    expected = through(tmp_path / "whole", -1) if (tmp_path / "whole").mkdir() is None else None
    every, made[:] = list(made), []
    (tmp_path / "broken").mkdir()
    for stop in (0, 2, 3, 7, 9, 14, -1):
        try:
            found = through(tmp_path / "broken", stop)
        except KeyboardInterrupt:
            state = tmp_path / "broken" / "state.json"
            if state.exists():  # what was made since the last record is made again
                done = json.loads(state.read_text())["passes"]
                made[:] = [(which, lo) for which, lo in made if which < len(done) and lo < done[which]["done"]]
            else:
                made.clear()
    assert made == every
    assert expected is not None
    assert torch.equal(found, expected)
    assert [path.name for path in (tmp_path / "broken").glob("*.bin")] == ["pass-3.bin"]


def test_files_of_another_job_or_that_changed_are_refused(tmp_path: Path) -> None:
    graph = make_graph(80)
    model = hf.make_model("gcn", graph.num_features, graph.num_outputs, hidden=8, layers=2).eval()
    with torch.no_grad():
        infer_within(model, graph, 1 << 22, tmp_path)
    other = make_graph(70)
    with pytest.raises(HandfulError, match="is of another job"), torch.no_grad():
        infer_within(model, other, 1 << 22, tmp_path)
    (last,) = tmp_path.glob("pass-*.bin")
    os.truncate(last, 10)
    with pytest.raises(HandfulError, match="is cut short"), torch.no_grad():
        infer_within(model, graph, 1 << 22, tmp_path)
    text = (tmp_path / "state.json").read_text()
    (tmp_path / "state.json").write_text(text.replace('"count": 80', '"count": 81'))
    with pytest.raises(HandfulError, match=r"state.json cannot be read .*begin again"), torch.no_grad():
        infer_within(model, graph, 1 << 22, tmp_path)


def test_a_job_has_the_name_of_its_weights_and_graph() -> None:
    graph, other = make_graph(80), make_graph(81)
    models = [hf.make_model("gcn", graph.num_features, graph.num_outputs, hidden=8, layers=2) for _ in range(2)]
    assert graph.x is not None
    names = {
        job_name(models[0], graph),
        job_name(models[1], graph),
        job_name(models[0], other),
        job_name(models[0], graph.replace(x=graph.x + 1)),
    }
    assert len(names) == 4
    assert job_name(models[0], graph) in names


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="limits of this kind are of POSIX")
def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    code = """
import resource, signal, sys, torch
import handful as hf
from pathlib import Path
from handful.training.streamed import infer_within
graph = hf.load("synthetic?nodes=5000&degree=4&features=8")
model = hf.SAGE(8, 10, hidden=8, layers=2).eval()
torch.set_grad_enabled(False)
infer_within(model, graph, 1 << 22, Path(sys.argv[2]))  # compile first: compiled kernels are files, too
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, resource.RLIM_INFINITY))
try:
    infer_within(model, graph, 1 << 22, Path(sys.argv[1]))
except hf.HandfulError as error:
    print(error)
"""
    full, free = tmp_path / "full", tmp_path / "free"
    full.mkdir()
    free.mkdir()
    out, _ = finished("-c", code, full, free, timeout=300)
    assert "of a layer's output could not be written to" in out
    assert out.endswith("make room there, or use another place\n")


WATCHED = """
import sys, threading, time, torch
import handful as hf
from handful.budget import anonymous
graph = hf.load(sys.argv[1])
model = hf.make_model(sys.argv[2], graph.num_features, graph.num_outputs, hidden=64, layers=2)
hf.infer(model, hf.load(sys.argv[3]), memory="8GiB")  # compile first, for arrays of the same types
held, peak, on = anonymous(), [0], True
def watch():
    while on:
        peak[0] = max(peak[0], anonymous())
        time.sleep(0.01)
watcher = threading.Thread(target=watch)
watcher.start()
budget = held + (48 << 20)
found = hf.infer(model, graph, memory=budget)
on = False
watcher.join()
print(budget - peak[0], float((found - hf.infer(model, graph)).abs().max()))
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell")
@pytest.mark.parametrize("name", ["gcn", "sage", "gat", "sgformer", "graphland-sage"])
def test_the_budget_is_kept(tmp_path: Path, name: str) -> None:
    """What a layer puts out takes 77 MB, and 48 MiB may be held beside what Python and its libraries take."""
    large, small = tmp_path / "large", tmp_path / "small"
    for folder, nodes in ((large, 300_000), (small, 2000)):
        hf.save(hf.load(f"synthetic?nodes={nodes}&degree=6&features=64&half=1"), folder)
    spare, apart = map(float, finished("-c", WATCHED, large, name, small, timeout=300)[0].split())
    assert spare >= 0
    assert apart < 1e-3


KILLED = """
import sys, time, torch
from pathlib import Path
import handful as hf
from handful.training import streamed
from handful.training.record import hold
streamed.RECORD_SECONDS = 0.0
graph = hf.load("synthetic?nodes=3000&degree=6&features=16")
torch.manual_seed(0)
model = hf.SAGE(16, 10, hidden=16, layers=3).eval()
chunks = []
def told(which, done, count):
    chunks.append(which)
    if sys.argv[2] == "slow":
        print(which, done, flush=True)
        time.sleep(0.02)
with torch.no_grad(), hold(Path(sys.argv[1]) / streamed.job_name(model, graph)) as folder:
    found = streamed.infer_within(model, graph, 300_000, folder, True, told)
torch.save(found.clone(), sys.argv[3])
print(len(chunks))
"""


@pytest.mark.slow
def test_kill_in_the_middle_then_go_on(tmp_path: Path) -> None:
    all_chunks, _ = finished("-c", KILLED, tmp_path / "a", "fast", tmp_path / "whole.pt", timeout=300)
    process = start("-c", KILLED, tmp_path / "b", "slow", tmp_path / "never.pt")
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("1 ") and int(line.split()[1]) > 1000:
            break
    process.send_signal(signal.SIGKILL)
    process.communicate()
    rest, _ = finished("-c", KILLED, tmp_path / "b", "fast", tmp_path / "again.pt", timeout=300)
    assert int(rest) < int(all_chunks)
    whole = torch.load(tmp_path / "whole.pt")
    assert torch.equal(torch.load(tmp_path / "again.pt"), whole)
    forget(tmp_path / "b")
    assert not (tmp_path / "b").exists()
    assert not (tmp_path / "never.pt").exists()
