from __future__ import annotations

from pathlib import Path

from scipy.stats import spearmanr

from studies.smoke import smoke


def test_one_point_for_every_sampler(tmp_path: Path) -> None:
    found = smoke("powerlaw", tmp_path)
    assert set(found.payload) == {"graph", "batches", "seeds", "settings", "rank_correlation", "samplers"}
    points = [(row["alpha_error"], row["R"]) for row in found.payload["samplers"]]
    assert found.payload["rank_correlation"] == spearmanr(*zip(*points, strict=True)).statistic
    (view,) = found.charts[0].views
    assert [(series.x[0], series.y[0]) for series in view.series] == points
    ranks = [[cell.rank for cell in row[1:]] for row in found.tables[0].rows]
    assert ("bottom left corner" in found.words) == ([1, 1] in ranks)
