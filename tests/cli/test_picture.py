"""``handful picture`` as a user meets it."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.run import handful


def test_svg_and_what_it_shows(npz: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "samplers.svg"
    result = handful("picture", npz, "--out", out, "--seed", 1, "--json")
    assert result.code == 0, result.stderr
    assert "<svg" in out.read_text()
    told = result.json
    assert set(told) == {"graph", "nodes", "shown", "panels", "out"}
    assert (told["graph"], told["nodes"], told["out"]) == ("my", 400, str(out))
    assert told["shown"] <= 32
    assert [panel["sampler"] for panel in told["panels"]] == ["neighbor", "cluster", "saint", "ladies", "rns"]
    for panel in told["panels"]:
        assert 0 < panel["targets"] <= panel["nodes"] <= told["shown"]
    again = tmp_path / "again.svg"
    handful("picture", npz, "--out", again, "--seed", 1)
    assert again.read_text() == out.read_text()


@pytest.mark.parametrize(("suffix", "begin"), [("png", b"\x89PNG"), ("pdf", b"%PDF")])
def test_other_formats(npz: Path, tmp_path: Path, suffix: str, begin: bytes) -> None:
    result = handful("picture", npz, "--out", tmp_path / f"p.{suffix}")
    assert result.code == 0, result.stderr
    assert "neighbouring nodes of my, which has 400" in " ".join(result.stdout.split())
    assert (tmp_path / f"p.{suffix}").read_bytes().startswith(begin)


def test_a_format_that_there_is_not(npz: Path, tmp_path: Path) -> None:
    result = handful("picture", npz, "--out", tmp_path / "p.gif")
    assert (result.code, result.stdout) == (2, "")
    assert "--out must end in .svg" in result.stderr
