"""``handful datasets`` as a user meets it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cli.run import handful
from handful.datasets.registry import sources
from handful.datasets.synthetic import BlockModel, generate


def test_datasets_as_json(tmp_path: Path) -> None:
    result = handful("datasets", "--root", tmp_path, "--check", "--json")
    assert result.code == 0, result.stderr
    found = result.json
    assert found["home"] == str(tmp_path)
    assert len(found["datasets"]) == len(sources())
    on_disk = {data["name"]: data["on_disk"] for data in found["datasets"]}
    assert on_disk["debian"] is True
    assert on_disk["ogbn-arxiv"] is False
    arxiv = found["check"]["rows"][0]
    assert (arxiv["name"], arxiv["measured"]) == ("ogbn-arxiv", False)
    assert arxiv["columns"][0] == {
        "column": "nodes", "paper": "169K", "measured": 169_343, "agrees": True, "note": ""
    }  # fmt: skip
    assert len(found["check"]["paper"]) >= 9


def test_check_measures_what_is_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph of the size of tolokers-2 in its place: the counts agree with the paper, the homophily cannot."""
    model = BlockModel(nodes=11_758, degree=89, classes=2, homophily=0.5, features=0)
    here = replace(sources()["tolokers-2"], load=lambda request: generate(model), on_disk=lambda home: True)
    monkeypatch.setitem(sources(), "tolokers-2", here)
    result = handful("datasets", "--root", tmp_path, "--check", "--json")
    assert result.code == 0, result.stderr
    rows = {row["name"]: row for row in result.json["check"]["rows"]}
    assert [name for name, row in rows.items() if row["measured"]] == ["tolokers-2"]
    agrees = {item["column"]: item["agrees"] for item in rows["tolokers-2"]["columns"]}
    assert len(agrees) == 9
    assert (agrees["nodes"], agrees["isolated"], agrees["components"]) == (True, True, True)
    assert (agrees["edges"], agrees["homophily"]) == (False, False)


def test_datasets_for_people(tmp_path: Path) -> None:
    result = handful("datasets", "--root", tmp_path, "--check")
    assert result.code == 0, result.stderr
    for part in ("ogbn-papers100M", "63.4K", "artnet-exp"):
        assert part in result.stdout
