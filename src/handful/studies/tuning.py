"""The paper's tuning protocol (appendix, "Fair hyperparameter tuning protocol"), on Optuna.

The architecture is fixed. Every sampling configuration is a study of its own: Bayesian trials (TPE) over learning rate,
dropout and weight decay, each a run with one seed, judged by validation alone. The best configuration of a sampler
is then trained with all seeds. Studies live in a storage that several processes and machines may share; each goes on
until the study has its trials. With p processes there may be up to p − 1 more, which were under way at the end.
"""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from handful.datasets import load
from handful.errors import DivergedError, HandfulError, RunError
from handful.graph import Graph
from handful.nn import make_model
from handful.random import derived_seed
from handful.samplers import Sampler, make_sampler
from handful.studies import presets
from handful.studies.jobs import Job
from handful.training.callbacks import Callback
from handful.training.fit import Loop, fit

Report = Callable[[str, int, int], None]
"""Called with the name of a study, how many of its trials are done, and of how many."""


@dataclass(frozen=True)
class Plan:
    """What all trials of a sampler have in common; ``settings`` are those of ``fit`` that are not searched."""

    graph: str
    model: str
    architecture: dict[str, Any]
    settings: dict[str, Any]
    split: str | None = None
    root: str | None = None
    device: str = "cpu"
    seed: int = 42

    def record(self) -> dict[str, Any]:
        """What must be the same for trials to be comparable."""
        return {k: v for k, v in asdict(self).items() if k not in ("root", "device")}


