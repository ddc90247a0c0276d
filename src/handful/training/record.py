"""A run and its folder.

``config.json`` contains the configuration, and ``encoding.json`` describes the graph's features and classes.
``metrics.jsonl`` contains one line per evaluation. ``checkpoint.safetensors`` contains the state from which a run
continues. ``model.safetensors`` contains the best weights and the options of the model. ``result.json`` exists only if
the run is finished. Each file, and each line of ``metrics.jsonl``, has a checksum.
"""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, fields, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, get_args

import torch
from filelock import FileLock, Timeout
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from handful.errors import HandfulError, RunError, explaining, readable
from handful.files import plain, read_bytes, seal, text_fingerprint, unseal, write_aside, write_json, write_text
from handful.finding import decode
from handful.graph import Graph, Kind, fingerprint
from handful.kernels.threads import get_threads
from handful.nn import make_model, model_name
from handful.nn.network import Network
from handful.notebook import html_table
from handful.training.label_features import LabelHead
from handful.training.loss import balanced_weights
from handful.training.metrics import metric_of_record
from handful.version import __version__

FORMAT = 2
"""The version of the file format of run folders."""


@dataclass(kw_only=True)
class Counts:
    """Counters and times of a run; its result contains them.

    ``seconds`` is the time for training and evaluation, and ``train_seconds`` is the time for training alone.
    ``prepare_seconds`` is the time for everything that is computed once before training: the sampler's partition
    (METIS) and the precomputed first hop. If the partition comes from a cache, its original time counts. ``skipped`` is
    the number of batches that were not used in a step, because they have no training node, or too few nodes for
    BatchNorm.
    """

    best_epoch: int = 0
    steps: int = 0
    skipped: int = 0
    seconds: float = 0.0
    train_seconds: float = 0.0
    prepare_seconds: float = 0.0
    diverged: int | None = None
    """The epoch in which weights, loss or logits became infinite or NaN; ``None`` if this did not happen. The best
    epoch is an earlier one.
    """
    history: list[dict[str, Any]] = field(repr=False, default_factory=list)

    def counts(self) -> dict[str, Any]:
        """All counters by name."""
        return {one.name: getattr(self, one.name) for one in fields(Counts)}


@dataclass
class Run(Counts):
    """The result of a training run. ``val`` is the best validation metric, and ``test`` is the test metric at the same
    epoch. ``val`` and ``test`` are fractions; for a regression, errors are in the unit of the labels.

    >>> Run("accuracy", 0.7, 0.6, best_epoch=3, epochs=4, train_seconds=2.0).epoch_seconds
    0.5
    """

    metric: str
    val: float
    test: float
    epochs: int = 0
    peak_ram_bytes: int = 0
    peak_gpu_bytes: int | None = None
    seed: int = 0
    higher_is_better: bool = True
    threshold: float | None = None
    """The decision threshold of the positive class, if there are two classes; otherwise ``None``."""
    dir: str | None = None
    model: nn.Module | None = field(repr=False, compare=False, default=None)
    """The model with its best weights; ``None`` if the run was read from its folder (see ``handful.open_run``)."""

    @property
    def epoch_seconds(self) -> float:
        """The mean training time per epoch, in seconds, without evaluation."""
        return self.train_seconds / max(1, self.epochs)

    def to_json(self) -> dict[str, Any]:
        """The fields to write to ``result.json``: all except the folder, the model, and the history, which is in
        ``metrics.jsonl``.
        """
        kept = (f.name for f in fields(self) if f.name not in ("history", "dir", "model"))
        return {name: getattr(self, name) for name in kept}

    def __str__(self) -> str:
        metric = metric_of_record(self.metric, self.higher_is_better)
        best = f"{metric.label('test')} {metric.text(self.test)}, validation {metric.text(self.val)}"
        return f"Run({best}, at epoch {self.best_epoch} of {self.epochs}, {self.seconds:.1f} s)"

    def _repr_html_(self) -> str:
        metric = metric_of_record(self.metric, self.higher_is_better)
        rows = {
            metric.label("test"): metric.text(self.test),
            metric.label("validation"): metric.text(self.val),
            "best epoch": f"{self.best_epoch} of {self.epochs}",
            "seconds": f"{self.seconds:.1f}",
            "peak memory (GiB)": f"{self.peak_ram_bytes / 2**30:.2f}",
            "seed": str(self.seed),
        }
        return html_table("Run", rows | ({} if self.dir is None else {"folder": self.dir}))


