"""``bench gpu`` without a GPU: what it makes of its numbers, and where it runs."""

from __future__ import annotations

import sys

import pytest
import torch

from handful.bench import gpu
from handful.bench.epoch import LABELS
from handful.errors import HandfulError
from handful.training.record import environment


def result(meaning: bool) -> dict[str, object]:
    seconds = {name: float(i + 1) for i, name in enumerate(LABELS)}
    return {
        "graph": "made-up", "nodes": 10, "edges": 20, "parts": 2, "rounds": 3, "device": "a GPU", "kernels": "triton",
        "environment": environment(), "has_meaning": meaning, "graph_bytes": 2**29, "seconds": seconds,
        "peak_bytes": dict.fromkeys(LABELS, 2 ** 30 if meaning else None),
    }  # fmt: skip


@pytest.mark.parametrize("meaning", [True, False])
def test_the_table_and_its_notes(meaning: bool) -> None:
    told = result(meaning)
    table = gpu.gpu_table(told)
    assert [row[0].text for row in table.rows] == list(LABELS.values())
    assert {len(row) for row in table.rows} == {len(table.head)}
    ours = table.rows[list(LABELS).index("handful_fp32")]
    assert [cell.text for cell in ours] == ["handful fp32", "3.0000", "0.60", "0.67", "1.00" if meaning else "–"]
    words = gpu.notes(told)
    assert "0.50 GiB" in words[0]
    assert (gpu.MEANINGLESS in words) != meaning


def test_without_a_gpu_triton_is_interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert gpu.device_for_bench(None) == "cpu"
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    monkeypatch.setitem(sys.modules, "triton", object())  # type: ignore[arg-type]
    with pytest.raises(HandfulError, match="TRITON_INTERPRET=1"):
        gpu.device_for_bench("cpu")
    monkeypatch.setattr(gpu, "has_triton", lambda: False)
    with pytest.raises(HandfulError, match="pip install triton"):
        gpu.device_for_bench(None)
