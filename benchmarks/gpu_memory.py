"""The memory that a training step takes on a GPU, found without one: ``python benchmarks/gpu_memory.py``.

The shapes are those of ogbn-products; see ``handful.bench.audit``.
"""

from __future__ import annotations

from handful import make_model
from handful.bench.audit import PRODUCTS, audit_step
from handful.vocabulary import MODELS

HIDDEN, LAYERS = 256, 5
PARTS = (1, 10)


def main() -> None:
    print(f"GiB at the peak of a step, {LAYERS}×{HIDDEN}, ogbn-products' shape")
    print("| model | norm |", " | ".join("full graph" if m == 1 else f"a part of m = {m}" for m in PARTS), "|")
    print("| --- | --- |" + " ---: |" * len(PARTS))
    for name in ("sage", "gcn", "gat"):
        for norm in ("ln", "bn"):
            peaks = []
            for m in PARTS:
                shape = PRODUCTS.of_parts(m)
                model = make_model(name, shape.features, shape.classes, hidden=HIDDEN, layers=LAYERS, norm=norm)
                peaks.append(f"{audit_step(model, shape).peak / 2**30:.2f}")
            print(f"| {MODELS[name]} | {norm} |", " | ".join(peaks), "|")


if __name__ == "__main__":
    main()
