"""Every door: how a case for it is made, and how it is opened. Opening may succeed or raise a ``HandfulError``."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import handful as hf
from fuzz import mutate
from fuzz.material import GRAPH, Files, experiment
from handful.errors import HandfulError
from scripts import script

Made = tuple[Files, tuple[str, ...]]
Mutator = Callable[[Random, bytes], bytes]


@dataclass(frozen=True)
class Door:
    """One way in.

    Args:
        make: files and words of a case, drawn from a generator, given the valid files of this door.
        open: uses a case: given its folder and its words.
        share: how often it is tried, relative to others.
        seconds: how long a case may take.
    """

    make: Callable[[Random, Files], Made]
    open: Callable[[Path, list[str]], Any]
    share: float = 1.0
    seconds: float = 20.0


def one_changed(*mutators: Mutator) -> Callable[[Random, Files], Made]:
    """One file of the material, changed by one of the mutators; now and then lost, emptied or exchanged."""

    def make(rng: Random, files: Files) -> Made:
        out = dict(files)
        name = rng.choice(list(out))
        how = rng.random()
        if how < 0.02:
            del out[name]
        elif how < 0.04:
            out[name] = out[rng.choice(list(out))]
        else:
            out[name] = _fitting(rng, name, mutators)(rng, out[name])
        return out, ()

    return make


def _fitting(rng: Random, name: str, mutators: tuple[Mutator, ...]) -> Mutator:
    if name.endswith(".json"):
        return mutate.mutate_json
    if name.endswith(".npy"):
        return mutate.mutate_npy
    if name.endswith((".jsonl",)):
        return mutate_lines
    return rng.choice(mutators or (mutate.mutate_bytes,))


def mutate_lines(rng: Random, data: bytes) -> bytes:
    """One line of JSON lines changed, lost, doubled or torn."""
    lines = data.splitlines(keepends=True)
    at = rng.randrange(len(lines))
    lines[at] = rng.choice(
        [b"", lines[at] * 2, lines[at][:5], mutate.mutate_json(rng, lines[at]) + b"\n", b"null\n", b"\xff\n"]
    )
    return b"".join(lines)


# -- graphs in files --------------------------------------------------------------------------------------------------


def make_npz(rng: Random, files: Files) -> Made:
    data = files["graph.npz"]
    if rng.random() < 0.4:
        return {"graph.npz": mutate.mutate_zip(rng, data, mutate.mutate_npy)}, ()
    with np.load(io.BytesIO(data)) as archive:
        arrays = dict(archive)
    for _ in mutate.several(rng):
        how, name = rng.random(), rng.choice(list(arrays))
        if how < 0.1:
            del arrays[name]
            if not arrays:
                break
        elif how < 0.3:
            extra = [
                "num_nodes",
                "num_classes",
                "class_names",
                "edge_weight",
                "train_idx",
                "split_idx",
                "name",
                "file",
                "é",
            ]
            value = [
                mutate.anything(rng),
                np.arange(3),
                np.zeros(len(arrays.get("y", ())) if np.ndim(arrays.get("y", ())) else 0),
            ]
            try:
                arrays[rng.choice(extra)] = np.asarray(rng.choice(value))
            except ValueError:
                continue
        else:
            arrays[name] = mutate.mutate_array(rng, arrays[name])
    out = io.BytesIO()
    write = np.savez_compressed if rng.random() < 0.3 else np.savez
    write(out, **{("file_" if k == "file" else k): v for k, v in arrays.items()}, allow_pickle=True)
    return {"graph.npz": out.getvalue()}, ()


def open_graph_file(folder: Path, words: list[str]) -> None:
    for path in sorted(folder.iterdir()):
        graph = hf.load(path)
        graph.identity()


def open_folder(folder: Path, words: list[str]) -> None:
    graph = hf.load(folder)
    graph.identity()
    _use(graph)


def _use(graph: hf.Graph) -> None:
    """One pass over the graph, as every command does it."""
    list(hf.RandomNodes(parts=1).subgraphs(graph, 0, 0))
    graph.to_undirected().coalesce().without_loops()


def open_saved(folder: Path, words: list[str]) -> None:
    _use(hf.load(folder))
    _use(hf.load(folder))  # the second time with the stamp of the first


def make_tables(rng: Random, files: Files) -> Made:
    out = dict(files)
    for _ in mutate.several(rng, 2):
        name = rng.choice(list(out))
        with contextlib.suppress(UnicodeDecodeError):
            out[name] = mutate.mutate_csv(rng, out[name])
    return out, ()


def make_parquet(rng: Random, files: Files) -> Made:
    import pyarrow as pa
    import pyarrow.parquet

    name = rng.choice(list(files))
    if rng.random() < 0.4:
        return {**files, name: mutate.mutate_bytes(rng, files[name])}, ()
    table = pa.parquet.read_table(io.BytesIO(files[name]))
    for _ in mutate.several(rng):
        at = rng.randrange(table.num_columns)
        column = table.column_names[at]
        how = rng.random()
        try:
            if how < 0.1:
                table = table.remove_column(at)
            elif how < 0.2:
                table = table.append_column(rng.choice(table.column_names), table.column(at))
            elif how < 0.3:
                table = table.slice(0, rng.choice([0, 1, 5]))
            elif how < 0.35:
                table = table.replace_schema_metadata({b"pandas": b"{"})
            else:
                table = table.set_column(at, column, odd_column(rng, len(table)))
        except (pa.ArrowException, ValueError, TypeError, OverflowError):
            continue
    out = io.BytesIO()
    try:
        pa.parquet.write_table(table, out, compression=rng.choice(["snappy", "gzip", "none", "zstd"]))
    except (pa.ArrowException, OSError):
        return make_parquet(rng, files)
    return {**files, name: out.getvalue()}, ()


def odd_column(rng: Random, n: int) -> Any:
    """A column of a type that a table of nodes seldom has."""
    import datetime
    import decimal

    import pyarrow as pa

    ids = [f"n{i}" for i in range(n)]
    made = [
        lambda: pa.array(ids).dictionary_encode(),
        lambda: pa.array([decimal.Decimal(i) / 3 for i in range(n)], pa.decimal128(20, 6)),
        lambda: pa.array([datetime.datetime(2020, 1, 1 + i % 28) for i in range(n)]),
        lambda: pa.array([datetime.timedelta(i) for i in range(n)]),
        lambda: pa.array([[float(i)] * rng.choice([0, 2, 3]) for i in range(n)]),
        lambda: pa.array([[1.0, None] for _ in range(n)]),
        lambda: pa.array([[[1.0]] for _ in range(n)]),
        lambda: pa.array([["a"] for _ in range(n)]),
        lambda: pa.array([[1.0, 2.0] for _ in range(n)], pa.list_(pa.float32(), 2)),
        lambda: pa.array([{"a": i, "b": "x"} for i in range(n)]),
        lambda: pa.array([[(1, 2)] for _ in range(n)], pa.map_(pa.int64(), pa.int64())),
        lambda: pa.array([b"\xff" + str(i).encode() for i in range(n)]),
        lambda: pa.array([None] * n),
        lambda: pa.array([None if i % 2 else i for i in range(n)]),
        lambda: pa.array([True] * n),
        lambda: pa.array([2**64 - 1 - i for i in range(n)], pa.uint64()),
        lambda: pa.array([2**53 + i for i in range(n)]),
        lambda: pa.array([i + 0.5 for i in range(n)]),
        lambda: pa.array([float(rng.choice(["nan", "inf", "-inf", "1e308", "0"])) for _ in range(n)]),
        lambda: pa.array([float(i) for i in range(n)], pa.float64()).cast(pa.float16()),
        lambda: pa.array([mutate.anything(rng)] * n),
        lambda: pa.array([rng.choice(mutate.TEXTS) for _ in range(n)]),
        lambda: pa.array([rng.choice(mutate.NUMBERS) for _ in range(n)]),
        lambda: pa.array(ids, pa.large_string()),
        lambda: pa.array([datetime.time(1, 2, 3)] * n),
    ]
    return rng.choice(made)()


def open_tables(folder: Path, words: list[str]) -> None:
    _use(hf.load(folder) if len(list(folder.iterdir())) > 1 else hf.load(folder / "edges.csv"))


def make_pt(rng: Random, files: Files) -> Made:
    import torch

    if rng.random() < 0.4:
        return {"graph.pt": mutate.mutate_zip(rng, files["graph.pt"])}, ()
    store: Any = torch.load(io.BytesIO(files["graph.pt"]))
    odd = [
        torch.zeros(3, dtype=torch.complex64),
        torch.eye(3).to_sparse(),
        torch.zeros(2, 4, dtype=torch.float64),
        torch.zeros(0),
        torch.tensor(5),
        torch.zeros(2, 3, dtype=torch.bool),
        torch.zeros(2, 3, device="meta"),
        torch.zeros(4, dtype=torch.bfloat16),
        torch.zeros(1).expand(10**12),
        torch.nn.Parameter(torch.zeros(20, 3)),
        torch.quantize_per_tensor(torch.zeros(20, 3), 1.0, 0, torch.qint8),
        *mutate.NESTED,
    ]
    for _ in mutate.several(rng):
        key = rng.choice([*store, "train_mask", "num_nodes", "num_classes", "class_names", "split_idx", 7])
        if rng.random() < 0.1:
            store.pop(key, None)
        elif isinstance(store.get(key), torch.Tensor) and rng.random() < 0.4:
            with contextlib.suppress(Exception):
                store[key] = torch.from_numpy(mutate.mutate_array(rng, store[key].numpy()))
        else:
            store[key] = rng.choice([rng.choice(odd), mutate.anything(rng)])
    if rng.random() < 0.05:
        store = mutate.anything(rng)
    out = io.BytesIO()
    try:
        torch.save(store, out)
    except Exception:
        return make_pt(rng, files)
    return {"graph.pt": out.getvalue()}, ()


def make_debian(rng: Random, files: Files) -> Made:
    made, _ = make_npz(rng, {"graph.npz": files["debian.npz"]})
    return {"debian.npz": made["graph.npz"]}, ()


def open_debian(folder: Path, words: list[str]) -> None:
    hf.load(f"debian?file={folder / 'debian.npz'}", split="rl")


def make_index(rng: Random, files: Files) -> Made:
    text = files["Packages"]
    lines = text.split(b"\n")
    for _ in mutate.several(rng):
        at = rng.randrange(len(lines))
        field = rng.choice([b"Package", b"Depends", b"Section", b"Description", b"Odd", b""])
        value = str(mutate.anything(rng)).encode("utf-8", "replace")
        lines[at] = rng.choice([b"", field + b": " + value, b" " + value, value, lines[rng.randrange(len(lines))]])
    text = b"\n".join(lines) if rng.random() < 0.7 else mutate.mutate_bytes(rng, text)
    if rng.random() < 0.3:
        import gzip
        import lzma

        text = rng.choice([gzip.compress, lzma.compress])(text)
        text = mutate.mutate_bytes(rng, text) if rng.random() < 0.6 else text
    return {"Packages": text}, ()


def open_index(folder: Path, words: list[str]) -> None:
    from handful.datasets import debian

    builder = script("build_debian", "examples")
    builder.save_arrays(builder.build(builder.read_index(folder / "Packages")), folder / "out.npz")
    debian.read(folder / "out.npz", "rh")


# -- the publishers' files --------------------------------------------------------------------------------------------


def make_publisher(rng: Random, files: Files) -> Made:
    import gzip

    out = dict(files)
    name = rng.choice(list(out))
    if rng.random() < 0.05:
        del out[name]
    elif name.endswith(".csv.gz") and rng.random() < 0.7:
        out[name] = gzip.compress(mutate.mutate_csv(rng, gzip.decompress(out[name])))
    elif name.endswith(".npz"):
        made, _ = make_npz(rng, {"graph.npz": out[name]})
        out[name] = made["graph.npz"]
    elif name.endswith(".csv"):
        out[name] = mutate.mutate_csv(rng, out[name])
    elif name.endswith(".yaml") and rng.random() < 0.7:
        lines = out[name].splitlines()
        at = rng.randrange(len(lines))
        key = lines[at].partition(b":")[0]
        odd = [
            str(mutate.anything(rng)).encode("utf-8", "replace"),
            b"[*a]",
            b"&a [*a]",
            b"!!python/object:os.system x",
            b"[1, [2]]",
        ]
        lines[at] = key + b": " + rng.choice(odd)
        out[name] = b"\n".join(lines)
    else:
        out[name] = mutate.mutate_bytes(rng, out[name])
    return out, ()


def open_ogb(folder: Path, words: list[str]) -> None:
    from handful.datasets.ogb import read_ogb

    graph, splits = read_ogb(folder, "time", "ogbn-arxiv")
    graph.replace(**splits["official"])


def open_graphland(folder: Path, words: list[str]) -> None:
    from handful.datasets.graphland import read_graphland

    graph, splits = read_graphland(folder, "tolokers-2")
    graph.replace(**splits["rl"])


def open_linkx(folder: Path, words: list[str]) -> None:
    from handful.datasets.pokec import read_linkx

    read_linkx(folder / "pokec.mat")


def make_archive(rng: Random, files: Files) -> Made:
    name = rng.choice(list(files))
    return {name: mutate.mutate_zip(rng, files[name])}, ()


def open_archive(folder: Path, words: list[str]) -> None:
    """As a data set by name, whose archive somebody has put into its place."""
    from handful.datasets.prepared import unpacked

    for path in sorted(folder.glob("*.zip")):
        with unpacked(path) as place:
            (open_ogb if (place / "raw").is_dir() else open_graphland)(place, words)
        outside = sorted(p.name for p in folder.parent.iterdir() if p.name not in (folder.name, "case.json"))
        assert not outside, f"the archive wrote outside its folder: {outside}"


# -- runs and records -------------------------------------------------------------------------------------------------


def open_run(folder: Path, words: list[str]) -> None:
    with contextlib.suppress(HandfulError):
        opened = hf.open_run(folder)
        _ = opened.results, opened.result, opened.history
        _ = opened.model, opened.models()
    experiment(GRAPH).run(folder, resume=True)


def make_run(rng: Random, files: Files) -> Made:
    made, _ = one_changed(mutate.mutate_bytes, mutate_safetensors)(rng, files)
    if rng.random() < 0.4:  # as after a kill: the run goes on from its checkpoint
        made = {name: content for name, content in made.items() if not name.endswith(("result.json", "summary.json"))}
    return made, ()


def mutate_safetensors(rng: Random, data: bytes) -> bytes:
    """Another header over the same bytes."""
    size = int.from_bytes(data[:8], "little")
    try:
        header = json.loads(data[8 : 8 + size])
    except ValueError:  # changed before: it has no header any more
        return data
    if "__metadata__" in header and rng.random() < 0.5:
        state = mutate.mutate_json(rng, header["__metadata__"]["state"].encode()).decode("utf-8", "replace")
        header["__metadata__"] = {"state": state}
    else:
        header = mutate.edited(rng, header)
    try:
        text = json.dumps(header).encode()
    except ValueError:
        return data
    return len(text).to_bytes(8, "little") + text + data[8 + size :]


def make_predict(rng: Random, files: Files) -> Made:
    """A run made from tables, other tables and a file of ids, one of them changed."""
    name = rng.choice(
        ["ids.txt", "edges.csv", "nodes.csv", *(2 * [n for n in files if n.endswith("encoding.json")]), *files]
    )
    out = dict(files)
    if name.endswith((".csv", ".txt")):
        with contextlib.suppress(UnicodeDecodeError):
            out[name] = mutate.mutate_csv(rng, out[name])
    else:
        out[name] = one_changed(mutate.mutate_bytes, mutate_safetensors)(rng, {name: out[name]})[0].get(name, b"")
    which = rng.choice(["{here}/ids.txt", "{here}/ids.txt", "all", "unlabelled", "test", "none", "{here}"])
    words = [
        "predict",
        "{here}/run",
        f"--nodes={which}",
        f"--out={{here}}/found.{rng.choice(['csv', 'npz', 'parquet'])}",
    ]
    words += rng.sample(["--changed", "--embeddings", "--json"], rng.choice([0, 0, 1, 2]))
    return out, (*words, *(["{here}/edges.csv", "{here}/nodes.csv"] if rng.random() < 0.8 else ["{here}"]))


def open_predict(folder: Path, words: list[str]) -> None:
    words = words or [
        "predict",
        str(folder / "run"),
        str(folder / "edges.csv"),
        str(folder / "nodes.csv"),
        "--nodes=all",
    ]
    try:
        command(words)
    finally:
        left = [path.name for path in folder.glob(".*")]
        assert not left, f"half-written files are left: {left}"


def make_schema(rng: Random, files: Files) -> Made:
    return {**files, "schema.json": mutate.mutate_json(rng, files["schema.json"])}, ()


def open_schema(folder: Path, words: list[str]) -> None:
    from handful.datasets.files import read_graph
    from handful.datasets.schema import Schema

    try:
        value = json.loads((folder / "schema.json").read_bytes())
    except (ValueError, RecursionError):
        return
    schema = Schema.from_json(value)
    assert Schema.from_json(json.loads(json.dumps(schema.to_json(), allow_nan=False))) == schema
    graph = read_graph(folder / "edges.csv", folder / "nodes.csv", schema=schema, say=lambda text: None)
    schema.table()
    assert schema.differences(Schema.from_json(graph.schema)) == []
    _use(graph)


def make_update(rng: Random, files: Files) -> Made:
    old = {name: content for name, content in files.items() if name.startswith("old/")}
    made, _ = make_tables(rng, {name: content for name, content in files.items() if name not in old})
    return {**old, **made}, (rng.choice(["error", "skip", "add"]),)


def open_update(folder: Path, words: list[str]) -> None:
    old = hf.load(folder / "old")
    nodes = folder / "nodes.csv"
    unknown: Any = (words or ["error"])[0]
    said: list[str] = []
    new = hf.update_graph(
        old, folder / "edges.csv", nodes if nodes.exists() else None, unknown=unknown, say=said.append
    )
    assert old.x is not None
    assert new.x is not None
    assert old.x.equal(new.x[: old.num_nodes])
    _use(new)


def open_records(folder: Path, words: list[str]) -> None:
    command(["report", str(folder)])


def make_experiment(rng: Random, files: Files) -> Made:
    return {"experiment.json": mutate.mutate_json(rng, files["experiment.json"])}, ()


def open_experiment(folder: Path, words: list[str]) -> None:
    try:
        value = json.loads((folder / "experiment.json").read_bytes())
    except (ValueError, RecursionError):
        return
    made = hf.Experiment.from_json(value)
    assert hf.Experiment.from_json(made.to_json()) == made


# -- words ------------------------------------------------------------------------------------------------------------

QUERIES = (
    "synthetic?nodes=60&degree=3&exponent=2.5&classes=3&homophily=0.5&features=4&signal=2&half=false&train=0.5&val=0.2&seed=1",
    "debian?file={here}/x.npz",
    "pokec",
    "pyg:Planetoid/Cora?fold=1",
    "ogbn-arxiv",
    "{here}/none.npz",
    "graph.npz",
)
SPLITS = (None, None, "rh", "rl", "random:60/20/20", "stratified:50/25/25", "official", "random:1/2", "random:nan/1/1")


def make_query(rng: Random, files: Files) -> Made:
    split = rng.choice(SPLITS)
    words = [mutate.mutate_query(rng, rng.choice(QUERIES))]
    if split is not None:
        words.append(split + rng.choice(["", *mutate.TEXTS]))
    if rng.random() < 0.2:
        words = [*words[:1], *(words[1:] or ["rh"]), str(rng.choice([n for n in mutate.NUMBERS if isinstance(n, int)]))]
    return {}, tuple(words)


def open_query(folder: Path, words: list[str]) -> None:
    split, seed = (words[1] if len(words) > 1 else None), int(words[2]) if len(words) > 2 else 0
    hf.load(words[0], split=split, root=folder, seed=seed)


SAMPLERS = ("rns", "neighbor", "cluster", "saint", "ladies", "full")


def make_sampler_words(rng: Random, files: Files) -> Made:
    from dataclasses import fields

    from handful.samplers import sampler_class

    name = rng.choice(SAMPLERS)
    known = [f.name for f in fields(sampler_class(name))] or ["x"]

    def value() -> str:
        return str(rng.choice(rng.choice([mutate.NUMBERS, mutate.TEXTS, ["3,2", "[2,3]", "true", "0.5", "4", "1"]])))

    return {}, (name, *(f"{rng.choice([*known, *known, *known, 'odd'])}={value()}" for _ in mutate.several(rng)))


def open_sampler(folder: Path, words: list[str]) -> None:
    from handful.cli.params import parse_options

    sampler = hf.make_sampler(words[0], **parse_options(words[1:]))
    json.dumps(sampler.options(), allow_nan=False)
    graph = hf.load("synthetic?nodes=60&degree=3&classes=3&features=4")
    for at, _ in enumerate(sampler.sample(graph, 0, 0)):
        if at > 20:
            break


def make_networkx(rng: Random, files: Files) -> Made:
    value: Any = {
        "nodes": [[i, {"x": [float(i), 1.0], "y": i % 2, "train_mask": i < 3, "val_mask": i == 3}] for i in range(5)],
        "edges": [[i, (i + 1) % 5, {"weight": 1.5}] for i in range(5)],
    }
    for _ in mutate.several(rng):
        value = mutate.edited(rng, value)
    return {"graph.json": json.dumps(value).encode()}, (rng.choice(["Graph", "DiGraph", "MultiGraph"]),)


def open_networkx(folder: Path, words: list[str]) -> None:
    import networkx as nx

    try:
        value = json.loads((folder / "graph.json").read_bytes())
        made = getattr(nx, words[0])()
        made.add_nodes_from((tuple(n) if isinstance(n, list) else n, d) for n, d in value["nodes"])
        made.add_edges_from((u, v, d) for u, v, d in value["edges"])
    except (TypeError, ValueError, KeyError, AttributeError, nx.NetworkXError):
        return
    hf.from_networkx(made)


def make_settings(rng: Random, files: Files) -> Made:
    from handful.settings import SETTING_NAMES

    names = [
        *SETTING_NAMES,
        "hidden",
        "layers",
        "dropout",
        "norm",
        "residual",
        "heads",
        "device",
        "model",
        "split",
        "seeds",
        "root",
    ]
    value = {rng.choice(names): mutate.anything(rng) for _ in mutate.several(rng)}
    return {"fields.json": json.dumps(value).encode()}, ()


def open_settings(folder: Path, words: list[str]) -> None:
    value = json.loads((folder / "fields.json").read_bytes())
    made = experiment(GRAPH).with_(**value)
    assert hf.Experiment.from_json(json.loads(json.dumps(made.to_json(), allow_nan=False))) == made


# -- the command line -------------------------------------------------------------------------------------------------


def command(arguments: list[str]) -> None:
    """``handful ARGUMENTS`` in this process; any end but success or a told mistake is an error here."""
    from handful import cli

    stdout, stderr, before = io.StringIO(), io.StringIO(), sys.argv
    sys.argv = ["handful", *arguments]
    code: Any = 0
    try:
        with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
            cli.main()
    except SystemExit as end:
        code = end.code or 0
    finally:
        sys.argv = before
    said = stderr.getvalue()
    if code == 2:
        raise HandfulError(said[-300:])
    if code not in (0, 1) or "Traceback" in said:
        raise AssertionError(f"exit code {code}: {said[-2000:]}")
    if code == 1 and arguments[0] not in ("study", "compare"):
        raise AssertionError(f"exit code 1: {said[-2000:]}")


LARGE = {
    "epochs",
    "trials",
    "repeats",
    "batches",
    "sources",
    "sweeps",
    "rounds",
    "nodes",
    "edges",
    "most",
    "jobs",
    "pyg_steps",
    "limit",
}
"""Options by which a user may ask for much work: of these, large values are no mistakes."""
CHEAP = {
    "train": ["train", "{here}/graph.npz", "--epochs=1", "--hidden=4", "--layers=1", "--seeds=1", "--out={here}/out"],
    "info": ["info", "{here}/graph.npz"],
    "structure": ["structure", "{here}/graph.npz", "--epochs=1", "--parts=1,2"],
    "report": ["report", "{here}"],
    "import": ["import", "{here}/edges.csv", "{here}/nodes.csv", "--out={here}/out"],
    "datasets": ["datasets", "--root={here}"],
    "diagnose": [
        "diagnose",
        "{here}/graph.npz",
        "--repeats=1",
        "--batches=1",
        "--hidden=4",
        "--layers=1",
        "--samplers=rns",
    ],
}
DEAR = {
    "compare": [
        "compare",
        "{here}/graph.npz",
        "--epochs=1",
        "--hidden=4",
        "--seeds=1",
        "--samplers=rns",
        "--out={here}/out",
    ],
    "parts": ["parts", "{here}/graph.npz", "--epochs=1", "--hidden=4", "--seeds=1", "--most=2", "--out={here}/out"],
    "study": ["study", "structure", "--graph={here}/graph.npz", "--budget=smoke", "--out={here}/out"],
    "tune": [
        "tune",
        "{here}/graph.npz",
        "--trials=1",
        "--epochs=1",
        "--hidden=4",
        "--seeds=1",
        "--no-final",
        "--out={here}/out",
    ],
    "bench epoch": ["bench", "epoch", "--graph={here}/graph.npz", "--rounds=1", "--hidden=4"],
    "bench loader": ["bench", "loader", "--nodes=100", "--edges=300", "--parts=2", "--rounds=1"],
}


def parameters(name: str) -> list[Any]:
    """The parameters of a command, as the app itself has them."""
    import typer.main
    from click import Context

    from handful import cli

    found: Any = typer.main.get_command(cli.app)
    for word in name.split():
        found = found.get_command(Context(found), word)
    return list(found.params)


def make_command(rng: Random, files: Files) -> Made:
    name = rng.choice(list(CHEAP)) if rng.random() < 0.93 else rng.choice(list(DEAR))
    words = list({**CHEAP, **DEAR}[name])
    known = [p for p in parameters(name) if p.param_type_name == "option" and p.name != "help"]
    for _ in mutate.several(rng):
        chosen = rng.choice(known)
        flag = rng.choice(chosen.opts)
        if chosen.is_flag:
            words.append(rng.choice([flag, *chosen.secondary_opts, f"{flag}=abc"]))
            continue
        value = odd_value(rng, chosen.name)
        words = [word for word in words if not word.startswith(f"{flag}=")]
        words += [f"{flag}={value}"] if flag.startswith("--") else [flag, value]
    if rng.random() < 0.05:
        words[rng.randrange(1, len(words))] = rng.choice(mutate.TEXTS)
    if rng.random() < 0.02:
        words.append(rng.choice(mutate.TEXTS))
    words = [word.replace("\0", "?").encode("utf-8", "replace").decode() for word in words]
    return dict(files), tuple(words)


def odd_value(rng: Random, name: str) -> str:
    """A value that an option of this name may get from somebody careless."""
    fitting = {
        "device": ["meta", "cpu:1", "cuda:99", "cpu,cpu", "gpu", "mps", "cpu,meta", "xla", "cuda:-1", "privateuseone"],
        "devices": ["cpu,cpu", "cpu,meta", ",", "cpu,", "cuda:0,cuda:1"],
        "seeds": ["1,1", "-1", "9999999999999999999999", "1,2,", "1.5", str(2**63), str(2**64)],
        "seed": ["-1", str(2**63), str(2**64), str(10**30)],
        "sampler": ["rns", "neighbor", "cluster", "saint", "ladies", "full", "rsn"],
        "sampler_option": [
            "parts=abc",
            "parts=2,4",
            "parts=0",
            "parts=1e3",
            "parts=null",
            "fanout=a",
            "stratify=7",
            "fraction=x",
            "odd=1",
        ],
        "model_option": ["hidden=abc", "dropout=nan", "layers=1e9", "norm=7", "residual=maybe", "alpha=x", "heads=0"],
        "model": ["gcn", "gat", "sgformer", "graphland-sage", "sage", "gnc"],
        "parts": ["2,4", "auto,2", "0", "-3", "1e3", "10000000000"],
        "option": ["rns.parts=abc", "rns.parts", "parts=2", "x.y=1", ".=1", "rns.=2"],
        "samplers": ["rns,rns", ",", "rns,full", "none"],
        "sampling": ["rns parts=abc", "rns x", " ", "full"],
        "tracker": ["tensorboard", "none"],
        "split": ["rh", "random:60/20/20", "random:60", "random:nan/0/0", "stratified:-1/50/50", "none"],
        "weights": ["{here}", "{here}/graph.npz", "{here}/nothing"],
        "storage": ["sqlite:///{here}/x.db", "nonsense", "sqlite://", "mysql://x"],
        "out_dir": ["{here}/graph.npz", "{here}/a/b", "/proc/nothing", "/dev/null", ""],
        "to": ["{here}/graph.npz", "{here}", "/proc/x", ""],
        "out_path": ["{here}/x.txt", "{here}/x.png", "/proc/x.svg", "{here}/no/x.svg"],
        "file": ["{here}/graph.npz", "/proc/x", "{here}/a/b.html"],
        "root": ["{here}/graph.npz", "/proc/x", "/dev/null"],
        "features": ["age", "age,age", "none", "id", "label", ","],
        "categorical": ["age", "none", "city", ","],
        "metric": ["roc_auc", "f1", "accuracy", "r2", "mae", "macro_f1"],
        "positive": ["0", "1", "2", "-1", "class 1", "none"],
        "threshold": ["f1", "0.5", "none", "nan"],
        "task": ["regression", "multilabel", "classification", "none"],
        "class_weight": ["balanced", "none", "1,2"],
        "nodes": ["all", "unlabelled", "train", "{here}", "{here}/none", "{here}/nodes.csv", "/dev/zero"],
        "unknown": ["error", "skip", "add", "none"],
        "repeated": ["sum", "mean", "first", "count", "none"],
        "impute": ["median", "mean", "zero", "error", "none"],
        "scale": ["standard", "quantile", "none", "no"],
        "schema": ["{here}", "{here}/nodes.csv", "{here}/none", "/dev/zero"],
        "hashed": ["city", "age", "none", "id"],
        "ignore": ["city", "age", "id", "none", "label"],
        "id": ["id", "age", "none"],
        "label": ["label", "age", "city", "id", "split", "age,label", "none"],
        "split_column": ["split", "age", "label", "none"],
        "source": ["source", "target", "weight", "none"],
        "weight": ["weight", "source", "none"],
        "ways": ["none", "rns,", ","],
        "budget": ["smoke", "none"],
        "memory": ["0", "-1", "nan", "0.001"],
        "threads": ["0", "-1", "99999", "2", "1.5"],
        "storage_url": [],
    }.get(name, [])
    large = name in LARGE
    numbers = [n for n in mutate.NUMBERS if not large or not isinstance(n, int | float) or not n > 2]
    pool = rng.choice([numbers, mutate.TEXTS, fitting or numbers])
    value = str(rng.choice(pool))
    return "0" if large and value in ("1e9", "100", "9" * 5000) else value


def open_command(folder: Path, words: list[str]) -> None:
    words = words or ["info", str(folder / "graph.npz")]
    before = Path.cwd()
    os.chdir(folder)
    try:
        command(words)
    finally:
        os.chdir(before)
        shutil.rmtree(folder / "out", ignore_errors=True)


DOORS: dict[str, Door] = {
    "npz": Door(make_npz, open_graph_file, share=3),
    "saved": Door(one_changed(), open_saved, share=1.5),
    "csv": Door(make_tables, open_tables, share=2),
    "edges": Door(make_tables, open_tables),
    "parquet": Door(make_parquet, open_tables, share=2),
    "pt": Door(make_pt, open_graph_file, share=1.5),
    "debian": Door(make_debian, open_debian),
    "index": Door(make_index, open_index),
    "ogb": Door(make_publisher, open_ogb),
    "ogb binary": Door(make_publisher, open_ogb, share=0.5),
    "graphland": Door(make_publisher, open_graphland),
    "linkx": Door(make_publisher, open_linkx, share=0.5),
    "archive": Door(make_archive, open_archive),
    "run": Door(make_run, open_run, share=1.5),
    "predict": Door(make_predict, open_predict, share=1.5),
    "schema": Door(make_schema, open_schema),
    "update": Door(make_update, open_update, share=1.5),
    "records": Door(one_changed(mutate.mutate_bytes), open_records, share=1.5),
    "experiment": Door(make_experiment, open_experiment),
    "settings": Door(make_settings, open_settings),
    "query": Door(make_query, open_query, share=2),
    "sampler": Door(make_sampler_words, open_sampler, share=1.5),
    "networkx": Door(make_networkx, open_networkx),
    "command": Door(make_command, open_command, share=3, seconds=60),
}


def open_broken(folder: Path, words: list[str]) -> None:
    """What no door may do; it shows that the fuzzer sees it."""
    if words == ["hang"]:
        while True:
            pass
    if words == ["kill"]:
        os.kill(os.getpid(), signal.SIGKILL)
    if words == ["memory"]:
        bytearray(1 << 40)
    if words == ["error"]:
        _ = 1 / 0


BROKEN = Door(lambda rng, files: ({}, ()), open_broken)
"""For tests of the fuzzer alone."""
