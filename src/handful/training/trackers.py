"""Callbacks for experiment trackers: TensorBoard, Weights & Biases, MLflow. Each tracker needs an optional dependency,
which is imported on first use.

Each seed is a separate run in the tracker. After a resume, training continues the same run. Nothing is sent to another
machine, unless the tracker's own variables are set (``WANDB_MODE=online``, ``MLFLOW_TRACKING_URI=…``).
"""

from __future__ import annotations

import os
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from handful.errors import needing, require_name
from handful.files import write_text
from handful.training.callbacks import Callback

if TYPE_CHECKING:
    from handful.training.loop import Loop

TOLD = ("loss", "val", "test", "seconds", "train_seconds", "steps")
"""The values of an evaluation that are sent to a tracker. The tracker's step is the epoch."""


class Tracker(Callback):
    """The base class of all trackers: it logs a run for each seed, with its configuration and the values of every
    evaluation.

    Args:
        folder: the folder for the files of the tracker.
    """

    extra: str
    module: str

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        with needing(f"tracker '{self.extra}' is not installed: pip install 'handful[{self.extra}]'"):
            self.library: Any = import_module(self.module)

    def on_start(self, loop: Loop) -> None:
        """Open the tracker's run for this seed."""
        sampler = {"sampler": loop.sampler.name, **loop.sampler.options()}
        self.folder.mkdir(parents=True, exist_ok=True)
        config = {"graph": loop.graph.name, "model": type(loop.model).__name__, **sampler, **asdict(loop.settings)}
        file = self.folder / f"seed-{loop.seed}.id"
        kept = file.read_text(encoding="utf-8") if loop.epoch > 0 and file.exists() else None
        if (run_id := self.open(f"seed-{loop.seed}", config, loop.epoch, kept)) is not None:
            write_text(file, run_id)  # for a later process that continues the run

    def on_evaluation(self, loop: Loop, line: dict[str, Any]) -> None:
        """Log the values of this epoch."""
        self.log({name: line[name] for name in TOLD if line[name] is not None}, line["epoch"])

    def on_end(self, loop: Loop) -> None:
        """Log the best values, and close the run."""
        self.log({"best_val": loop.best_val, "best_test": loop.best_test}, loop.epoch)
        self.close()

    def open(self, name: str, config: dict[str, Any], epoch: int, kept: str | None) -> str | None:
        """Start a run, or continue the run with the id ``kept`` after epoch ``epoch``. Return the id of the run, if the
        id is needed to continue the run later.
        """

    def log(self, values: dict[str, float], epoch: int) -> None:
        """Log the values of an epoch."""

    def close(self) -> None:
        """End the run."""


class TensorBoard(Tracker):
    """Writes event files for TensorBoard; open them with ``tensorboard --logdir FOLDER``."""

    extra, module = "tensorboard", "torch.utils.tensorboard"

    def open(self, name: str, config: dict[str, Any], epoch: int, kept: str | None) -> str | None:
        self.writer = self.library.SummaryWriter(self.folder / name, purge_step=epoch + 1)
        self.writer.add_text("config", "\n".join(f"- {key}: {value}" for key, value in config.items()), epoch)
        return None  # a run is its folder

    def log(self, values: dict[str, float], epoch: int) -> None:
        for name, value in values.items():
            self.writer.add_scalar(name, value, epoch)

    def close(self) -> None:
        self.writer.close()


class WandB(Tracker):
    """Logs to Weights & Biases. The default mode is offline, and ``wandb sync`` uploads the files; ``WANDB_MODE`` sets
    another mode.
    """

    extra, module = "wandb", "wandb"

    def open(self, name: str, config: dict[str, Any], epoch: int, kept: str | None) -> str | None:
        mode = os.environ.get("WANDB_MODE", "offline")
        project = os.environ.get("WANDB_PROJECT", "handful")
        which = {"name": name} if kept is None else {"name": name, "id": kept, "resume": "allow"}
        self.run = self.library.init(project=project, dir=self.folder, config=config, mode=mode, **which)
        return str(self.run.id)

    def log(self, values: dict[str, float], epoch: int) -> None:
        # The step is the epoch, so values that a resumed run logs again are not duplicated.
        self.run.log({**values, "epoch": epoch}, step=epoch)

    def close(self) -> None:
        self.run.finish()


class MLflow(Tracker):
    """Logs to MLflow: to a database in ``folder``, unless ``MLFLOW_TRACKING_URI`` is set."""

    extra, module = "mlflow", "mlflow"

    def open(self, name: str, config: dict[str, Any], epoch: int, kept: str | None) -> str | None:
        if "MLFLOW_TRACKING_URI" not in os.environ:
            self.library.set_tracking_uri(f"sqlite:///{self.folder.resolve() / 'mlflow.db'}")
        self.library.set_experiment(os.environ.get("MLFLOW_EXPERIMENT_NAME", "handful"))
        run = self.library.start_run(kept, run_name=name)
        self.library.log_params(config)
        return str(run.info.run_id)

    def log(self, values: dict[str, float], epoch: int) -> None:
        self.library.log_metrics(values, step=epoch)

    def close(self) -> None:
        self.library.end_run()


TRACKERS: dict[str, type[Tracker]] = {kind.extra: kind for kind in (TensorBoard, WandB, MLflow)}


def make_tracker(name: str, folder: str | Path) -> Tracker:
    """Make the tracker ``name``, which stores its files in ``folder``."""
    require_name("tracker", name, TRACKERS)
    return TRACKERS[name](folder)
