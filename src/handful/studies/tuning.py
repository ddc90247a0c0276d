"""The paper's tuning protocol (appendix, "Fair hyperparameter tuning protocol"), on Optuna.

The architecture is fixed. Every sampling configuration has its own Optuna study: Bayesian trials (TPE) over learning
rate, dropout and weight decay. A trial is a run with one seed, and its value is the validation metric. The best
configuration of a sampler is then trained with all seeds. Studies are kept in a storage, which several processes and
machines may share. Each process continues until the study has enough trials; p processes may run up to p − 1 additional
trials.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from math import isnan
from pathlib import Path
from typing import Any

from filelock import FileLock

from handful.errors import HandfulError, RunError, explaining, needing
from handful.experiment import SUMMARY, Experiment
from handful.finding import Cell, Finding, Table, best_two
from handful.graph import Graph
from handful.random import derive_seed
from handful.samplers import Sampler, make_sampler
from handful.studies import presets
from handful.studies.executors import DIVERGED, LOCAL, Executor, Job
from handful.studies.jobs import POLL_SECONDS, Progress, last_words, run_jobs, silent, stop
from handful.training.metrics import METRICS
from handful.training.record import RunFolder, differences, read_json, write_config
from handful.vocabulary import spaced

Report = Callable[[str, int, int], None]
"""A progress function. It is called with the name of a study, the number of finished trials, and the total number of
trials.
"""
KEPT = ("epochs", "evaluation", "optimizer", "decayed", "checkpoint_activations")
"""The settings that ``paper_space`` takes from the paper's presets."""
TRIALS = 50
"""The number of trials per sampling configuration, as in the paper."""


