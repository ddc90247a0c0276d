"""Train graph neural networks a handful of nodes at a time."""

from __future__ import annotations

import os
import sys

import lazy_loader

# Torch's idle OpenMP threads would spin on the cores that our kernels work on; read once, when torch is first
# imported. Where that has been, kernels/threads.py sees to it.
if "torch" not in sys.modules:
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# Tensors on huge pages: each of their pages is faulted in once for every 512 otherwise (see kernels/memory.py).
os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")

# The names stand in __init__.pyi. Each is imported when it is first used: `handful --help` need not wait for torch.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
