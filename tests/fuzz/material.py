"""Valid inputs for every door, all small: what the mutators begin with."""

from __future__ import annotations

import gzip
import io
import json
import re
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import torch
from scipy.io import savemat

import handful as hf
from graphs import make_graph
from handful.finding import Axis, Cell, Chart, Finding, Series, Table, View
from handful.report.page import write_finding
from npz import arrays_of
from scripts import script

Files = dict[str, bytes]

SECTIONS = ("admin", "editors", "libs")
WORDS = ("tool", "library", "editing", "text", "network", "small", "fast")


def files_below(folder: Path) -> Files:
    """Every file in ``folder``, by its path in it; locks are none of the input."""
    found = (path for path in sorted(folder.rglob("*")) if path.is_file() and not path.name.startswith("lock"))
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def zipped(files: Files) -> bytes:
    """The files as an archive."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return out.getvalue()


def rows(*columns: object) -> bytes:
    """Lines of a CSV file."""
    return "".join(",".join(map(str, row)) + "\n" for row in zip(*columns, strict=True)).encode()


def packed(files: Files) -> Files:
    """The same, each file gzipped."""
    return {f"{name}.gz": gzip.compress(content, mtime=0) for name, content in files.items()}


def make(folder: Path) -> dict[str, Files]:
    """The inputs of every door by its name, made below ``folder``."""
    graph = make_graph(30, 3, 3, 4)
    out: dict[str, Files] = {}
    npz = io.BytesIO()
    np.savez(npz, **arrays_of(graph))
    out["npz"] = {"graph.npz": npz.getvalue()}
    weighted = make_graph(20, 3, 2, 3, weighted=True, undirected=False)
    hf.save(graph, folder / "saved")
    out["saved"] = {k: v for k, v in files_below(folder / "saved").items() if k != "verified.json"}
    pt = io.BytesIO()
    torch.save(
        {"edge_index": weighted.edge_index, "edge_weight": weighted.edge_weight, "x": weighted.x, "y": weighted.y}, pt
    )
    out["pt"] = {"graph.pt": pt.getvalue()}
    out |= tables(graph)
    out |= predictions(folder, out["csv"])
    out |= publishers()
    out |= records(folder)
    text = "".join(
        f"Package: p{i}\nDepends: p{(i * 7) % 30}, p{(i * 3) % 30} | none\nSection: {SECTIONS[i % 3]}\n"
        f"Description: {WORDS[i % 7]} {WORDS[i % 5]} {WORDS[i % 3]}\n more\n\n"
        for i in range(30)
    )
    (folder / "Packages").write_text(text)
    builder = script("build_debian", "examples")
    builder.save_arrays(builder.build(builder.read_index(folder / "Packages")), folder / "debian.npz")
    out["index"] = {"Packages": text.encode()}
    out["debian"] = {"debian.npz": (folder / "debian.npz").read_bytes()}
    return out


def tables(graph: hf.Graph) -> dict[str, Files]:
    """An edge list and a node table, as CSV and as Parquet."""
    assert graph.x is not None
    assert graph.y is not None
    sources, targets = graph.edge_index.tolist()
    ids = [f"n{i}" for i in range(graph.num_nodes)]
    edges = pa.table(
        {"source": [ids[i] for i in sources], "target": [ids[i] for i in targets], "weight": [1.5] * len(sources)}
    )
    nodes = pa.table(
        {
            "id": ids,
            "label": [f"class {int(c)}" for c in graph.y],
            "age": [float(v) for v in graph.x[:, 0]],
            "city": [("rome", "oslo", "bonn")[i % 3] for i in range(graph.num_nodes)],
            "split": [("train", "val", "test", "train")[i % 4] for i in range(graph.num_nodes)],
        }
    )
    made: dict[str, Files] = {"csv": {}, "parquet": {}}
    for name, table in (("edges", edges), ("nodes", nodes)):
        text, binary = io.BytesIO(), io.BytesIO()
        pa.csv.write_csv(table, text)
        pa.parquet.write_table(table, binary)
        made["csv"][f"{name}.csv"] = text.getvalue().replace(b'"', b"")
        made["parquet"][f"{name}.parquet"] = binary.getvalue()
    plain = rows(["source", *sources], ["target", *targets])
    return {**made, "edges": {"edges.csv": plain}}


def predictions(folder: Path, csv: Files) -> dict[str, Files]:
    """A run on tables, the tables and some ids; and the schema of the tables."""
    place = folder / "tables"
    place.mkdir()
    for name, content in csv.items():
        (place / name).write_bytes(content)
    experiment(str(place)).run(folder / "of-tables")
    run = {f"run/{name}": content for name, content in files_below(folder / "of-tables").items()}
    schema = json.dumps(hf.load(place).schema).encode()
    old = {f"old/{name}": content for name, content in csv.items()}
    new = {name: re.sub(rb"(?m)^n(?=\d)", b"m", content) for name, content in csv.items()}  # other sources, other ids
    return {
        "predict": {**run, **csv, "ids.txt": b"n3\nn1\nn4\n"},
        "schema": {**csv, "schema.json": schema},
        "update": {**old, **new},
    }


def publishers() -> dict[str, Files]:
    """The raw files of OGB, GraphLand and LINKX, and archives of them."""
    ends = np.array([[0, 0, 1, 3, 4], [1, 2, 2, 0, 4]])
    x = np.arange(10).reshape(5, 2) / 4
    split = {f"split/time/{part}.csv": rows(ids) for part, ids in (("train", [0, 3]), ("valid", [1]), ("test", [4, 2]))}
    raw = {"edge": rows(*ends), "node-feat": rows(*x.T), "node-label": rows([2, 0, 1, 1, 0])}
    counts = {"num-node-list": rows([5]), "num-edge-list": rows([5])}
    text = packed({**{f"raw/{name}.csv": content for name, content in {**raw, **counts}.items()}, **split})
    data, label = io.BytesIO(), io.BytesIO()
    np.savez(data, edge_index=ends, node_feat=x.astype(np.float32), num_nodes_list=np.array([5]))
    np.savez(label, node_label=np.array([[2.0], [0], [1], [1], [0]]))
    binary = {"raw/data.npz": data.getvalue(), "raw/node-label.npz": label.getvalue(), **packed(split)}
    n = 12
    parts = [("train", "val", "test")[i % 3] for i in range(n)]
    masks = rows(["id", *range(n)], *([p, *(part == p for part in parts)] for p in ("train", "val", "test")))
    info = (
        "task: binary_classification\ntarget_name: banned\nnumerical_features_names: [age]\n"
        "fraction_features_names: []\ncategorical_features_names: [kind]\n"
    )
    land = {
        "info.yaml": info.encode(),
        "features.csv": rows(
            ["id", *range(n)], ["age", *(i * 1.5 for i in range(n))], ["kind", *(i % 3 for i in range(n))]
        ),
        "targets.csv": rows(["id", *range(n)], ["banned", *(i % 2 for i in range(n))]),
        "edgelist.csv": rows(["source", *range(n)], ["target", *((i * 5 + 1) % n for i in range(n))]),
        "split_masks_RL.csv": masks,
        "split_masks_RH.csv": masks,
    }
    mat = io.BytesIO()
    savemat(mat, {"edge_index": ends[:, :4], "node_feat": x[:5], "label": np.array([[1, 0, 0, -1, 1]])})
    archives = {"arxiv.zip": zipped({f"arxiv/{name}": content for name, content in text.items()})}
    return {
        "ogb": text,
        "ogb binary": binary,
        "graphland": land,
        "linkx": {"pokec.mat": mat.getvalue()},
        "archive": {**archives, "tolokers-2.zip": zipped({f"tolokers-2/{k}": v for k, v in land.items()})},
    }


def experiment(graph: str) -> hf.Experiment:
    """One that trains in no time."""
    return hf.Experiment(
        graph,
        model="sage",
        sampler=hf.RandomNodes(parts=2),
        hidden=4,
        layers=2,
        epochs=2,
        seeds=(1,),
        checkpoint_seconds=0.0,
    )


GRAPH = "synthetic?nodes=60&degree=3&classes=3&features=4"


def records(folder: Path) -> dict[str, Files]:
    """A run that has ended, and a folder of findings."""
    experiment(GRAPH).run(folder / "run")
    series = Series("RNS", [1, 2, 4], [0.5, 0.6, None], [0.4, None, 0.1], [0.6, 0.7, 0.2])
    view = View("epochs", "line", Axis("epoch", whole=True), Axis("test (%)", log=True), [series])
    table = Table("two", ["Method", "Test"], [[Cell("RNS"), Cell("72.5", 1)]])
    finding = Finding(
        "samplers",
        "A study",
        "Words.",
        [table],
        [Chart("curves", "a chart", [view])],
        {"rows": [1, 2]},
        {"budget": "smoke"},
    )
    write_finding(finding, folder / "records" / "samplers")
    kept = {k: v for k, v in files_below(folder / "records").items() if k.endswith(".json")}
    run = files_below(folder / "run")
    tuned = {"experiment.json": json.dumps(experiment(GRAPH).to_json()).encode()}
    return {"run": run, "records": {**kept, **{f"run/{k}": v for k, v in run.items()}}, "experiment": tuned}
