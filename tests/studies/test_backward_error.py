from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from handful.studies.backward_error import noisy_graph
from handful.vocabulary import FLOWS
from studies.smoke import smoke


@pytest.mark.slow
def test_the_modified_loss_holds_to_third_order_and_the_others_to_second(tmp_path: Path) -> None:
    found = smoke("backward-error", tmp_path)
    assert set(found.payload) == {"slopes", "steps", "errors", "parts"}
    slopes = found.payload["slopes"]
    assert slopes["modified"] == pytest.approx(3, abs=0.15)
    assert slopes["unmodified"] == pytest.approx(2, abs=0.15)
    assert slopes["appendix_coefficient"] == pytest.approx(2, abs=0.15)
    for name, errors in found.payload["errors"].items():
        fitted = np.polyfit(np.log(found.payload["steps"]), np.log(errors), 1)[0]
        assert fitted == pytest.approx(slopes[name], abs=0.1)
    assert [row[1].rank for row in found.tables[0].rows] == [1, 0, 0]
    assert FLOWS["modified"] in found.words


def test_the_graph_is_small_undirected_and_the_same_for_a_seed() -> None:
    graph = noisy_graph(50, 3)
    assert graph.num_nodes == 50
    assert graph.undirected
    assert noisy_graph(50, 3).checksum == graph.checksum != noisy_graph(50, 4).checksum
