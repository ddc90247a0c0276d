"""Makes the table of PyG's modules in pyg.md: `python docs/pyg_table.py` writes it, and a test holds the page to it."""

from __future__ import annotations

import inspect
import sys
import warnings
from pathlib import Path

import torch
from torch import nn
from torch_geometric.nn import conv, models

import handful as hf
from handful.training.module import logits_of

PAGE = Path(__file__).parent / "pyg.md"
BEGIN, END = "<!-- table -->\n", "<!-- end of table -->"
OPTIONS = {
    "in_channels": 4,
    "out_channels": 3,
    "hidden_channels": 8,
    "channels": 4,
    "num_layers": 2,
    "heads": 1,
    "nn": nn.Linear(4, 4),
    "K": 2,
    "dim": 2,
    "kernel_size": 2,
    "num_relations": 2,
    "alpha": 0.1,
    "num_bases": 2,
    "eps": 0.1,
    "num_heads": 1,
}


def graphs() -> dict[str, hf.Graph]:
    """The same graph with different values of edges."""
    plain = hf.load("synthetic?nodes=40&degree=4&features=4&classes=3")
    edges = plain.num_edges
    values = torch.rand(edges, 2, generator=torch.Generator().manual_seed(0))
    kinds = (values[:, :1] > 0.5).float()
    return {
        "no values": plain,
        "`edge_weight`": plain.replace(edge_weight=torch.ones(edges)),
        "`edge_attr`": plain.replace(edge_attr=values),
        "`edge_type`": plain.replace(edge_attr=kinds),
    }


def made(kind: type[nn.Module], edge_dim: int | None) -> nn.Module | None:
    """The module, if the options above are enough."""
    parameters = inspect.signature(kind.__init__).parameters.values()
    needed = [p.name for p in parameters if p.default is p.empty and p.kind < 2 and p.name != "self"]
    options = {name: OPTIONS[name] for name in needed if name in OPTIONS}
    names = {p.name for p in parameters}
    if edge_dim is not None and ("edge_dim" in names or kind.__name__ in ("GAT", "PNA")):
        options["edge_dim"] = edge_dim
    if "out_channels" in names and "hidden_channels" in names:
        options["out_channels"] = 3
    try:
        return kind(**options) if len(options) >= len(needed) else None
    except Exception:  # needs an option that has a default, or another package
        return None


def answer(kind: type[nn.Module], name: str, graph: hf.Graph) -> str | None:
    """Whether it runs; ``None`` where it cannot be built or called in this way, and is not refused."""
    width = None if name == "no values" else 1 if graph.edge_attr is None else graph.edge_attr.shape[1]
    torch.manual_seed(0)
    model = made(kind, width)
    if model is None:
        return None
    try:
        out = logits_of(model, next(hf.RandomNodes(parts=2).epoch(graph, 0, 0)))
    except hf.HandfulError:
        return "–"
    except Exception:  # an error of the module's own, such as one of shapes
        return None
    return "yes" if out.ndim == 2 else None


def table() -> str:
    """A row for each module."""
    rows = []
    known = graphs()
    for package in (conv, models):
        for name in sorted(set(package.__all__)):
            kind = getattr(package, name)
            if not (inspect.isclass(kind) and issubclass(kind, nn.Module)):
                continue
            if [*inspect.signature(kind.forward).parameters][1:3] != ["x", "edge_index"]:
                continue
            answers = [answer(kind, what, graph) for what, graph in known.items()]
            if "yes" in answers:
                where = package.__name__.removeprefix("torch_geometric.")
                rows.append(f"| `{where}.{name}` | " + " | ".join(one or "" for one in answers) + " |")
    head = "| module | " + " | ".join(known) + " |\n" + "|---" * (len(known) + 1) + "|\n"
    return head + "\n".join(rows) + "\n"


def page() -> str:
    """The page with the table as it is now."""
    before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    return before + BEGIN + table() + END + rest.split(END)[1]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.stdout.write(table())
    PAGE.write_text(page(), encoding="utf-8")
