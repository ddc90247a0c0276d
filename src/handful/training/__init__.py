"""The loop, optimisers, exact inference, metrics, checkpoints and records."""

from __future__ import annotations

from handful.training.assessment import Assessment, assess
from handful.training.callbacks import Callback
from handful.training.fit import fit
from handful.training.inference import infer
from handful.training.loop import Loop
from handful.training.loss import node_loss, node_losses
from handful.training.record import Run, load_model, load_weights, save_model

__all__ = [
    "Assessment",
    "Callback",
    "Loop",
    "Run",
    "assess",
    "fit",
    "infer",
    "load_model",
    "load_weights",
    "node_loss",
    "node_losses",
    "save_model",
]
