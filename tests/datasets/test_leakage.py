from __future__ import annotations

import numpy as np
import pytest

from handful.datasets.leakage import leaking_columns
from handful.datasets.schema import Column, Edges, Schema

N = 6000


def leaks(columns: list[Column], x: list[np.ndarray], y: np.ndarray) -> list[str]:
    schema = Schema("id", Edges("s", "t"), tuple(columns))
    return list(leaking_columns(schema, np.concatenate([np.atleast_2d(part.T).T for part in x], axis=1), y))


@pytest.mark.parametrize("share", [0.5, 0.02])
def test_a_column_that_tells_the_class_is_named_and_a_good_one_is_not(share: float) -> None:
    rng = np.random.default_rng(0)
    y = (rng.random(N) < share).astype(np.int64)
    noisy = np.where(rng.random(N) < 0.1, 1 - y, y)
    codes = np.eye(1001, dtype=np.float32)[rng.integers(0, 1000, N)]  # so many categories are learnt by heart
    columns = [Column("told", "number"), Column("good", "boolean")]
    columns.append(Column("code", "category", categories=tuple(map(str, range(1000)))))
    assert leaks(columns, [rng.normal(5 * y, 0.1), noisy, codes], y) == ["told"]
    y[: N // 2] = -1
    assert leaks(columns[:2], [5.0 * (y == 1), noisy], y) == ["told"]


def test_a_missing_value_tells_as_much_as_a_value() -> None:
    y = np.arange(N) % 2
    closed = np.stack([np.random.default_rng(1).normal(size=N), y], axis=1)
    assert leaks([Column("closed", "date", fill=(0.0,), indicator=True)], [closed], y) == ["closed"]


def test_numbers_to_predict_and_labels_without_a_second_class() -> None:
    rng = np.random.default_rng(2)
    y = rng.gamma(2, 100, N).astype(np.float32)
    columns = [Column("net", "number"), Column("near", "number")]
    assert leaks(columns, [y / 1.19, y + rng.normal(0, 100, N)], y) == ["net"]
    assert leaks(columns, [y, y], np.zeros(N, np.int64)) == []
    assert leaks(columns, [y, y], np.full(N, -1)) == []
