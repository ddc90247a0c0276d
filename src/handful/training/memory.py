"""Peak memory of the training itself, not of what came before it in the same process."""

from __future__ import annotations

import contextlib
import gc
import sys
from pathlib import Path

import torch

from handful.budget import read_sizes
from handful.kernels.memory import release

_CLEAR = Path("/proc/self/clear_refs")


def reset_peak_memory(device: torch.device) -> None:
    """Start measuring anew. Where the system cannot (outside Linux), the peak is that of the whole process."""
    with contextlib.suppress(OSError):
        _CLEAR.write_text("5")
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)


def resting_ram() -> int:
    """The resident size with nothing kept that is not in use, in bytes; the peak is measured from here on."""
    gc.collect()
    release()
    reset_peak_memory(torch.device("cpu"))
    return peak_ram()


def peak_ram() -> int:
    """The largest resident size since the last reset, in bytes."""
    if peak := read_sizes().get("VmHWM"):
        return peak
    if sys.platform == "win32":
        import psutil

        return int(psutil.Process().memory_info().peak_wset)
    import resource  # not on Windows

    scale = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale


def free_gpu(device: torch.device) -> int | None:
    """The bytes that torch may still take on this device; ``None`` without a GPU."""
    if device.type != "cuda":
        return None
    held, used = torch.cuda.memory_reserved(device), torch.cuda.memory_allocated(device)
    return int(torch.cuda.mem_get_info(device)[0]) + held - used


def peak_gpu(device: torch.device) -> int | None:
    """The largest memory that torch held on this device since the last reset, in bytes; ``None`` without a GPU."""
    return int(torch.cuda.max_memory_allocated(device)) if device.type == "cuda" else None
