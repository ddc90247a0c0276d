"""Fork, spawn, forkserver, the workers of a DataLoader, and many threads: no crash, no hang, no other result."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
import torch

import handful as hf
from faults.programs import HERE, finished
from handful.kernels.threads import get_threads, set_threads

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")


@pytest.mark.parametrize(
    "start",
    [
        pytest.param("fork", marks=needs_fork),
        *(pytest.param(how, marks=pytest.mark.slow) for how in ("spawn", "forkserver")),
    ],
)
def test_a_graph_in_use_survives_being_sent(start: str) -> None:
    if start == "forkserver" and sys.platform == "win32":
        pytest.skip("this system has no forkserver")
    out, _ = finished(HERE / "sending.py", start)
    assert out == "the same everywhere\n"


FORKED = """
import os, handful as hf, torch
from sending import a_run, ROWS
graph = hf.load(f"synthetic?nodes={ROWS}&degree=6&features=64&classes=3")
hf.set_threads(2)
before = a_run(graph)
child = os.fork()
if child == 0:
    import faulthandler; faulthandler.dump_traceback_later(100, exit=True)
    ran = a_run(graph)
    os._exit(0 if abs(ran[0] - before[0]) < 0.05 else 3)
assert os.waitpid(child, 0)[1] == 0
assert a_run(graph) == before
"""


@pytest.mark.slow
@needs_fork
def test_kernels_and_torch_run_in_a_forked_child() -> None:
    finished("-c", FORKED.replace("hf.set_threads", "from handful.kernels.threads import set_threads; set_threads"))


def test_threads_may_be_set_while_kernels_run() -> None:
    graph = hf.load("synthetic?nodes=30000&degree=6&features=1")
    before, done = get_threads(), Event()

    def edges(seed: int) -> list[int]:
        return [sample.layers[0].num_edges for sample in hf.RandomNodes(3).sample(graph, seed, 0)]

    def work(seed: int) -> bool:
        return all(edges(seed) == wanted[seed] for _ in iter(done.is_set, True))

    wanted = [edges(seed) for seed in range(8)]
    try:
        with ThreadPoolExecutor(8) as pool:
            same = pool.map(work, range(8))
            for count in range(200):
                set_threads(1 + count % 4)
            done.set()
            assert all(same)
    finally:
        done.set()
        set_threads(before)


def test_eight_threads_train_on_one_graph_as_one_does() -> None:
    graph = hf.load("synthetic?nodes=30000&degree=6&features=4&classes=3")
    sampler = hf.Neighbors(fanout=(3, 3), batch_size=2000)

    def train(seed: int) -> list[float]:
        model = models[seed]
        hf.fit(model, graph, sampler, epochs=1, seed=seed, evaluation="exact")
        return [float(p.detach().double().sum()) for p in model.parameters()]

    def make(seed: int) -> hf.SAGE:
        torch.manual_seed(seed)
        return hf.SAGE(graph.num_features, graph.num_outputs, hidden=4, layers=2, dropout=0.0)

    models = [make(seed) for seed in range(8)]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(train, range(8)))
    models = [make(seed) for seed in range(8)]
    for one, other in zip(together, map(train, range(8)), strict=True):
        assert one == pytest.approx(other, rel=1e-3, abs=1e-4)
