"""Peaks of memory: what was held at once counts, and what was before the reset does not."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from handful.training.memory import _CLEAR, peak_gpu, peak_ram, reset_peak_memory, resting_ram

SIZE = 256 << 20


def can_reset() -> bool:
    try:
        _CLEAR.write_text("5")
    except OSError:
        return False
    return True


@pytest.mark.skipif(not can_reset(), reason="this system cannot reset the peak of a process")
def test_the_peak_is_that_since_the_reset() -> None:
    before = resting_ram()
    block = np.ones(SIZE, np.uint8)
    assert peak_ram() - before >= 0.9 * SIZE
    assert block[0] == 1
    del block
    assert peak_ram() - before >= 0.9 * SIZE  # it was there at some time
    reset_peak_memory(torch.device("cpu"))
    assert peak_ram() - before < 0.5 * SIZE


def test_without_the_systems_file_it_is_the_peak_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    here = peak_ram()
    monkeypatch.setattr("handful.training.memory.read_sizes", dict)
    assert peak_ram() >= 0.9 * here


def test_a_cpu_has_no_memory_of_a_gpu() -> None:
    assert peak_gpu(torch.device("cpu")) is None
