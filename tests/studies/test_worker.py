"""The process that runs one job."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from handful import Experiment, open_run
from handful.kernels.threads import get_threads
from handful.studies.worker import main
from handful.training.record import write_config
from studies.smoke import GRAPH

SMALL = Experiment(GRAPH, hidden=8, layers=1, epochs=2, seeds=(1,))


def test_it_runs_the_experiment_of_its_folder_with_the_threads_given(tmp_path: Path) -> None:
    write_config(tmp_path / "config.json", SMALL.to_json())
    main(tmp_path, 2)
    assert get_threads() == 2
    opened = open_run(tmp_path)
    assert opened.experiment == SMALL
    assert opened.result.test == SMALL.run().test


@pytest.mark.slow
def test_a_mistake_is_one_line_and_exit_2(tmp_path: Path) -> None:
    write_config(tmp_path / "config.json", SMALL.with_(graph="debain").to_json())
    command = [sys.executable, "-m", "handful.studies.worker", str(tmp_path), "1"]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ, check=False)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "did you mean debian" in line


PARENT = """
import os, subprocess, sys
worker = [sys.executable, "-m", "handful.studies.worker", sys.argv[1], "1", str(os.getpid())]
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