@dataclass(frozen=True)
class Best:
    """The result of the search for one sampling configuration: its best trial."""

    experiment: Experiment
    trials: int
    val: float
    parameters: dict[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The record of the trial for JSON, including ``lr``, ``dropout`` and ``weight_decay``."""
        sampler = self.experiment.sampler
        what = {"sampler": sampler.name, "options": sampler.options(), "trials": self.trials, "val": self.val}
        return {**what, **self.parameters}

    def cells(self) -> list[Cell]:
        """The first cells of the table row for this trial: the sampler and the best parameters."""
        return [Cell(str(self.experiment.sampler)), *(Cell(f"{value:g}") for value in self.parameters.values())]


def sampling_space(sampler: str, layers: int) -> list[Sampler]:
    """The paper's search space for a sampler. For LADIES, ``budget`` gets one entry per layer of the model.

    >>> [str(one) for one in sampling_space("saint", layers=3)][0]
    'saint(roots=6000, length=2, coverage=50)'
    """
    make_sampler(sampler)  # an unknown name is an error that lists the samplers
    fitted = [o | {"budget": [o["budget"][0]] * layers} if "budget" in o else o for o in presets.search_space(sampler)]
    return [make_sampler(sampler, **options) for options in fitted]


def paper_space(experiment: Experiment, sampler: str, model: str | None = None) -> list[Experiment]:
    """For each configuration of ``sampler``, ``experiment`` with the paper's architecture and training settings.

    On GraphLand there is only one configuration, since the number of parts is tuned in the search. If ``model`` is
    given, there is also only one configuration, with the number of parts of the sampling benchmark.
    """
    make_sampler(sampler)
    space: list[dict[str, Any]] = [{}]
    if (model or experiment.graph in presets.GRAPHLAND) and sampler not in ("full", "rns"):
        raise HandfulError(f"on GraphLand and for other models the paper has full and rns alone, not {sampler}")
    if experiment.graph in presets.GRAPHLAND:
        preset = presets.graphland(experiment.graph, experiment.split or "rh", sampler)
    elif model:
        preset = presets.tuned(experiment.graph, model, sampler)
    else:
        preset = presets.sampling(experiment.graph, sampler)
        space = presets.search_space(sampler)
    kept = {name: getattr(preset.settings, name) for name in KEPT}
    samplers = [make_sampler(sampler, **{**preset.sampler.options(), **options}) for options in space]
    where = presets.device_for(preset, experiment.device)
    own = {"model": preset.model, "options": dict(preset.options), "device": where, **kept}
    return [experiment.with_(sampler=one, **own) for one in samplers]


def tune_samplers(
    experiments: Sequence[Experiment],
    storage: str,
    out: Path,
    trials: int = TRIALS,
    prune: bool = False,
    final: bool = True,
    report: Report = silent,
    progress: Progress = silent,
    executor: Executor = LOCAL,
    parts: Sequence[int] = (),
) -> Finding:
    """Tune every experiment, and train the best experiment of each sampler with all seeds.

    Args:
        experiments: the sampling configurations. Trials use the first seed.
        storage: the URL of an Optuna storage, which several processes may share.
        out: the folder for the runs.
        trials: the number of trials per experiment.
        prune: whether to stop a trial early if it is worse than the median of earlier trials.
        final: whether to train the best experiment of each sampler with all seeds.
        report, progress: progress functions for the search and for the final runs.
        executor: runs the trials and the final runs, and limits the number of parallel jobs.
        parts: the values of m for RNS; if given, the search also tunes m.
    """
    graph = experiments[0].load(experiments[0].seeds[0])
    metric = METRICS[graph.metric]
    payload: dict[str, Any] = {"graph": graph.name, "metric": graph.metric, "storage": storage}
    del graph
    searches = []
    for asked in experiments:
        plain = asked.sampler
        dealt = [make_sampler("rns", **plain.options() | {"parts": m}) for m in parts if plain.name == "rns"]
        searches.append(search(asked, storage, trials, prune, report, executor, out / "trials", dealt))
    head = ["sampling", *(spaced(name) for name in presets.training_space()), metric.label("validation")]
    ranks = best_two([one.val for one in searches], metric.higher_is_better)
    rows = [
        [*one.cells(), Cell(metric.text(one.val), rank), Cell(str(one.trials))]
        for one, rank in zip(searches, ranks, strict=True)
    ]
    tables = [Table("Best trials", [*head, "trials"], rows)]
    first = searches[ranks.index(1)]
    best: dict[str, Best] = {}
    for one in searches:
        sampler = one.experiment.sampler.name
        if sampler not in best or metric.better(one.val, than=best[sampler].val):
            best[sampler] = one
    ends: dict[str, dict[str, Any]] = {}
    if final:
        jobs = {sampler: one.experiment for sampler, one in best.items()}
        for name, outcome in run_jobs(jobs, out / "final", executor, progress).items():
            if outcome.summary is None:
                raise HandfulError(f"training the best of {name} failed: {outcome.error}")
            ends[name] = {key: outcome.estimate(key) for key in ("val", "test")}
        rows = [[*best[name].cells(), *(Cell(metric.text(end)) for end in own.values())] for name, own in ends.items()]
        tables.append(Table("The best of each sampler over the seeds", [*head, metric.label("test")], rows))
    values = ", ".join(f"{spaced(name)} {value:g}" for name, value in first.parameters.items())
    top = f"best validation {spaced(metric.name)} is {metric.with_unit(first.val)}"
    said = f"The {top}, by {first.experiment.sampler} with {values}."
    finals = [{**best[name].to_json(), **own} for name, own in ends.items()]
    payload |= {"searches": [one.to_json() for one in searches], "final": finals}
    return Finding("tune", f"{payload['graph']} · tuning", said, tables, payload=payload)


def search(
    experiment: Experiment,
    storage: str,
    trials: int = TRIALS,
    prune: bool = False,
    report: Report = silent,
    executor: Executor = LOCAL,
    out: Path | None = None,
    samplers: Sequence[Sampler] = (),
) -> Best:
    """Run trials until the Optuna study in ``storage``, a URL, has ``trials`` finished trials. Return the best trial.
    If ``samplers`` are given, the search also chooses one of them.

    ``executor`` runs a trial as a job. The folder of a trial exists only during the trial. It is in ``out``, or among
    the temporary files if ``out`` is ``None``. Jobs do not use the storage, so other machines need no access to it.
    """
    optuna, states, experiment = _optuna(), _optuna().trial.TrialState, experiment.settled()
    seed = experiment.seeds[0]
    data = experiment.load(seed)
    study = open_study(experiment, data, storage, samplers)
    study.pruner = optuna.pruners.MedianPruner() if prune else optuna.pruners.NopPruner()
    _bury_dead(study)
    running: dict[Path, tuple[Any, Job]] = {}
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    try:
        while (done := min(len(_finished(study)), trials)) < trials or running:
            report(study.study_name, done, trials)
            while len(running) < min(executor.workers, trials - done):
                trial, asked = _ask(study, experiment, samplers)
                folder = Path(tempfile.mkdtemp(prefix=f"trial-{trial.number}-", dir=out))
                write_config(folder / "config.json", asked.with_(seeds=(seed,)).to_json())
                running[folder] = trial, executor.submit(folder, trials - done)
            for folder, (trial, job) in list(running.items()):
                code = job.poll()
                behind = prune and code is None and _falls_behind(trial, RunFolder(folder / f"seed-{seed}"))
                if behind or code == DIVERGED:
                    stop([job])
                    trial.set_user_attr("diverged", not behind)
                    study.tell(trial, state=states.PRUNED)
                elif code == 0:
                    study.tell(trial, _judged(read_json(folder / SUMMARY)["runs"][0]["val"], data))
                elif code is not None:
                    raise HandfulError(f"a trial of {experiment.sampler} failed: {last_words(folder, code)}")
                else:
                    continue
                del running[folder]
                shutil.rmtree(folder)
            time.sleep(POLL_SECONDS)
    finally:
        stop([job for _, job in running.values()])
        for folder, (trial, _) in running.items():
            study.tell(trial, state=states.FAIL)
            shutil.rmtree(folder)
    report(study.study_name, trials, trials)
    if not study.get_trials(deepcopy=False, states=(states.COMPLETE,)):
        raise HandfulError(f"all {trials} trials of {experiment.sampler} diverged: use another model or norm")
    best = study.best_trial
    result = {name: best.params[name] for name in presets.training_space()}
    return Best(_with(experiment, best.params, samplers), len(_finished(study)), best.value, result)


def _ask(study: Any, experiment: Experiment, samplers: Sequence[Sampler]) -> tuple[Any, Experiment]:
    """Ask the study for a new trial, and make its experiment."""
    trial = study.ask()
    # Each trial has its own seed, so processes draw different trials, and a search by one process is reproducible.
    own = derive_seed(experiment.seeds[0], trial.number) % 2**32
    study.sampler = _optuna().samplers.TPESampler(seed=own, multivariate=False)
    trial.set_user_attr("process", [socket.gethostname(), os.getpid()])
    space = study.user_attrs["space"].items()
    return trial, _with(experiment, {name: trial.suggest_categorical(name, values) for name, values in space}, samplers)


def _with(experiment: Experiment, parameters: Mapping[str, Any], samplers: Sequence[Sampler]) -> Experiment:
    """``experiment`` with the parameters of a trial. The parameter ``sampler`` is the text of one of ``samplers``."""
    own = {"sampler": next(s for s in samplers if str(s) == parameters["sampler"])} if samplers else {}
    return experiment.with_(**{**parameters, **own})


def _falls_behind(trial: Any, run: RunFolder) -> bool:
    """Report the evaluations of ``run`` to the pruner, and return whether to stop the trial."""
    known = set(trial.study.trials[trial.number].intermediate_values)
    for line in run.lines():
        if line["epoch"] not in known:
            trial.report(line["val"], line["epoch"])
    return bool(trial.should_prune())


def _judged(val: float | None, data: Graph) -> float:
    """Return ``val``, the validation metric of a trial; raise an error if it is ``None`` or NaN."""
    if val is None or isnan(val):
        advice = "use a split with validation nodes of several classes"
        raise HandfulError(f"trials need validation, and {data.name} has no {data.metric} there: {advice}")
    return val


# -- storage --------------------------------------------------------------------------------------------------------


def open_study(experiment: Experiment, data: Graph, storage: str, samplers: Sequence[Sampler] = ()) -> Any:
    """Open or create the Optuna study of one method, with the sampler of ``experiment`` or with one of ``samplers``.

    Raises:
        RunError: the study in ``storage`` is for another experiment, other data or another search space.
    """
    optuna = _optuna()
    # A variant of RNS has the same sampler as RNS, so the name of the method is also needed.
    sampler = experiment.method if samplers else re.sub(r"^[\w-]+", experiment.method, str(experiment.sampler))
    space: dict[str, Any] = presets.training_space() | ({"sampler": [*map(str, samplers)]} if samplers else {})
    name = f"{experiment.graph} {experiment.split or ''} {experiment.model} {sampler}".replace("  ", " ")
    # SQLite waits for other processes that write.
    engine = {"connect_args": {"timeout": 120}} if storage.startswith("sqlite") else {}
    with _alone(storage):
        with explaining(f"storage {storage} cannot be opened: {{}}", Exception, kind=RunError):
            store = optuna.storages.RDBStorage(storage, engine_kwargs=engine)
        direction = "maximize" if METRICS[data.metric].higher_is_better else "minimize"
        study = optuna.create_study(study_name=name, storage=store, direction=direction, load_if_exists=True)
        asked = {"experiment": comparable(experiment), "data": data.identity(), "space": space}
        if "experiment" not in study.user_attrs:
            for key, value in asked.items():
                study.set_user_attr(key, value)
    for what, (was, now) in differences({key: study.user_attrs.get(key, {}) for key in asked}, asked).items():
        raise RunError(f"{storage} holds study '{name}' with {what} {was}, not {now}: use another storage or folder")
    return study


def comparable(experiment: Experiment) -> dict[str, Any]:
    """The fields of ``experiment`` that must be equal in all trials of a study: all except the root, the device and all
    seeds but the first.
    """
    value = json.loads(json.dumps(experiment.to_json()))
    return {k: v for k, v in value.items() if k not in ("root", "device")} | {"seeds": value["seeds"][:1]}


def _alone(storage: str) -> AbstractContextManager[Any]:
    """A lock for the creation of tables in an SQLite file. Without it, the creation would fail if two processes tried
    it at the same time.
    """
    if not storage.startswith("sqlite:///"):
        return nullcontext()
    file = Path(storage.removeprefix("sqlite:///"))
    file.parent.mkdir(parents=True, exist_ok=True)
    return FileLock(file.with_name(f".{file.name}.lock"))


def _finished(study: Any) -> list[Any]:
    states = _optuna().trial.TrialState
    return study.get_trials(deepcopy=False, states=(states.COMPLETE, states.PRUNED))  # type: ignore[no-any-return]


def _bury_dead(study: Any) -> None:
    """Mark running trials as failed if their process was on this machine and has ended."""
    import psutil  # from the same extra as Optuna

    states = _optuna().trial.TrialState
    for trial in study.get_trials(deepcopy=False, states=(states.RUNNING,)):
        host, pid = trial.user_attrs.get("process", ("", 0))
        if host == socket.gethostname() and not psutil.pid_exists(pid):
            study.tell(trial.number, state=states.FAIL, skip_if_finished=True)


def _optuna() -> Any:
    with needing("tuning needs Optuna: pip install 'handful[tune]'"):
        import optuna
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna
