"""The tuning protocol: a study for each sampling configuration, shared by processes, gone on with after a kill."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest

from graphs import make_graph
from handful import Experiment, RandomNodes, open_run
from handful.errors import HandfulError, RunError
from handful.studies import presets, tuning
from handful.studies.tuning import (
    _falls_behind,
    comparable,
    open_study,
    paper_space,
    sampling_space,
    tune_samplers,
)
from handful.training.metrics import METRICS
from handful.training.record import RunFolder
from npz import write_npz
from studies.smoke import Here, check

search = partial(tuning.search, executor=Here())


@pytest.fixture
def asked(tmp_path: Path) -> Experiment:
    graph = write_npz(tmp_path / "g.npz", make_graph(120))
    return Experiment(graph, sampler=RandomNodes(2), hidden=4, layers=1, epochs=2, seeds=(42, 1))


def url(tmp_path: Path, name: str = "tune.db") -> str:
    return f"sqlite:///{tmp_path / name}"


def trials_of(experiment: Experiment, storage: str) -> list[Any]:
    return open_study(experiment, experiment.load(experiment.seeds[0]), storage).get_trials()


def test_trials_search_the_paper_s_space_and_the_best_by_validation_is_taken(asked: Experiment, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    best = search(asked, url(tmp_path), 3, report=lambda *args: seen.append(args))
    trials = trials_of(asked, url(tmp_path))
    assert len(trials) == best.trials == 3
    assert [done for _, done, _ in seen] == [0, 1, 2, 3]
    assert not trials[0].intermediate_values  # nothing is reported, and nothing pruned, unless it was asked for
    space = presets.training_space()
    for trial in trials:
        assert set(trial.params) == {"lr", "dropout", "weight_decay"}
        assert all(trial.params[name] in space[name] for name in space)
    assert best.val == max(trial.value for trial in trials)
    assert best.experiment == asked.with_(**best.parameters)
    assert best.to_json() == {
        "sampler": "rns",
        "options": asked.sampler.options(),
        "trials": 3,
        "val": best.val,
        **best.parameters,
    }
    own = best.experiment.with_(seeds=(42,)).run()  # a trial is a run with the first seed
    assert own.val == best.val


@pytest.mark.slow
def test_a_search_goes_on_where_it_was_and_is_the_same_each_time(asked: Experiment, tmp_path: Path) -> None:
    for trials in (1, 3, 3):
        search(asked, url(tmp_path, "a.db"), trials)
    search(asked, url(tmp_path, "b.db"), 3)
    first, second = ([(t.params, t.value) for t in trials_of(asked, url(tmp_path, f"{name}.db"))] for name in "ab")
    assert first == second
    assert len(first) == 3
    search(asked.with_(sampler=RandomNodes(3)), url(tmp_path, "a.db"), 1)  # another is a study of its own
    assert len(trials_of(asked, url(tmp_path, "a.db"))) == 3
    assert len(optuna.get_all_study_summaries(url(tmp_path, "a.db"))) == 2


def test_trials_of_another_experiment_are_not_mixed_in(asked: Experiment, tmp_path: Path) -> None:
    search(asked, url(tmp_path), 1)
    for changes, words in (
        ({"epochs": 3}, "with epochs 2, not 3"),
        ({"hidden": 5}, "with hidden 4, not 5"),
        ({"norm": "ln"}, "with norm bn, not ln"),
        ({"seeds": (1, 42)}, r"with seeds \[42\], not \[1\]"),
        ({"class_weight": "balanced"}, "with class_weight none, not balanced"),
    ):
        with pytest.raises(RunError, match=words):
            search(asked.with_(**changes), url(tmp_path), 1)
    # Where it runs, and the seeds of the final runs, may differ.
    assert comparable(asked.with_(seeds=(42, 7), root=tmp_path, device="cuda")) == comparable(asked)
    with pytest.raises(RunError, match="cannot be opened"):
        search(asked, "nonsense://here", 1)


def test_trials_on_other_data_are_not_mixed_in(asked: Experiment, tmp_path: Path) -> None:
    search(asked, url(tmp_path), 1)
    changed = make_graph(120)
    assert changed.y is not None
    write_npz(tmp_path / "g.npz", changed.replace(y=changed.y.roll(1)))
    with pytest.raises(RunError, match=r"with labels .*, not .*: use another storage"):
        search(asked, url(tmp_path), 1)


@pytest.mark.slow
def test_a_run_that_diverges_has_no_value(asked: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It counts as a trial, and never as the best; not even where less is better."""
    wild = asked.with_(layers=2, norm="none", epochs=4)
    with monkeypatch.context() as patch:
        patch.setattr(presets, "training_space", lambda: {"lr": [1e30, 0.01], "dropout": [0.0], "weight_decay": [0.0]})
        for less in (False, True):
            if less:
                patch.setitem(METRICS, "accuracy", replace(METRICS["accuracy"], higher_is_better=False))
            storage = url(tmp_path, f"{less}.db")
            best = search(wild, storage, 6)
            trials = trials_of(wild, storage)
            assert {t.state.name for t in trials if t.params["lr"] == 1e30} == {"PRUNED"}
            assert best.parameters["lr"] == 0.01
            assert best.val == (min if less else max)(t.value for t in trials if t.value is not None)
        patch.setattr(presets, "training_space", lambda: {"lr": [1e30], "dropout": [0.0], "weight_decay": [0.0]})
        with pytest.raises(HandfulError, match=r"all 2 trials of .* diverged"):
            search(wild, url(tmp_path, "wild.db"), 2)


def test_pruning_stops_a_trial_that_falls_behind(asked: Experiment, tmp_path: Path) -> None:
    study = optuna.create_study(direction="maximize", pruner=optuna.pruners.MedianPruner(n_startup_trials=2))
    for _ in range(3):
        ahead = study.ask()
        for epoch in (1, 2):
            ahead.report(2.0, epoch)  # better than any accuracy
        study.tell(ahead, 2.0)
    asked.with_(seeds=(42,)).run(tmp_path / "run")
    run = RunFolder(tmp_path / "run" / "seed-42")
    assert _falls_behind(study.ask(), run)


def test_search_spaces_are_the_paper_s() -> None:
    assert [sampler.options()["parts"] for sampler in sampling_space("rns", 4)] == list(range(2, 11))
    assert [sampler.name for sampler in sampling_space("full", 4)] == ["full"]
    assert sampling_space("ladies", 3)[0].options()["budget"] == (8192,) * 3
    for name in ("full", "neighbor", "cluster", "saint", "ladies", "rns"):
        space = sampling_space(name, 4)
        assert len(space) == len(presets.search_space(name))
        for sampler, given in zip(space, presets.search_space(name), strict=True):
            options = sampler.options()
            assert all(options[key] == _tuple(value) for key, value in given.items() if key != "budget")
    with pytest.raises(HandfulError, match="did you mean rns"):
        sampling_space("rnss", 4)


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def test_the_paper_s_architecture_epochs_and_evaluation() -> None:
    own, *more = paper_space(Experiment("ogbn-arxiv", hidden=4, epochs=2, lr=0.5, seeds=(7,)), "neighbor")
    assert [one.sampler.options()["fanout"] for one in (own, *more)] == [(30, 10), (30, 10, 10), (30, 10, 10, 10)]
    preset = presets.sampling("ogbn-arxiv", "neighbor")
    assert own.options == preset.options
    assert (own.settings.epochs, own.settings.evaluation) == (20, "sampled")
    assert (own.settings.lr, own.seeds) == (0.5, (7,))
    assert paper_space(Experiment("pokec"), "ladies")[0].model == "gcn"
    assert all(one.sampler.options()["drop_last"] for one in paper_space(Experiment("pokec"), "rns"))
    with pytest.raises(HandfulError, match="the paper's tables"):
        paper_space(Experiment("debian"), "rns")


@pytest.mark.parametrize("model", ["gcn", "gat", "sgformer"])
def test_a_model_of_the_architecture_table_has_a_search_of_its_own(model: str) -> None:
    for sampler in ("full", "rns"):
        (own,) = paper_space(Experiment("ogbn-arxiv", model=model, seeds=(7,)), sampler, model)
        preset = presets.tuned("ogbn-arxiv", model, sampler)
        assert (own.model, own.options, own.sampler) == (model, preset.options, preset.sampler)
        assert (own.settings.epochs, own.seeds) == (preset.settings.epochs, (7,))
    with pytest.raises(HandfulError, match="full and rns alone, not saint"):
        paper_space(Experiment("ogbn-arxiv"), "saint", model)


def test_graphland_has_a_search_of_its_own() -> None:
    space = paper_space(Experiment("tolokers-2", split="rl", seeds=(7,)), "rns")
    assert len(space) == 1  # K is searched with all else
    assert {(one.model, one.split, one.options["layers"], one.settings.epochs) for one in space} == {
        ("graphland-sage", "rl", 3, 1000)
    }
    assert {(one.settings.optimizer, one.settings.decayed) for one in space} == {("adamw", "weights")}
    assert [one.sampler.name for one in paper_space(Experiment("tolokers-2"), "full")] == ["full"]
    (fraud,) = paper_space(Experiment("web-fraud", device="cuda"), "rns")
    assert fraud.settings.checkpoint_activations
    assert fraud.sampler.options()["drop_last"]
    (whole,) = paper_space(Experiment("web-fraud", device="cuda"), "full")
    assert whole.device == "cuda:0,cuda:1"
    assert paper_space(Experiment("web-fraud"), "full")[0].device == "cpu"
    with pytest.raises(HandfulError, match="full and rns alone, not saint"):
        paper_space(Experiment("tolokers-2"), "saint")


