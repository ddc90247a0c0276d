"""Counting the edges that join equal labels, in all and by class."""

from __future__ import annotations

from typing import Any

from handful.kernels.threads import kernel


@kernel
def same_label_edges(indptr: Any, indices: Any, y: Any) -> tuple[int, int]:
    """How many edges of a CSR join two equal labels, and how many join two known ones.

    ``y`` has one label per node, and -1 where the label is not known.
    """
    same, known = 0, 0
    for v in range(indptr.shape[0] - 1):
        if y[v] < 0:
            continue
        for e in range(indptr[v], indptr[v + 1]):
            other = y[indices[e]]
            known += other >= 0
            same += other == y[v]
    return same, known


@kernel
def class_edges(indptr: Any, indices: Any, y: Any, inside: Any, ends: Any) -> None:
    """Count the edges of a CSR by the class of their target: in ``inside`` those that join two nodes of the class, in
    ``ends`` all that join two known labels."""
    for v in range(indptr.shape[0] - 1):
        if y[v] < 0:
            continue
        for e in range(indptr[v], indptr[v + 1]):
            other = y[indices[e]]
            ends[y[v]] += other >= 0
            inside[y[v]] += other == y[v]
