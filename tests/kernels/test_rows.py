from __future__ import annotations

import numpy as np
import pytest

from handful.kernels.rows import put_rows


@pytest.mark.parametrize(("count", "width", "dtype"), [(0, 3, np.int16), (5, 1, np.int32), (3000, 40, np.int16)])
def test_rows_go_to_their_places(count: int, width: int, dtype: type) -> None:
    rng = np.random.default_rng(0)
    rows = rng.integers(-100, 100, (count, width)).astype(dtype)
    places = rng.permutation(count + 4)[:count]
    out, expected = np.zeros((count + 4, width), dtype), np.zeros((count + 4, width), dtype)
    expected[places] = rows
    put_rows(rows, places, out)
    np.testing.assert_array_equal(out, expected)
