"""Train graph neural networks a handful of nodes at a time."""

from __future__ import annotations

import os
import sys

import lazy_loader

# Torch's idle OpenMP threads would spin on the cores of our kernels. OpenMP reads this variable once, when torch is
# first imported. If torch is imported already, kernels/threads.py makes its idle threads sleep.
if "torch" not in sys.modules:
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# Tensors use huge pages: otherwise there are 512 times as many page faults (see kernels/memory.py).
os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")

# The names are in __init__.pyi. Each is imported on first use, so `handful --help` does not import torch.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
