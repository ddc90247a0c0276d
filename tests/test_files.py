from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from handful import files


def test_home_is_the_root_or_the_variable_or_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HANDFUL_HOME", str(tmp_path / "env"))
    assert files.home(tmp_path) == tmp_path
    assert files.home() == tmp_path / "env"
    monkeypatch.setenv("HANDFUL_HOME", "~/graphs")
    assert files.home() == Path.home() / "graphs"
    monkeypatch.delenv("HANDFUL_HOME")
    assert files.home().name == "handful"


@pytest.mark.skipif(sys.platform != "linux", reason="the variable is that of Linux")
def test_home_in_the_users_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("HANDFUL_HOME", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert files.home() == tmp_path / "handful"


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file.txt"
    files.write_text(path, "old")

    def fail(aside: Path) -> None:
        aside.write_text("half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        files.write_aside(path, fail)
    assert path.read_text() == "old"
    files.write_text(path, "ä")
    assert path.read_bytes() == "ä".encode()
    assert os.listdir(path.parent) == ["file.txt"]


def test_json_is_plain(tmp_path: Path) -> None:
    value = {1: (1.5, float("nan")), "b": [np.float32(2), torch.tensor(3), float("-inf"), None, True], "ä": "ö"}
    files.write_json(tmp_path / "a.json", value)
    text = (tmp_path / "a.json").read_text(encoding="utf-8")
    assert json.loads(text) == {"1": [1.5, None], "b": [2.0, 3, None, None, True], "ä": "ö"}
    assert "ä" in text
    assert text.endswith("}\n")
    assert files.plain([np.float64("nan"), np.float32("nan"), torch.tensor(float("inf"))]) == [None, None, None]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems may have no files with holes")
def test_a_map_larger_than_memory_is_private_and_may_be_written_to(tmp_path: Path) -> None:
    """A file with a hole, of more bytes than any machine of ours has memory."""
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    mapped = files.private_map(path)
    mapped[1 << 39] = 7
    assert (mapped[1 << 39], mapped[0]) == (7, 0)
    mapped.close()
    with path.open("rb") as file:
        file.seek(1 << 39)
        assert file.read(1) == b"\0"
