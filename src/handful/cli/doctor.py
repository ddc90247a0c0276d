"""``handful doctor``: versions, kernels, devices and folders, and the packages that optional features need."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, requires, version
from typing import Any

from handful.cli.app import Answer
from handful.cli.params import command
from handful.finding import text_table

FEATURES = {
    "pyg": "PyG's Data, modules and loaders",
    "parquet": "Parquet tables",
    "graphland": "the GraphLand data sets",
    "networkx": "graphs from and to networkx",
    "sklearn": "baselines without a GNN, and scikit-learn's tools for the estimators",
    "tune": "handful tune",
    "ray": "--executor ray",
    "hub": 'open_run("USER/REPOSITORY") from the Hugging Face Hub',
    "tensorboard": "--tracker tensorboard",
    "wandb": "--tracker wandb",
    "mlflow": "--tracker mlflow",
}
"""The feature that each extra enables."""


@command()
def doctor() -> Answer:
    """Print versions, kernels, threads, GPUs and folders, and how to install what optional features need."""
    machine, extras = describe_machine(), list_extras()
    shown = [(name, row["install"] or "yes", row["for"]) for name, row in extras.items()]
    tables = [
        text_table("This machine", ["", ""], machine.items()),
        text_table("Optional features", ["extra", "installed", "for"], shown),
    ]
    return Answer({"machine": machine, "extras": extras}, tables)


def describe_machine() -> dict[str, str]:
    """Versions, kernels by device, threads, memory and folders."""
    import torch

    from handful.budget import free_memory, show_size
    from handful.files import home, private
    from handful.kernels.dispatch import backend
    from handful.kernels.hashing import mix64
    from handful.kernels.linear import native_bfloat16
    from handful.training.record import environment

    known, free = environment(), free_memory()
    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    folders = {"data sets": home(), "verified graphs": private("verified"), "kernels": mix64.stats.cache_path}
    return {
        **known,
        "cores": str(os.cpu_count()),
        "free memory": "unknown" if free is None else show_size(free),
        "kernels on cpu": backend(torch.device("cpu")),
        "kernels on cuda": backend(torch.device("cuda")),
        "bfloat16 on cpu": "in hardware" if native_bfloat16() else "converted to float32",
        "GPUs": ", ".join(gpus) or "none",
        **{f"folder of {name}": f"{path} ({_state(str(path))})" for name, path in folders.items()},
    }


def _state(path: str) -> str:
    """Whether a folder is writable; for a folder that does not exist yet, whether its nearest parent is."""
    there = path
    while not os.path.exists(there):
        there = os.path.dirname(there)
    kind = "writable" if os.access(there, os.W_OK) else "not writable"
    return kind if there == path else f"{kind}, not made yet"


def list_extras() -> dict[str, dict[str, Any]]:
    """For each extra: its feature, the packages that are missing, and the command that installs them."""
    with suppress(PackageNotFoundError):  # a checkout that is not installed has no list
        lines = requires("handful") or []
        result = {}
        for extra, feature in FEATURES.items():
            names = [re.split(r"[^\w.-]", line)[0] for line in lines if re.search(rf"extra == .{extra}\b", line)]
            missing = [name for name in names if not _installed(name)]
            install = f"pip install 'handful[{extra}]'" if missing or not names else ""
            result[extra] = {"for": feature, "missing": missing, "install": install}
        return result
    return {}


def _installed(package: str) -> bool:
    try:
        return bool(version(package))
    except PackageNotFoundError:
        return False
