"""A full disk, and places that cannot be written to: what is there stays, and one line says what to do."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from faults.killed import train
from faults.programs import finished
from handful.training.record import RunFolder, load_tensors
from small import assert_same_end

LIMITED = """
import resource, signal, sys
from pathlib import Path
import handful as hf
from killed import train

class Fill(hf.Callback):
    '''After some evaluations no file may grow beyond a few bytes: what a full disk does.'''
    def on_evaluation(self, loop, line):
        if loop.epoch == 6:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
try:
    train(Path(sys.argv[1]), callbacks=[Fill()])
except hf.RunError as error:
    print(error)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="limits of this kind are of POSIX")
@pytest.mark.parametrize(("room", "what"), [(100, "the evaluation"), (2000, "the checkpoint of epoch 8")])
def test_a_disk_that_fills_up_keeps_the_last_checkpoint(tmp_path: Path, room: int, what: str) -> None:
    own = RunFolder(tmp_path / "run")
    out, _ = finished("-c", LIMITED, own.path, room)
    assert out.startswith(f"{what} could not be written to {own.path} (")
    assert out.endswith("the last checkpoint is kept; make room there, then resume\n")
    assert load_tensors(own.checkpoint)[1]["epoch"] == 6
    assert not list(own.path.glob(".*.part"))
    train(own.path)
    train(tmp_path / "whole")
    assert_same_end(own, RunFolder(tmp_path / "whole"))


@pytest.mark.slow
def test_the_command_says_it_in_one_line(tmp_path: Path) -> None:
    graph = "synthetic?nodes=300&degree=6&features=8&classes=3"
    (tmp_path / "file").touch()
    command = ["-m", "handful", "train", graph, "--hidden", "4", "--epochs", "2", "--seeds", "1", "--out"]
    _, err = finished(*command, tmp_path / "file" / "run", code=2)
    (line,) = err.split("\n")[-2:-1]
    assert line.startswith("error: ")
    assert "file is a file: use another place" in line
    assert "Traceback" not in err