@contextmanager
def hold(folder: Path) -> Iterator[Path]:
    """Lock ``folder`` for this process, and remove incomplete files that a killed process left.

    The lock is released when the process ends, even after a crash.
    """
    folder.mkdir(parents=True, exist_ok=True)
    holder = folder / "lock.pid"
    try:
        held = FileLock(folder / "lock").acquire(timeout=0)
    except Timeout:
        name = holder.read_text() if holder.exists() else "another"
        raise RunError(f"{folder} is in use by process {name}: wait for it, or use another folder") from None
    with held:
        holder.write_text(str(os.getpid()))
        for left in folder.glob(".*.part"):
            left.unlink(missing_ok=True)
        yield folder


class RunFolder:
    """The files of one run. Only one process at a time may use the folder; see ``hold``."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.config = self.path / "config.json"
        self.metrics = self.path / "metrics.jsonl"
        self.checkpoint = self.path / "checkpoint.safetensors"
        self.model = self.path / "model.safetensors"
        self.result = self.path / "result.json"
        self.encoding = self.path / "encoding.json"

    @contextmanager
    def opened(self, config: Mapping[str, Any], resume: bool) -> Iterator[None]:
        """Lock the folder for a run with this configuration. If ``resume`` is false, the folder must not have a run
        yet.

        If an error occurs before the first evaluation of a new run, its configuration is removed, so that the folder
        can be used for the corrected run.
        """
        if not resume:
            refuse_run(self.path)
        with hold(self.path):
            fresh = not self.config.exists()
            write_config(self.config, config)
            try:
                yield
            except HandfulError:
                if fresh and not any(self.path.rglob("metrics.jsonl")):
                    self.config.unlink()
                    with suppress(OSError):  # the folder has other files, or the system keeps a locked file
                        for name in ("lock.pid", "lock"):
                            (self.path / name).unlink(missing_ok=True)
                        self.path.rmdir()
                raise

    def append(self, line: dict[str, Any]) -> None:
        """Add one evaluation to ``metrics.jsonl`` and flush it."""
        with self.written("the evaluation"), self.metrics.open("a", encoding="utf-8") as file:
            file.write(json.dumps(seal(line)) + "\n")

    def lines(self) -> list[dict[str, Any]]:
        """Read the evaluations so far. If a killed process left the last line incomplete, this line is left out.

        Raises:
            RunError: a line has changed since it was written.
        """
        if not self.metrics.exists():
            return []
        with readable(self.metrics, "train again in another folder", RunError):
            *whole, _ = read_bytes(self.metrics).decode("utf-8").split("\n")
            lines = [json.loads(text) for text in whole]
            if len({"crc32" in line for line in lines}) > 1:
                raise ValueError("a line has lost its checksum")
            return [unseal(line) for line in lines]

    def rewind(self, history: list[dict[str, Any]]) -> None:
        """Replace the contents of ``metrics.jsonl`` by ``history``, the evaluations in the checkpoint from which the
        run continues.
        """
        with self.written("the evaluations"):
            if history:
                write_text(self.metrics, "".join(json.dumps(seal(line)) + "\n" for line in history))
            else:
                self.metrics.unlink(missing_ok=True)

    def written(self, what: str) -> AbstractContextManager[None]:
        """A context in which the caller writes ``what`` to the folder. If a write fails, for example because the disk
        is full, the error message says whether there is a checkpoint.
        """
        kept = "the last checkpoint is kept" if self.checkpoint.exists() else "there is no checkpoint yet"
        words = f"{what} could not be written to {self.path} ({{}}): {kept}; make room there, then resume"
        return explaining(words, OSError, SafetensorError, kind=RunError)

    def run(self) -> Run:
        """Read the result of a finished run."""
        result = read_json(self.result)
        unknown: dict[str, Any] = {name: math.nan for name in ("val", "test") if result.get(name) is None}
        wanted = f"{self.result} is not a result of this version of handful: {{}}"
        with explaining(wanted, TypeError, KeyError, kind=RunError):
            known: Run = decode(Run, {**result, **dict.fromkeys(unknown, 0.0)})
        run = replace(known, **unknown, history=self.lines(), dir=str(self.path))
        # An epoch that diverged has no evaluation.
        last = run.history[-1].get("epoch") if run.history else None
        if last != run.epochs and run.diverged is None:
            raise RunError(f"{self.metrics} lacks the last evaluation of the run: train again in another folder")
        return run


# -- configurations ---------------------------------------------------------------------------------------------------


def refuse_run(folder: Path) -> None:
    """Raise an error if ``folder`` already has a run, complete or incomplete, or is not a folder."""
    own = RunFolder(folder)
    if any(file.exists() for file in (own.config, own.metrics, own.checkpoint, own.model, own.result)):
        raise RunError(f"{folder} already holds a run: resume it, or use another folder")
    there = next((place for place in (folder, *folder.parents) if place.exists()), folder)
    if there.exists() and not there.is_dir():
        raise RunError(f"{there} is a file: use another place for the run")


def write_config(path: Path, config: Mapping[str, Any]) -> None:
    """Write the configuration of a run. If the file exists, its configuration must be the same.

    Raises:
        RunError: the existing configuration differs; the message shows the old and the new value of each field that
            differs.
    """
    now = plain(dict(config))
    if not path.exists():
        if RunFolder(path.parent).checkpoint.exists():
            raise RunError(f"{path.parent} has a checkpoint, but not its config.json: use another folder")
        write_json(path, seal({"format": FORMAT, **now, "environment": environment()}))
        return
    was = read_config(path)
    changed = [f"{name} was {old!s:.60} and is now {new!s:.60}" for name, (old, new) in differences(was, now).items()]
    if changed:
        raise RunError(f"{path.parent} cannot be resumed: {'; '.join(changed[:3])}. Use another folder")


def read_config(path: Path) -> dict[str, Any]:
    """Read the configuration that ``write_config`` wrote, without its entries ``format`` and ``environment``.

    Raises:
        RunError: the file cannot be read, or its format is that of another version of handful.
    """
    config = read_json(path)
    if (found := config.pop("format", None)) != FORMAT:
        what = f"the configuration of a run of this version of handful (format {found}, not {FORMAT})"
        advice = "train again in another folder, or use the version that made it"
        raise RunError(f"{path} is not {what}: {advice}")
    config.pop("environment", None)
    return config


def differences(was: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """The fields in which two configurations differ, each with its old and new value.

    >>> differences({"options": {"dropout": 0.5}, "seeds": [1]}, {"options": {"dropout": 0.3}, "seeds": [1]})
    {'dropout': (0.5, 0.3)}
    """
    changed: dict[str, tuple[Any, Any]] = {}
    for name in {**was, **now}:
        old, new = was.get(name), now.get(name)
        if isinstance(old, dict) and isinstance(new, dict):
            inner = differences(old, new)
            # Another sampler has other options, so the message has only its name.
            changed |= {name: inner["name"]} if "name" in inner else inner
        elif old != new:
            changed[name] = (old, new)
    return changed


def environment() -> dict[str, str]:
    """The versions of the software, the kind of machine, and the number of threads."""
    return {
        "handful": __version__,
        "torch": torch.__version__,
        "numba": version("numba"),
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "threads": str(get_threads()),
    }


# -- files ------------------------------------------------------------------------------------------------------------


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object from a file in a run folder, and verify its checksum."""
    with readable(path, "delete the run folder, or use another one", RunError):
        value = json.loads(read_bytes(path).decode("utf-8"))
        if not isinstance(value, dict):
            raise ValueError("it does not hold a JSON object")
        return unseal(value)


