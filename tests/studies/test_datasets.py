from __future__ import annotations

from pathlib import Path

import pytest

from datasets.test_graphland import write
from handful.errors import DatasetError
from handful.studies import Request, run_study
from handful.studies.datasets import absent, here
from handful.studies.paper_table import PAPER
from handful.theory.structure import COLUMNS
from studies.smoke import smoke


def test_the_one_that_was_asked_for(tmp_path: Path) -> None:
    found = smoke("datasets", tmp_path)
    assert set(found.payload) == {"datasets"}
    (row,) = found.payload["datasets"]
    assert (row["nodes"], row["features"], row["classes"], row["paper"]) == (300, 8, 3, None)
    assert found.tables[0].rows[0][1].text == "300"


def test_what_is_on_disk_is_measured_and_held_against_the_paper(tmp_path: Path) -> None:
    write(tmp_path / "home" / "tolokers-2")
    found = run_study("datasets", Request(budget="smoke", root=str(tmp_path / "home")))
    rows = {row["name"]: row for row in found.payload["datasets"]}
    assert list(rows) == ["debian", *PAPER]
    assert rows["debian"]["nodes"] == 63_436
    assert rows["tolokers-2"]["nodes"] == 60
    assert [name for name, row in rows.items() if "missing" not in row] == ["debian", "tolokers-2"]
    cells = {row[0].text: [cell.text for cell in row[1:]] for row in found.tables[0].rows}
    assert cells["tolokers-2"][COLUMNS.index("nodes")] == "60≠"
    assert not any("≠" in text for text in cells["debian"])
    assert cells["pokec"][0] == "not on disk"
    assert "Not on disk: ogbn-arxiv, ogbn-products" in found.words


def test_one_that_is_not_here_is_told(tmp_path: Path) -> None:
    root = str(tmp_path)
    assert not here("pokec", root)
    assert here("debian", root)
    assert here("some/path.npz", root)
    assert absent("pokec", root) == f"not in {root}: `handful info pokec` fetches it"
    with pytest.raises(DatasetError, match="handful info pokec"):
        run_study("datasets", Request("pokec", budget="smoke", root=root))
