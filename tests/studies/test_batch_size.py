"""Samplers with equal targets in a batch."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphs import make_graph
from handful.studies.batch_size import SAMPLERS, STEPS, _targets, in_words, sized
from handful.training.metrics import METRICS
from studies.smoke import smoke


@pytest.mark.parametrize("steps", [2, 8])
@pytest.mark.parametrize("name", SAMPLERS)
def test_a_batch_has_its_share_of_the_targets(
    name: str, steps: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HANDFUL_HOME", str(tmp_path))
    graph = make_graph(1200)
    wanted = len(graph.train_nodes) / steps
    found = _targets(sized(name, graph, steps), graph, seed=3, batches=8 if steps == 8 else 2)
    assert found == pytest.approx(wanted, rel=0.15)


@pytest.mark.slow
def test_every_sampler_at_every_size(tmp_path: Path) -> None:
    found = smoke("batch-size", tmp_path, jobs=2)
    assert len(found.tables[0].rows) == len(SAMPLERS)
    assert len(found.payload["cells"]) == len(SAMPLERS) * len(STEPS["smoke"])
    assert all(cell["test"]["mean"] >= 0 for cell in found.payload["cells"])


def test_words() -> None:
    means = {"rns-2": 0.7, "saint-2": 0.72, "rns-8": 0.6, "saint-8": 0.66}
    assert in_words(means, [2, 8], METRICS["accuracy"]).startswith("Samplers of one size are 4.00 points apart")
    assert "sizes of one sampler 8.00 points" in in_words(means, [2, 8], METRICS["accuracy"])
