"""``handful datasets`` as a user meets it."""

from __future__ import annotations

from pathlib import Path

from cli.run import handful
from handful.datasets.registry import sources


def test_datasets_as_json(tmp_path: Path) -> None:
    result = handful("datasets", "--root", tmp_path, "--json")
    assert result.code == 0, result.stderr
    found = result.json
    assert found["home"] == str(tmp_path)
    assert len(found["datasets"]) == len(sources())
    on_disk = {data["name"]: data["on_disk"] for data in found["datasets"]}
    assert on_disk["debian"] is True
    assert on_disk["ogbn-arxiv"] is False


def test_datasets_for_people(tmp_path: Path) -> None:
    result = handful("datasets", "--root", tmp_path)
    assert result.code == 0, result.stderr
    for part in ("ogbn-papers100M", "63.4K", "artnet-exp"):
        assert part in result.stdout
