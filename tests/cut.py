"""The Debian graph cut down, for tests that train on something real."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from handful.datasets import load


def cut_debian(path: Path, nodes: int = 1500) -> str:
    """Write what the best connected packages induce, as a .npz file, and return its name."""
    graph = load("debian")
    kept = np.sort(np.argsort(-graph.in_degree.numpy(), kind="stable")[:nodes])
    number = np.full(graph.num_nodes, -1)
    number[kept] = np.arange(nodes)
    edges = number[graph.edge_index.numpy()]
    masks = {name: getattr(graph, name).numpy()[kept] for name in ("train_mask", "val_mask", "test_mask")}
    arrays = {"x": graph.x.numpy()[kept], "y": graph.y.numpy()[kept], **masks}
    np.savez(path, edge_index=edges[:, (edges >= 0).all(0)], **arrays)
    return str(path)