@pytest.mark.slow
def test_the_number_of_parts_is_a_dimension_of_one_search(asked: Experiment, tmp_path: Path) -> None:
    dealt = [RandomNodes(m) for m in (2, 3, 5)]
    best = search(asked, url(tmp_path), 6, samplers=dealt)
    (study,) = optuna.get_all_study_summaries(url(tmp_path))
    trials = optuna.load_study(study_name=study.study_name, storage=url(tmp_path)).trials
    assert len(trials) == 6
    assert {t.params["sampler"] for t in trials} <= {*map(str, dealt)}
    assert len({t.params["sampler"] for t in trials}) > 1
    first = max(trials, key=lambda t: t.value)
    assert best.val == first.value
    assert best.experiment.sampler in dealt
    assert str(best.experiment.sampler) == first.params["sampler"]
    assert set(best.parameters) == {"lr", "dropout", "weight_decay"}
    with pytest.raises(RunError, match="sampler"):  # another space is another search
        search(asked, url(tmp_path), 6, samplers=dealt[:2])


def test_variants_of_one_sampler_have_searches_of_their_own(asked: Experiment, tmp_path: Path) -> None:
    methods = ("rns", "rns-mean-field", "rns-labels")
    tried = [asked.with_(layers=2).with_method(method, parts=2) for method in methods]
    names = {open_study(one, one.load(42), url(tmp_path)).study_name for one in tried}
    assert len(names) == len(methods)


@pytest.mark.slow
def test_the_best_of_each_sampler_is_trained_with_all_seeds(asked: Experiment, tmp_path: Path) -> None:
    space = [asked, asked.with_(sampler=RandomNodes(3)), asked.with_(sampler="full")]
    without = tune_samplers(space, url(tmp_path), tmp_path, trials=1, final=False)
    assert without.payload["final"] == []
    assert not (tmp_path / "final").exists()
    found = tune_samplers(space, url(tmp_path), tmp_path, trials=1)
    check(found)
    assert set(found.payload) == {"graph", "metric", "storage", "searches", "final"}
    assert [row["trials"] for row in found.payload["searches"]] == [1, 1, 1]
    assert [row["sampler"] for row in found.payload["final"]] == ["rns", "full"]
    best = max(found.payload["searches"][:2], key=lambda row: row["val"])
    final = found.payload["final"][0]
    assert final["options"] == best["options"]
    opened = open_run(tmp_path / "final" / "rns")
    assert opened.experiment is not None
    assert opened.experiment.seeds == (42, 1)
    assert opened.experiment.settings.lr == best["lr"]
    assert final["test"]["mean"] == pytest.approx(np.mean([run.test for run in opened.results]))
    assert [len(table.rows) for table in found.tables] == [3, 2]


def test_without_validation_nodes_there_is_nothing_to_judge_by(asked: Experiment, tmp_path: Path) -> None:
    graph = make_graph(120)
    nobody = np.zeros(120, bool)
    write_npz(tmp_path / "g.npz", graph, val_mask=nobody)
    with pytest.raises(HandfulError, match="validation"):
        search(asked, url(tmp_path), 1)


DIES = """
import os, sys
from handful import Experiment, RandomNodes
from handful.studies import tuning
asked = Experiment({graph!r}, sampler=RandomNodes(2), hidden=4, layers=1, epochs=2, seeds=(42, 1))
tuning._judged = lambda *args: os._exit(9)
tuning.search(asked, {storage!r}, 2)
"""


@pytest.mark.slow
def test_a_killed_trial_is_buried_and_made_up_for(asked: Experiment, tmp_path: Path) -> None:
    code = DIES.format(graph=asked.graph, storage=url(tmp_path))
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 9
    assert [t.state for t in trials_of(asked, url(tmp_path))] == [optuna.trial.TrialState.RUNNING]
    assert search(asked, url(tmp_path), 2).trials == 2
    assert [t.state.name for t in trials_of(asked, url(tmp_path))] == ["FAIL", "COMPLETE", "COMPLETE"]


SHARES = """
import pathlib, sys, time
from handful import Experiment, RandomNodes
from handful.studies import tuning
asked = Experiment({graph!r}, sampler=RandomNodes(2), hidden=4, layers=1, epochs=2, seeds=(42, 1))
folder = pathlib.Path({folder!r})
def together(*_):
    # nobody begins a trial before the other is about to
    (folder / f"ready-{{sys.argv[1]}}").touch()
    while not all((folder / f"ready-{{i}}").exists() for i in (0, 1)):
        time.sleep(0.001)
tuning.search(asked, {storage!r}, {trials}, report=together)
"""


@pytest.mark.slow
def test_two_processes_share_one_study(asked: Experiment, tmp_path: Path) -> None:
    trials = 4
    code = SHARES.format(graph=asked.graph, storage=url(tmp_path), folder=str(tmp_path), trials=trials)
    processes = [
        subprocess.Popen([sys.executable, "-c", code, str(i)], stderr=subprocess.PIPE, env=os.environ) for i in (0, 1)
    ]
    for process in processes:
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors.decode()
    done = trials_of(asked, url(tmp_path))
    assert trials <= len(done) <= trials + 1
    assert {trial.state.name for trial in done} == {"COMPLETE"}
    assert {trial.user_attrs["process"][1] for trial in done} == {process.pid for process in processes}
    assert len({trial.number for trial in done}) == len(done)
