"""The tuning protocol: a study for each sampling configuration, shared by processes, gone on with after a kill."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest

from graphs import make_graph
from handful.errors import RunError
from handful.samplers import RandomNodes, make_sampler
from handful.studies import presets
from handful.studies.tuning import Plan, _Reporter, _val, final_job, open_study, sampling_space, search


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    graph = make_graph(120)
    arrays = {name: getattr(graph, name).numpy() for name in ("x", "y", "train_mask", "val_mask", "test_mask")}
    np.savez(tmp_path / "g.npz", edge_index=graph.edge_index.numpy(), **arrays)
    return Plan(str(tmp_path / "g.npz"), "sage", {"hidden": 4, "layers": 1}, {"epochs": 2})


def url(tmp_path: Path, name: str = "tune.db") -> str:
    return f"sqlite:///{tmp_path / name}"


def trials_of(plan: Plan, storage: str) -> list[Any]:
    return open_study(plan, RandomNodes(2), storage).get_trials()


def test_trials_search_the_paper_s_space_and_the_best_by_validation_is_taken(plan: Plan, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    best = search(plan, RandomNodes(2), url(tmp_path), 3, report=lambda *args: seen.append(args))
    trials = trials_of(plan, url(tmp_path))
    assert len(trials) == best.trials == 3
    assert [done for _, done, _ in seen] == [0, 1, 2, 3]
    assert not trials[0].intermediate_values  # nothing is reported, and nothing pruned, unless it was asked for
    space = presets.training_space()
    for trial in trials:
        assert set(trial.params) == {"lr", "dropout", "weight_decay"}
        assert all(trial.params[name] in space[name] for name in space)
    assert best.val == max(trial.value for trial in trials)
    job = final_job(plan, best, (1, 2))
    assert job.settings == {"epochs": 2, "lr": best.parameters["lr"], "weight_decay": best.parameters["weight_decay"]}
    assert job.architecture == {"hidden": 4, "layers": 1, "dropout": best.parameters["dropout"]}
    assert (job.sampler, job.sampler_options["parts"], job.seeds) == ("rns", 2, (1, 2))


def test_a_search_goes_on_where_it_was_and_is_the_same_each_time(plan: Plan, tmp_path: Path) -> None:
    for trials in (1, 3, 3):
        search(plan, RandomNodes(2), url(tmp_path, "a.db"), trials)
    search(plan, RandomNodes(2), url(tmp_path, "b.db"), 3)
    first, second = ([(t.params, t.value) for t in trials_of(plan, url(tmp_path, f"{name}.db"))] for name in "ab")
    assert first == second
    assert len(first) == 3
    search(plan, RandomNodes(3), url(tmp_path, "a.db"), 1)  # another configuration is a study of its own
    assert len(trials_of(plan, url(tmp_path, "a.db"))) == 3
    assert len(optuna.get_all_study_summaries(url(tmp_path, "a.db"))) == 2


def test_trials_of_another_plan_are_not_mixed_in(plan: Plan, tmp_path: Path) -> None:
    search(plan, RandomNodes(2), url(tmp_path), 1)
    with pytest.raises(RunError, match="epochs"):
        search(replace(plan, settings={"epochs": 3}), RandomNodes(2), url(tmp_path), 1)
    with pytest.raises(RunError, match="cannot be opened"):
        open_study(plan, RandomNodes(2), "nonsense://here")


def test_a_run_that_diverges_has_the_worst_value(plan: Plan) -> None:
    graph = make_graph(120)
    wild = replace(plan, architecture={"hidden": 4, "layers": 2, "norm": "none"}, settings={"epochs": 4})
    assert _val(wild, graph, RandomNodes(2), {"lr": 1e30, "dropout": 0.0, "weight_decay": 0.0}, []) == 0.0


def test_pruning_stops_a_trial_that_falls_behind(plan: Plan) -> None:
    study = optuna.create_study(direction="maximize", pruner=optuna.pruners.MedianPruner(n_startup_trials=2))
    for _ in range(3):
        ahead = study.ask()
        for epoch in (1, 2):
            ahead.report(2.0, epoch)  # better than any accuracy
        study.tell(ahead, 2.0)
    parameters = {"lr": 0.01, "dropout": 0.0, "weight_decay": 0.0}
    with pytest.raises(optuna.TrialPruned):
        _val(plan, make_graph(120), RandomNodes(2), parameters, [_Reporter(study.ask())])


def test_search_spaces_are_the_paper_s() -> None:
    assert [options["parts"] for options in sampling_space("rns", 4)] == list(range(2, 11))
    assert sampling_space("full", 4) == [{}]
    assert sampling_space("ladies", 3)[0]["budget"] == [8192] * 3
    for name in ("full", "neighbor", "cluster", "saint", "ladies", "rns"):
        for options in sampling_space(name, 4):
            make_sampler(name, **options)


DIES = """
import os, sys
from handful.samplers import RandomNodes
from handful.studies import tuning
plan = tuning.Plan({graph!r}, "sage", {{"hidden": 4, "layers": 1}}, {{"epochs": 2}})
tuning._val = lambda *args: os._exit(9)
tuning.search(plan, RandomNodes(2), {storage!r}, 2)
"""


def test_a_killed_trial_is_buried_and_made_up_for(plan: Plan, tmp_path: Path) -> None:
    code = DIES.format(graph=plan.graph, storage=url(tmp_path))
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 9
    assert [t.state for t in trials_of(plan, url(tmp_path))] == [optuna.trial.TrialState.RUNNING]
    assert search(plan, RandomNodes(2), url(tmp_path), 2).trials == 2
    assert [t.state.name for t in trials_of(plan, url(tmp_path))] == ["FAIL", "COMPLETE", "COMPLETE"]


SHARES = """
import pathlib, sys, time
from handful.samplers import RandomNodes
from handful.studies import tuning
plan = tuning.Plan({graph!r}, "sage", {{"hidden": 4, "layers": 1}}, {{"epochs": 2}})
folder = pathlib.Path({folder!r})
(folder / f"ready-{{sys.argv[1]}}").touch()
while not (folder / "go").exists():
    time.sleep(0.001)
tuning.search(plan, RandomNodes(2), {storage!r}, {trials})
"""


def test_two_processes_share_one_study(plan: Plan, tmp_path: Path) -> None:
    trials = 10
    code = SHARES.format(graph=plan.graph, storage=url(tmp_path), folder=str(tmp_path), trials=trials)
    processes = [
        subprocess.Popen([sys.executable, "-c", code, str(i)], stderr=subprocess.PIPE, env=os.environ) for i in (0, 1)
    ]
    while not all((tmp_path / f"ready-{i}").exists() for i in (0, 1)):
        assert all(process.poll() is None for process in processes)
        time.sleep(0.01)
    (tmp_path / "go").touch()
    for process in processes:
        _, errors = process.communicate()
        assert process.returncode == 0, errors.decode()
    done = trials_of(plan, url(tmp_path))
    assert trials <= len(done) <= trials + 1
    assert {trial.state.name for trial in done} == {"COMPLETE"}
    assert {trial.user_attrs["process"][1] for trial in done} == {process.pid for process in processes}
    assert len({trial.number for trial in done}) == len(done)