@dataclass(frozen=True)
class Best:
    """The best trial of one sampling configuration."""

    sampler: str
    options: dict[str, Any]
    trials: int
    val: float
    parameters: dict[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """``lr``, ``dropout`` and ``weight_decay`` beside the rest."""
        return {
            "sampler": self.sampler,
            "options": self.options,
            "trials": self.trials,
            "val": self.val,
            **self.parameters,
        }


def sampling_space(sampler: str, layers: int) -> list[dict[str, Any]]:
    """The paper's search space of a sampler; LADIES draws as many layers as the model has.

    >>> sampling_space("saint", layers=3)
    [{'length': 2, 'roots': 6000}, {'length': 2, 'roots': 2000}, {'length': 4, 'roots': 2000}]
    """
    make_sampler(sampler)  # a name that is not a sampler's is told with those that are
    space = presets.search_space(sampler)
    return [o | {"budget": [o["budget"][0]] * layers} if "budget" in o else o for o in space]


def search(
    plan: Plan,
    sampler: Sampler,
    storage: str,
    trials: int,
    prune: bool = False,
    report: Report | None = None,
) -> Best:
    """Run trials of one sampling configuration until the study in ``storage`` (a URL) has ``trials`` of them."""
    optuna = _optuna()
    study = open_study(plan, sampler, storage)
    study.pruner = optuna.pruners.MedianPruner() if prune else optuna.pruners.NopPruner()
    _bury_dead(study)
    data: Graph | None = None
    while (done := len(_finished(study))) < trials:
        if report is not None:
            report(study.study_name, done, trials)
        if data is None:
            data = load(plan.graph, split=plan.split, root=plan.root, seed=plan.seed).require_training()
        trial = study.ask()
        # By the number of the trial: no two processes draw alike, and a search alone is the same every time.
        seed = derived_seed(plan.seed, trial.number) % 2**32
        study.sampler = optuna.samplers.TPESampler(seed=seed, multivariate=False)
        trial.set_user_attr("process", [socket.gethostname(), os.getpid()])
        parameters = {
            name: trial.suggest_categorical(name, values) for name, values in presets.training_space().items()
        }
        try:
            study.tell(trial, _val(plan, data, sampler, parameters, [_Reporter(trial)] if prune else []))
        except optuna.TrialPruned:
            study.tell(trial, state=optuna.trial.TrialState.PRUNED)
        except BaseException:
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
            raise
    if report is not None:
        report(study.study_name, trials, trials)
    best = study.best_trial
    return Best(sampler.name, sampler.options(), len(_finished(study)), best.value, best.params)


def _val(
    plan: Plan, data: Graph, sampler: Sampler, parameters: dict[str, float], callbacks: Sequence[Callback]
) -> float:
    """The validation metric of one run; one whose loss is no longer finite has 0, the worst that there is."""
    torch.manual_seed(plan.seed)
    options = plan.architecture | {"dropout": parameters["dropout"]}
    model = make_model(plan.model, data.num_features, data.num_outputs, **options)
    how = plan.settings | {"lr": parameters["lr"], "weight_decay": parameters["weight_decay"], "seed": plan.seed}
    try:
        return fit(model, data, sampler, device=plan.device, callbacks=callbacks, **how).val
    except DivergedError:
        return 0.0


class _Reporter(Callback):
    """Tells the pruner how a trial is doing, and stops it when it is not worth going on."""

    def __init__(self, trial: Any) -> None:
        self.trial = trial

    def on_evaluation(self, loop: Loop, line: dict[str, Any]) -> None:
        self.trial.report(line["val"], line["epoch"])
        if self.trial.should_prune():
            raise _optuna().TrialPruned


def final_job(plan: Plan, best: Best, seeds: Sequence[int]) -> Job:
    """The best configuration of a sampler over the seeds."""
    return Job(
        name=best.sampler,
        graph=plan.graph,
        sampler=best.sampler,
        sampler_options=best.options,
        model=plan.model,
        architecture=plan.architecture | {"dropout": best.parameters["dropout"]},
        settings=plan.settings | {name: best.parameters[name] for name in ("lr", "weight_decay")},
        seeds=tuple(seeds),
        split=plan.split,
        root=plan.root,
        device=plan.device,
    )


# -- storage --------------------------------------------------------------------------------------------------------


def open_study(plan: Plan, sampler: Sampler, storage: str) -> Any:
    """The study of one sampling configuration, made if it is not there; one of another plan is refused."""
    optuna = _optuna()
    name = f"{plan.graph} {plan.split or ''} {plan.model} {sampler}".replace("  ", " ")
    with _alone(storage):
        try:
            store = optuna.storages.RDBStorage(storage, engine_kwargs=_engine(storage))
        except Exception as error:
            reason = str(error).strip().splitlines()[0]
            raise RunError(f"--storage {storage} cannot be opened: {reason}") from None
        study = optuna.create_study(study_name=name, storage=store, direction="maximize", load_if_exists=True)
        if "plan" not in study.user_attrs:
            study.set_user_attr("plan", plan.record())
    for key, was in study.user_attrs["plan"].items():
        now = plan.record()[key]
        if was != now:
            raise RunError(
                f"{storage} holds study '{name}' with {key} {was}, not {now}: use another --storage or --out"
            )
    return study


def _engine(storage: str) -> dict[str, Any]:
    """SQLite waits for the other processes that write."""
    return {"connect_args": {"timeout": 120}} if storage.startswith("sqlite") else {}


@contextmanager
def _alone(storage: str) -> Iterator[None]:
    """Two processes that make the tables of one SQLite file at once would each find the other's half made."""
    if not storage.startswith("sqlite:///"):
        yield
        return
    file = Path(storage.removeprefix("sqlite:///"))
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.with_name(f".{file.name}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _finished(study: Any) -> list[Any]:
    states = _optuna().trial.TrialState
    return study.get_trials(deepcopy=False, states=(states.COMPLETE, states.PRUNED))  # type: ignore[no-any-return]


def _bury_dead(study: Any) -> None:
    """Trials whose process on this machine is gone were killed: they failed, and are not waited for."""
    states = _optuna().trial.TrialState
    for trial in study.get_trials(deepcopy=False, states=(states.RUNNING,)):
        host, pid = trial.user_attrs.get("process", ("", 0))
        if host == socket.gethostname() and not _alive(pid):
            study.tell(trial.number, state=states.FAIL, skip_if_finished=True)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise HandfulError("tuning needs Optuna: pip install 'handful[tune]'") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna
