"""A run is a folder.

``config.json`` says how, ``metrics.jsonl`` has a line an evaluation, ``checkpoint.safetensors`` is where to go on from,
``model.safetensors`` has the best weights, and ``result.json`` stands only where the run has ended.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn, optim

from handful.errors import RunError
from handful.files import write_aside, write_json, write_text


class RunFolder:
    """The files of one run. Only one process at a time may hold it; see ``held``."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.config = self.path / "config.json"
        self.metrics = self.path / "metrics.jsonl"
        self.checkpoint = self.path / "checkpoint.safetensors"
        self.model = self.path / "model.safetensors"
        self.result = self.path / "result.json"

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the folder for this process; the lock goes with the process, however it ends."""
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / "lock").open("a+") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                lock.seek(0)
                holder = lock.read().strip() or "another"
                raise RunError(
                    f"{self.path} is in use by process {holder}: wait for it, or use another --out"
                ) from None
            lock.truncate(0)
            lock.write(str(os.getpid()))
            lock.flush()
            yield

    def begin(self, config: dict[str, Any], resume: bool) -> None:
        """Write the configuration, or make sure that the run to go on with has the same one."""
        config = json.loads(json.dumps(config))
        if not self.config.exists():
            write_json(self.config, config)
            return
        if not resume:
            raise RunError(f"{self.path} already holds a run: go on with it (--resume) or use another --out")
        old = read_json(self.config)
        for key in sorted((set(old) | set(config)) - {"environment"}):
            if old.get(key) != config.get(key):
                was, now = old.get(key), config.get(key)
                raise RunError(f"{self.path} cannot be resumed: {key} was {was} and is now {now}; use another --out")

    def append(self, line: dict[str, Any]) -> None:
        """Add one evaluation to ``metrics.jsonl`` and flush it."""
        with self.metrics.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
            file.flush()

    def lines(self) -> list[dict[str, Any]]:
        """The evaluations so far; a last line that a kill cut short is not one."""
        if not self.metrics.exists():
            return []
        out = []
        for text in self.metrics.read_text(encoding="utf-8").splitlines():
            try:
                out.append(json.loads(text))
            except json.JSONDecodeError:
                break
        return out

    def rewind(self, epoch: int) -> None:
        """Forget evaluations after ``epoch``: the run goes on from a checkpoint that is older than they are."""
        kept = [line for line in self.lines() if line["epoch"] <= epoch]
        write_text(self.metrics, "".join(json.dumps(line) + "\n" for line in kept))


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file of a run."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError) as error:
        raise RunError(f"{path} cannot be read ({error}): delete the run folder, or use another --out") from None
    if not isinstance(value, dict):
        raise RunError(f"{path} does not hold a JSON object: delete the run folder, or use another --out")
    return value


def save_tensors(path: Path, tensors: dict[str, Tensor], state: dict[str, Any] | None = None) -> None:
    """Tensors and a small JSON ``state`` in one safetensors file."""
    plain = {k: v.detach().cpu().contiguous().clone() for k, v in tensors.items()}
    write_aside(path, lambda aside: save_file(plain, aside, metadata={"state": json.dumps(state or {})}))


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What ``save_tensors`` saved."""
    try:
        with safe_open(path, framework="pt") as file:
            state = json.loads((file.metadata() or {}).get("state", "{}"))
            return {key: file.get_tensor(key) for key in file.keys()}, state  # noqa: SIM118  (not a dict)
    except (OSError, SafetensorError, json.JSONDecodeError) as error:
        raise RunError(f"{path} cannot be read ({error}): start again in another --out") from None


def optimizer_tensors(optimizer: optim.Optimizer) -> dict[str, Tensor]:
    """What the optimiser remembers, by parameter and name."""
    state = optimizer.state_dict()["state"]
    return {
        f"{index}.{key}": torch.as_tensor(value)
        for index, entry in state.items()
        for key, value in entry.items()
        if value is not None
    }


def restore_optimizer(optimizer: optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """Give back what ``optimizer_tensors`` told."""
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        index, key = name.split(".", 1)
        state.setdefault(int(index), {})[key] = value
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def prefixed(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The same tensors under ``prefix.name``."""
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}


def unprefixed(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors under ``prefix.``, without it."""
    start = len(prefix) + 1
    return {name[start:]: tensor for name, tensor in tensors.items() if name.startswith(f"{prefix}.")}


def load_weights(model: nn.Module, path: str | Path) -> None:
    """Load the weights of ``model.safetensors``, or those of a run folder, into ``model``."""
    file = Path(path)
    tensors, _ = load_tensors(RunFolder(file).model if file.is_dir() else file)
    try:
        model.load_state_dict(tensors)
    except RuntimeError as error:
        first = str(error).splitlines()[-1].strip()
        raise RunError(f"the weights in {file} do not fit this model: {first}") from None
