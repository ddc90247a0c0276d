"""Jobs by an executor: processes of this machine, and a real Ray cluster of two nodes on it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from graphs import make_graph
from handful import Experiment, RandomNodes
from handful.errors import HandfulError
from handful.studies.executors import Local, Ray, make_executor
from handful.studies.jobs import run_jobs
from handful.studies.tuning import search, tune_samplers
from handful.training.record import RunFolder
from npz import write_npz


@pytest.fixture
def job(tmp_path: Path) -> Experiment:
    graph = write_npz(tmp_path / "g.npz", make_graph(120))
    return Experiment(graph, sampler=RandomNodes(2), hidden=4, layers=1, epochs=2, seeds=(42, 1))


def test_an_executor_by_name() -> None:
    assert make_executor("local").workers == 1
    assert make_executor("local", 3).workers == 3
    with pytest.raises(HandfulError, match="executor"):
        make_executor("cluster")


@pytest.mark.slow
def test_trials_side_by_side_are_those_of_the_space_and_leave_no_folders(job: Experiment, tmp_path: Path) -> None:
    storage, out = f"sqlite:///{tmp_path / 'tune.db'}", tmp_path / "trials"
    best = search(job, storage, 3, executor=Local(2), out=out)
    assert best.trials == 3
    assert best.val == job.with_(**best.parameters).fit(job.load(42), 42).val
    assert list(out.iterdir()) == []
    assert search(job, storage, 3, executor=Local(2), out=out) == best  # it has its trials


@pytest.mark.slow
def test_a_trial_that_fails_is_told_and_leaves_no_folder(job: Experiment, tmp_path: Path) -> None:
    (tmp_path / "trials").mkdir()
    bad = job.with_(split="random")
    Path(bad.graph).rename(tmp_path / "gone.npz")
    graph = write_npz(tmp_path / "g.npz", make_graph(120))
    storage = f"sqlite:///{tmp_path / 'tune.db'}"

    class Loses(Local):
        def submit(self, folder: Path, jobs: int) -> Any:
            Path(graph).unlink(missing_ok=True)
            return super().submit(folder, jobs)

    with pytest.raises(HandfulError, match=r"a trial of rns\(parts=2\) failed: .*g\.npz"):
        search(job, storage, 2, executor=Loses(1), out=tmp_path / "trials")
    assert list((tmp_path / "trials").iterdir()) == []


# -- Ray ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    made.add_node(num_cpus=1)
    os.environ["RAY_ADDRESS"] = made.address
    ray.init(address=made.address, log_to_driver=False, logging_level="error")
    try:
        yield made
    finally:
        ray.shutdown()
        made.shutdown()
        del os.environ["RAY_ADDRESS"]


@pytest.mark.slow
def test_jobs_on_two_nodes_end_as_they_do_here(cluster: Any, job: Experiment, tmp_path: Path) -> None:
    executor = Ray()
    assert executor.workers == 2
    jobs = {"two": job, "three": job.with_(sampler=RandomNodes(3)), "bad": job.with_(graph=str(tmp_path / "no.npz"))}
    two, three, bad = run_jobs(jobs, tmp_path / "ray", executor).values()
    here = list(run_jobs({name: jobs[name] for name in ("two", "three")}, tmp_path / "here").values())
    for there, own in zip((two, three), here, strict=True):
        assert there.error is None
        assert there.summary is not None
        assert own.summary is not None
        assert there.seeds("test") == own.seeds("test")
    assert bad.summary is None
    assert "no.npz" in str(bad.error)

    found = tune_samplers([job], f"sqlite:///{tmp_path / 'tune.db'}", tmp_path / "tune", 2, executor=executor)
    assert found.payload["final"][0]["trials"] == 2


@pytest.mark.slow
def test_a_cancelled_job_keeps_its_checkpoint_and_a_lost_node_is_made_good(
    cluster: Any, job: Experiment, tmp_path: Path
) -> None:
    long = job.with_(seeds=(1,), epochs=3000, evaluate_every=1, checkpoint_seconds=0.0)
    folder = tmp_path / "out" / "long"

    class Stopped(Exception):
        pass

    def stop_soon(name: str, epochs: int, word: str) -> None:
        if epochs >= 20:
            raise Stopped

    with pytest.raises(Stopped):
        run_jobs({"long": long}, tmp_path / "out", Ray(), stop_soon)
    run = RunFolder(folder / "seed-1")
    assert run.checkpoint.exists()
    before = [line["loss"] for line in run.lines()]
    time.sleep(1)
    assert [line["loss"] for line in run.lines()] == before  # nobody works there any more

    # The node is lost while its job runs: Ray starts the job again on another, where it goes on.
    lost = cluster.add_node(num_cpus=2, resources={"extra": 1})
    cluster.wait_for_nodes()
    executor = Ray()
    executor._run = executor._run.options(resources={"extra": 0.1})
    removed = False

    def lose_node(name: str, epochs: int, word: str) -> None:
        nonlocal removed
        if len(before) < epochs < long.epochs and not removed:
            removed = True
            cluster.remove_node(lost)
            cluster.add_node(num_cpus=2, resources={"extra": 1})

    outcome = run_jobs({"long": long}, tmp_path / "out", executor, lose_node)["long"]
    assert removed, outcome
    assert outcome.error is None
    losses = [line["loss"] for line in run.lines()]
    assert losses[: len(before)] == before
    assert losses == [line["loss"] for line in long.run().runs[0].history]
