"""A single bit that flips in a record is noticed."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import handful as hf
from faults.killed import train
from handful.training.record import RunFolder


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    folder = tmp_path_factory.mktemp("run") / "run"
    train(folder, epochs=4)
    return RunFolder(folder)


def flipped(folder: Path, name: str, rng: np.random.Generator) -> str:
    """Flip one bit of a file; where."""
    file = folder / name
    data = bytearray(file.read_bytes())
    place, bit = int(rng.integers(len(data))), int(rng.integers(8))
    data[place] ^= 1 << bit
    file.write_bytes(data)
    return f"{name}: bit {bit} of byte {place}"


def refusal(folder: Path) -> str:
    """Why the run is not resumed."""
    try:
        train(folder, epochs=4)
    except hf.RunError as error:
        return str(error)
    return "it was resumed"


@pytest.mark.parametrize("name", ["checkpoint.safetensors", "model.safetensors", "metrics.jsonl", "result.json"])
def test_sixty_flips(run: RunFolder, tmp_path: Path, name: str) -> None:
    rng = np.random.default_rng(len(name))
    for number in range(60):
        folder = tmp_path / str(number)
        shutil.copytree(run.path, folder)
        if name == "checkpoint.safetensors":
            (folder / "result.json").unlink()
        where = flipped(folder, name, rng)
        assert refusal(folder).startswith(str(folder)), where


def test_a_configuration_that_changed_is_refused(run: RunFolder, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for number in range(60):
        folder = tmp_path / str(number)
        shutil.copytree(run.path, folder)
        where = flipped(folder, "config.json", rng)
        assert refusal(folder).startswith(str(folder)), where


def test_a_model_that_is_gone_is_made_again_from_the_checkpoint(run: RunFolder, tmp_path: Path) -> None:
    shutil.copytree(run.path, tmp_path / "run")
    own = RunFolder(tmp_path / "run")
    own.model.unlink()
    with pytest.raises(hf.RunError, match=r"there is no such file.*resume its run, which makes it again"):
        hf.load_model(own.path)
    train(own.path, epochs=4)
    assert own.model.read_bytes() == run.model.read_bytes()
