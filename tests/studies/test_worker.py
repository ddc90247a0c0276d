"""The process that runs one job."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import torch

import handful as hf
from handful import Experiment, load, open_run
from handful.kernels.threads import get_threads
from handful.samplers import make_sampler
from handful.studies.worker import WarmUp, main, warm_up
from handful.training.callbacks import Callback
from handful.training.loop import Loop
from handful.training.record import read_json, write_config
from studies.smoke import GRAPH

SMALL = Experiment(GRAPH, hidden=8, layers=1, epochs=2, seeds=(1,))


def test_it_runs_the_experiment_of_its_folder_with_the_threads_given(tmp_path: Path) -> None:
    write_config(tmp_path / "config.json", SMALL.to_json())
    main(tmp_path, 2, time.time())
    assert get_threads() == 2
    opened = open_run(tmp_path)
    assert opened.experiment == SMALL
    assert opened.result.test == SMALL.run().test


def test_the_seconds_to_the_first_epoch_are_kept_of_the_first_process(tmp_path: Path) -> None:
    write_config(tmp_path / "config.json", SMALL.to_json())
    main(tmp_path, 2, time.time() - 100)
    assert 100 < read_json(tmp_path / "startup.json")["seconds"] < 1000
    (tmp_path / "summary.json").unlink()
    (tmp_path / "seed-1" / "result.json").unlink()
    main(tmp_path, 2, time.time() - 5000)
    assert read_json(tmp_path / "startup.json")["seconds"] < 1000


@pytest.mark.parametrize(
    "name",
    [
        "full",
        "neighbor",
        "cluster",
        pytest.param("saint", marks=pytest.mark.slow),
        pytest.param("ladies", marks=pytest.mark.slow),
        "rns",
    ],
)
def test_a_warm_up_trains_and_evaluates_like_the_run_on_a_few_nodes(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HANDFUL_HOME", str(tmp_path))
    graph = load(GRAPH)
    graph = graph.replace(edge_weight=torch.ones(graph.num_edges), x=graph.x.half())
    seen: list[tuple[Experiment, hf.Graph]] = []
    fit = Experiment.fit
    monkeypatch.setattr(Experiment, "fit", lambda own, data, seed: seen.append((own, data)) or fit(own, data, seed))
    state = torch.random.get_rng_state()
    warm_up(SMALL.with_(sampler=make_sampler(name), metric="macro_f1", epochs=50), graph)
    ((own, few),) = seen
    assert (own.settings.epochs, own.options, own.sampler.name) == (1, SMALL.options, name.replace("cluster", "rns"))
    assert few.num_nodes < graph.num_nodes
    assert (few.x.dtype, few.num_features, few.undirected) == (torch.float16, graph.num_features, graph.undirected)
    assert few.edge_weight is not None
    assert torch.equal(torch.random.get_rng_state(), state)
    assert not list(tmp_path.iterdir())  # no clusters are kept


def test_a_process_warms_up_once_and_before_the_clock_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    warmed: list[str] = []
    monkeypatch.setattr("handful.studies.worker.warm_up", lambda experiment, graph: warmed.append(graph.name))
    told: list[float] = []

    class Clock(Callback):
        def on_start(self, loop: Loop) -> None:
            told.append(loop.seconds)

    SMALL.with_(seeds=(1, 2), epochs=1).run(callbacks=[WarmUp(SMALL, tmp_path / "startup.json", 0.0), Clock()])
    assert len(warmed) == 1
    assert told == [0.0, 0.0]


@pytest.mark.slow
def test_a_mistake_is_one_line_and_exit_2(tmp_path: Path) -> None:
    write_config(tmp_path / "config.json", SMALL.with_(graph="debain").to_json())
    command = [sys.executable, "-m", "handful.studies.worker", str(tmp_path), "1", str(os.getpid()), "0"]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ, check=False)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "did you mean debian" in line


PARENT = """
import os, subprocess, sys
worker = [sys.executable, "-m", "handful.studies.worker", sys.argv[1], "1", str(os.getpid()), "0"]
print(subprocess.Popen(worker).pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.slow
def test_it_ends_with_the_process_that_waits_for_it(tmp_path: Path) -> None:
    write_config(tmp_path / "config.json", SMALL.with_(epochs=10**6).to_json())
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    worker = psutil.Process(int(parent.stdout.readline()))
    metrics = tmp_path / "seed-1" / "metrics.jsonl"
    while not metrics.exists():
        assert worker.is_running()
        time.sleep(0.05)
    parent.kill()
    parent.communicate()
    deadline = time.monotonic() + 30
    while worker.is_running() and worker.status() != psutil.STATUS_ZOMBIE:
        if time.monotonic() > deadline:
            worker.kill()
            pytest.fail("the worker outlives its parent")
        time.sleep(0.05)
