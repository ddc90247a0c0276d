from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from handful import load
from handful.studies.degree_law import tail_lines
from studies.smoke import GRAPH, smoke


def test_the_law_is_near_what_is_sampled(tmp_path: Path) -> None:
    found = smoke("degree-law", tmp_path)
    assert set(found.payload) == {"graph", "parts"}
    n = load(GRAPH).num_nodes
    for row in found.payload["parts"]:
        assert set(row) == {"m", "alpha", "survival", "survival_sampled", "distance"}
        assert row["distance"] < 0.15
        assert row["survival"] == pytest.approx(1 / row["m"], abs=20 / n)
        assert row["survival_sampled"] == pytest.approx(row["survival"], abs=0.1)
    assert found.payload["parts"][0]["distance"] < 1e-9
    assert [view.name for view in found.charts[0].views] == ["degrees", "edges", "exponent"]


def test_tails_are_sums_from_the_right() -> None:
    law = np.array([0.4, 0.3, 0.2, 0.1])
    exact, seen = tail_lines(4, law, np.array([0.5, 0.5, 0.0, 0.0]), color=2)
    assert exact.x == seen.x == [1]  # no sample goes further
    assert exact.y == [pytest.approx(0.6)]
    assert seen.y == [pytest.approx(0.5)]
    assert (exact.mark, seen.mark, seen.color) == (None, "dot", 2)
