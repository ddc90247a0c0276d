"""The loop, optimisers, exact inference, metrics, checkpoints and records."""

from __future__ import annotations

from handful.training.callbacks import Callback
from handful.training.fit import Loop, Run, Settings, fit
from handful.training.inference import infer
from handful.training.loss import node_loss, node_losses
from handful.training.record import load_weights

__all__ = ["Callback", "Loop", "Run", "Settings", "fit", "infer", "load_weights", "node_loss", "node_losses"]