def save_tensors(path: Path, tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
    """Write tensors and a small JSON ``state`` to one safetensors file, with a checksum of both."""
    kept = {k: v.detach().cpu().contiguous().clone() for k, v in tensors.items()}
    sealed = {**state, "crc32": _checksum(kept, state)}
    write_aside(path, lambda aside: save_file(kept, aside, metadata={"state": json.dumps(sealed)}))


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read the tensors and the state that ``save_tensors`` wrote.

    Raises:
        RunError: the file does not exist, or has changed since it was saved.
    """
    advice = "delete it, and resume its run" if path.exists() else "resume its run, which makes it again"
    with readable(path, advice, RunError):
        if not path.is_file():
            raise OSError("it is not a plain file" if path.exists() else "there is no such file")
        with safe_open(path, framework="pt") as file:
            text = (file.metadata() or {}).get("state")
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118  (not a dict)
        if text is None:  # weights from another program
            return tensors, {}
        state: dict[str, Any] = dict(json.loads(text))
        if state.pop("crc32", None) != _checksum(tensors, state):
            raise ValueError("it has changed since it was written: its checksum differs")
        return tensors, state


def _checksum(tensors: dict[str, Tensor], state: dict[str, Any]) -> str:
    names = sorted(tensors)
    return text_fingerprint([names, fingerprint(*(tensors[name] for name in names)), state])


# -- models -----------------------------------------------------------------------------------------------------------


def describe(model: nn.Module) -> dict[str, Any]:
    """The definition of a model. For a model of handful, this is its name and its options. For another module, this is
    its class, its layers, and all attributes that are numbers or strings.
    """
    if isinstance(model, Network) and (name := model_name(model)) is not None:
        return {"model": name, "options": model.options}
    attributes = {
        f"{place}.{key}".lstrip("."): value
        for place, module in model.named_modules()
        for key, value in vars(module).items()
        if isinstance(value, bool | int | float | str) and key not in ("training", "step_seed") and key[0] != "_"
    }
    kind = type(model)
    return {"model": f"{kind.__module__}.{kind.__qualname__}", "options": {"layers": repr(model), **attributes}}


def save_model(model: nn.Module, path: str | Path) -> None:
    """Write the weights of ``model``, and its options if it is a model of handful."""
    state = describe(model)
    if isinstance(model, Network) and model_name(model) is not None:
        state |= {"in_features": model.in_features, "out_features": model.out_features}
    state["units"] = getattr(model, "units", None)
    save_tensors(Path(path), model.state_dict(), state)


def load_model(path: str | Path) -> Network:
    """Load a model from a ``model.safetensors`` or a run folder. The model is in evaluation mode.

    >>> import handful as hf
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     save_model(hf.SAGE(8, 3, hidden=16, layers=2), f"{folder}/model.safetensors")
    ...     load_model(folder).options["hidden"]
    16
    """
    file = _model_file(path)
    _, state = load_tensors(file)
    if "in_features" not in state:
        raise RunError(f"{file} does not say how its model is made: make the model, and use load_weights(model, path)")
    with explaining(f"{file} is not a model of this version of handful: {{}}", TypeError, KeyError, kind=RunError):
        model = make_model(state["model"], state["in_features"], state["out_features"], **state["options"])
    load_weights(model, file)
    return model.eval()


def load_weights(model: nn.Module, path: str | Path) -> None:
    """Load weights from a ``model.safetensors`` or a run folder into ``model``."""
    file = _model_file(path)
    tensors, state = load_tensors(file)
    if "label_head.prior" in tensors and isinstance(model, Network) and model.label_head is None:
        model.label_head = LabelHead(model.out_features, tensors["label_head.prior"])
    units = state.get("units")
    setattr(model, "units", None if units is None else tuple(units))  # noqa: B010  (mypy takes attributes for tensors)
    try:
        model.load_state_dict(tensors)
    except RuntimeError as error:
        first = str(error).splitlines()[-1].strip()
        raise RunError(f"the weights in {file} do not fit this model: {first}") from None


# -- the encoding of the data -----------------------------------------------------------------------------------------


def write_encoding(folder: RunFolder, graph: Graph) -> None:
    """Write the schema, the class names and the kind of labels of the graph. This file is needed to encode other graphs
    and to name predicted classes.
    """
    what: dict[str, Any] = {"kind": graph.kind, "class_names": graph.class_names, "positive": graph.positive}
    if graph.kind in ("binary", "multiclass"):
        what["balanced"] = balanced_weights(graph).tolist()
    write_json(folder.encoding, seal({"features": graph.num_features, **what, "schema": graph.schema}))


def read_encoding(folder: RunFolder) -> dict[str, Any]:
    """Read the encoding that ``write_encoding`` wrote.

    Raises:
        RunError: the file cannot be read, or does not contain an encoding.
    """
    encoding = read_json(folder.encoding)
    names, kind, positive = (encoding.get(name) for name in ("class_names", "kind", "positive"))
    named = names is None or (isinstance(names, list) and all(isinstance(name, str) for name in names))
    if not named or kind not in get_args(Kind) or positive not in (None, 0, 1) or isinstance(positive, bool | float):
        wrong = "its kind, its class names or its positive class is unknown"
        raise RunError(f"{folder.encoding} does not hold the encoding of a graph: {wrong}")
    return encoding


def _model_file(path: str | Path) -> Path:
    return RunFolder(path).model if Path(path).is_dir() else Path(path)
