"""Executors, which run jobs in processes on this machine or on the machines of a Ray cluster.

For each job, an executor starts a process of ``handful.studies.worker``. The process trains, and writes its results and
errors to the folder of the job. On a cluster, the folders, the data and the current directory must be on a file system
that all machines share, under the same path. Ray chooses the machine for a job, and restarts the job if the machine is
lost. A restarted job continues from its last checkpoint.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, Popen
from typing import Any

from filelock import FileLock, Timeout

from handful.errors import HandfulError, needing, require_name
from handful.kernels.threads import get_threads

EXECUTORS = ("local", "ray")
ERRORS = "stderr.txt"
DIVERGED = 3
"""The exit code of a run that diverged before its first evaluation. The code for other errors is 2."""
RETRIES = 3
"""The maximum number of times that Ray restarts a job whose machine was lost."""
LOST_SECONDS = 60.0
"""The maximum time that a restarted job waits for its earlier process to end, in seconds."""


def start(folder: Path, threads: int, cwd: str | None = None, env: dict[str, str] | None = None) -> Popen[bytes]:
    """Start a process on this machine for the job in ``folder``. The new process ends soon after the calling process
    ends.
    """
    ours = [str(folder), str(threads), str(os.getpid()), str(time.time())]
    command = [sys.executable, "-m", "handful.studies.worker", *ours]
    with (folder / ERRORS).open("w") as errors:
        # In its own session: Ctrl-C in the terminal reaches only the parent, which then ends its jobs.
        return Popen(command, cwd=cwd, env=env, stdout=DEVNULL, stderr=errors, start_new_session=True)


@dataclass
class Local:
    """Runs jobs as processes on this machine, at most ``workers`` at a time. These processes share the threads of the
    machine.
    """

    workers: int = 1

    def submit(self, folder: Path, jobs: int) -> Popen[bytes]:
        """Start the job in ``folder``. ``jobs`` is the total number of jobs."""
        return start(folder, max(1, get_threads() // min(self.workers, jobs)))


LOCAL = Local()
"""The executor that runs one job at a time."""


class Ray:
    """Runs jobs on a Ray cluster. If ``RAY_ADDRESS`` is set, it is the cluster at this address. Otherwise, it is a
    cluster that is running on this machine or, if there is none, a new cluster that has only this machine.

    A job uses as many CPUs as this process has threads, but no more than the largest machine has.
    """

    def __init__(self, workers: int | None = None) -> None:
        ray = _ray()
        if not ray.is_initialized():
            try:
                ray.init(log_to_driver=False, logging_level="error")
            except Exception as error:  # Ray raises errors of many kinds
                raise HandfulError(f"Ray cannot be reached: {' '.join(str(error).split())}; see RAY_ADDRESS") from None
        cpus = [int(node["Resources"].get("CPU", 0)) for node in ray.nodes() if node["Alive"]]
        if not any(cpus):
            raise HandfulError("the Ray cluster has no CPUs: start its nodes with --num-cpus")
        self._threads = min(get_threads(), max(cpus))
        self.workers = workers or sum(count // self._threads for count in cpus)
        self._run = ray.remote(num_cpus=self._threads, max_retries=RETRIES)(_on_a_node)

    def submit(self, folder: Path, jobs: int) -> RayJob:
        """Start the job in ``folder``. ``jobs`` is the total number of jobs."""
        ours = {name: value for name, value in os.environ.items() if name.startswith(("HANDFUL_", "PYTHONPATH"))}
        return RayJob(self._run.remote(str(folder.resolve()), self._threads, os.getcwd(), ours), folder / ERRORS)


def _on_a_node(folder: str, threads: int, cwd: str, env: dict[str, str]) -> int:
    """Run a job, and return its exit code. Ray calls this function on one of its machines."""
    for place in (cwd, folder):
        if not Path(place).is_dir():
            raise FileNotFoundError(f"{os.uname().nodename} has no {place}: all machines must share it")
    with suppress(Timeout), FileLock(Path(folder) / "lock").acquire(timeout=LOST_SECONDS):
        pass  # if another process holds the lock, the job reports this
    process = start(Path(folder), threads, cwd, {**os.environ, **env})
    try:
        while (code := process.poll()) is None:
            time.sleep(0.05)  # process.wait() would delay the exception with which Ray cancels the task
        return int(code)
    except BaseException:  # the task is cancelled: the job writes its checkpoint first
        process.terminate()
        process.wait()
        raise


class RayJob:
    """A ``Job`` that runs as a Ray task."""

    def __init__(self, reference: Any, errors: Path) -> None:
        self._reference, self._errors = reference, errors
        self._code: int | None = None

    def poll(self) -> int | None:
        """Return the exit code; ``None`` if the job has not ended."""
        return self.wait(timeout=0)

    def terminate(self, force: bool = False) -> None:
        """Tell the job to write its checkpoint and end."""
        with suppress(ValueError):  # the task has ended
            _ray().cancel(self._reference, force=force)

    def kill(self) -> None:
        """End the job at once."""
        self.terminate(force=True)

    def wait(self, timeout: float | None = None) -> int | None:
        """Wait until the job ends, and return its exit code; ``None`` if it has not ended after ``timeout`` seconds."""
        ray = _ray()
        if self._code is not None or not ray.wait([self._reference], timeout=timeout)[0]:
            return self._code
        try:
            self._code = int(ray.get(self._reference))
        except ray.exceptions.TaskCancelledError:
            self._code = -15
        except Exception as error:  # an error of Ray or of the machine
            with self._errors.open("a") as file:
                file.write(f"{str(error).strip().splitlines()[-1]}\n")
            self._code = 1
        return self._code


Executor = Local | Ray
Job = Popen[bytes] | RayJob


def make_executor(kind: str, workers: int | None = None) -> Executor:
    """Make an executor by name: ``local`` or ``ray``.

    Args:
        kind: the name.
        workers: the maximum number of parallel jobs; by default 1 on this machine, or the capacity of the cluster.

    Raises:
        HandfulError: the name is unknown, or Ray is not installed.
    """
    require_name("executor", kind, EXECUTORS)
    return Local(workers or 1) if kind == "local" else Ray(workers)


def _ray() -> Any:
    with needing("the executor ray needs Ray: pip install 'handful[ray]'"):
        import ray
    return ray
