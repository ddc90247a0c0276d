"""``pokec``: a Slovak social network, 1,632,803 people and 30.6M friendships; the class is the gender. Undirected.

Two forms of the same graph, ``pokec?form=linkx`` (the default) and ``pokec?form=snap``:

- ``linkx``: ``pokec.mat`` as made for LINKX, with its 65 features; the form that "Classic GNNs" uses.
- ``snap``: SNAP's ``soc-pokec-relationships.txt`` and ``soc-pokec-profiles.txt``, or both ``.gz``. Features are made of
  the public fields of a profile: whether it is public, how complete it is, age, days of registration and last login,
  each standardised with a flag where it is missing, and the region one-hot. They are not LINKX's.

The split is random, 10/10/80 of those whose gender is known, and drawn anew for every seed, as in the paper.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from handful.datasets.arrays import whole
from handful.datasets.download import Remote, fetch
from handful.datasets.mat import read_mat
from handful.datasets.prepared import Built, is_prepared, prepared
from handful.datasets.registry import Query, Source
from handful.datasets.splits import RANDOM_LOW, random_split
from handful.datasets.tables import TableFile, arrow, first, read_matrix, reading
from handful.errors import DatasetError, GraphError, unknown
from handful.graph import Graph

LINKX = Remote(
    "https://drive.usercontent.google.com/download?id=1575QYJwJlj7AWuOKMlwVmMz8FcslUncu&confirm=t", "pokec.mat"
)
SNAP = "https://snap.stanford.edu/data"
FORMS = ("linkx", "snap")
FIELDS = ("user_id", "public", "completion_percentage", "gender", "region", "last_login", "registration", "AGE")
CLASSES = ("female", "male")


@dataclass(frozen=True)
class PokecOptions:
    """Which form of the graph."""

    form: str = "linkx"


def _load(query: Query) -> Graph:
    """The graph in the form that was asked for, with the split that belongs to the seed."""
    form = query.options.form
    if form not in FORMS:
        raise DatasetError("data set 'pokec': " + unknown("form", form, FORMS))
    folder = query.home / "pokec"
    graph = prepared(folder / form, partial(_linkx if form == "linkx" else _snap, folder), None)
    assert graph.y is not None
    return graph.replace(**random_split(graph.num_nodes, RANDOM_LOW, query.seed, graph.y >= 0))


def _linkx(folder: Path) -> Built:
    return read_linkx(fetch(LINKX, folder)), {}


def _snap(folder: Path) -> Built:
    paths = []
    for stem in ("soc-pokec-relationships.txt", "soc-pokec-profiles.txt"):
        plain = folder / stem
        paths.append(plain if plain.exists() else fetch(Remote(f"{SNAP}/{stem}.gz", f"{stem}.gz"), folder))
    return read_snap(*paths), {}


def read_linkx(path: Path) -> Graph:
    """``pokec.mat``: ``edge_index`` (2, E), ``node_feat`` (N, F) and ``label``, -1 where the gender is not known."""
    store = read_mat(path)
    for key in ("edge_index", "node_feat", "label"):
        if key not in store:
            raise DatasetError(f"{path} has no array '{key}': it is not LINKX's file")
    with np.errstate(over="ignore"):  # what becomes infinite is refused when the graph is made
        x = store["node_feat"].astype(np.float32)
    ends, y = whole(store["edge_index"], f"{path}: the edges"), whole(store["label"], f"{path}: the labels")
    return _graph(path, ends, x, y.reshape(-1))


def read_snap(relationships: Path, profiles: Path) -> Graph:
    """SNAP's text files. A profile's line is placed by its user id, which counts from 1 and is not in order."""
    pa = arrow()
    columns = _columns(profiles)
    rows = TableFile.open(profiles, columns, quoted=False).read(FIELDS, dict.fromkeys(FIELDS, pa.string()))
    ids = whole(rows.numbers("user_id"), f"{profiles}: the users") - 1
    at = first((ids < 0) | (ids >= len(rows)))
    if at is not None:
        raise DatasetError(f"{rows.row(at)}: user {ids[at] + 1} is not one of 1 to {len(rows):,}")
    place = np.full(len(rows), -1)
    place[ids] = np.arange(len(rows))
    at = first(place < 0)
    if at is not None:
        raise DatasetError(f"{profiles} has no profile of user {at + 1}, and another one twice")
    gender = rows.numbers("gender", missing=True)
    y = whole(np.where(np.isnan(gender), -1, gender), f"{profiles}: 'gender'")
    age = rows.numbers("AGE", missing=True)
    age = np.where(age == 0, np.nan, age)
    with reading(profiles):
        days = [_days(rows.column(name)) for name in ("registration", "last_login")]
    numbers = [rows.numbers("public", missing=True), rows.numbers("completion_percentage", missing=True), age, *days]
    x = np.column_stack([*(_standardised(column) for column in numbers), _regions(rows.column("region"))])
    edges = read_matrix(relationships, np.int32, by_column=True) - 1
    return _graph(relationships, edges, x.astype(np.float32)[place], y[place])


def _columns(profiles: Path) -> list[str]:
    """Names for all columns of the profiles, of which only the first are used."""
    count = len(TableFile.open(profiles, quoted=False).names)
    if count < len(FIELDS):
        raise DatasetError(f"{profiles} has {count} columns where there should be 59 or 60: it is not SNAP's file")
    return [*FIELDS, *(f"column {i}" for i in range(len(FIELDS), count))]


def _days(column: Any) -> np.ndarray:
    """Days since 1970 of texts such as ``2012-05-25 11:20:00.0``; NaN where there is none."""
    pa = arrow()
    dates = pa.compute.utf8_slice_codeunits(column, 0, 10).cast(pa.date32()).cast(pa.int32())
    days: np.ndarray = dates.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return days


def _standardised(values: np.ndarray) -> np.ndarray:
    """Mean 0 and variance 1 over what is known, 0 and a flag of 1 where nothing is."""
    missing = np.isnan(values)
    known = values[~missing]
    spread = known.std() if len(known) else 0.0
    scaled = np.where(missing, 0.0, (values - (known.mean() if len(known) else 0.0)) / (spread or 1.0))
    return np.column_stack([scaled, missing])


def _regions(column: Any) -> np.ndarray:
    """One-hot of the region, which is what precedes the comma in ``zilinsky kraj, kysucke nove mesto``."""
    pa = arrow()
    names = pa.compute.list_element(pa.compute.split_pattern(pa.compute.fill_null(column, ""), ","), 0)
    encoded = names.dictionary_encode()
    order = np.argsort(np.array(encoded.dictionary.to_pylist()))
    one_hot: np.ndarray = encoded.indices.to_numpy()[:, None] == order
    return one_hot


def _graph(path: Path, edges: np.ndarray, x: np.ndarray, y: np.ndarray) -> Graph:
    try:
        fields = {"x": x, "y": y, "num_classes": 2, "class_names": CLASSES, "name": "pokec"}
        return Graph.from_edge_index(edges, len(y), **fields).to_undirected()
    except GraphError as error:
        raise GraphError(f"{path}: {error}") from None


def _on_disk(home: Path) -> bool:
    folder = home / "pokec"
    return (folder / LINKX.name).exists() or any(is_prepared(folder / form) for form in FORMS)


SOURCES = (
    Source(
        name="pokec",
        description="a Slovak social network; the class is the gender; split drawn for every seed",
        load=_load,
        task="2 classes",
        nodes=1_632_803,
        edges=44_603_928,
        features=65,
        classes=2,
        options=PokecOptions,
        on_disk=_on_disk,
    ),
)
