"""Load graphs by name or path: ``load("debian")``, ``load("synthetic?nodes=100000")``, ``load("pyg:Planetoid/Cora")``.

Each module in ``MODULES`` has a tuple ``SOURCES`` of data sets.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, get_type_hints
from urllib.parse import parse_qsl

from handful.datasets.splits import check_seed, draw_split, is_drawn
from handful.errors import DatasetError, HandfulError, explaining, unknown
from handful.files import home, place
from handful.graph import Graph
from handful.settings import check_value

PathText = str | os.PathLike[str]
MODULES = ("debian", "synthetic", "ogb", "pokec", "graphland", "pyg_datasets")


@dataclass(frozen=True)
class Query:
    """A request for a graph, which is passed to a ``Source``.

    >>> Query("debian", "", "rh", Path("data"), seed=0, options=None).split
    'rh'
    """

    name: str
    """The name as the user wrote it, without a trailing question mark."""
    rest: str
    """The text after the colon: ``Planetoid/Cora`` in ``pyg:Planetoid/Cora``; empty for a plain name."""
    split: str | None
    """The name of the requested split, by default the first split of the source; ``None`` if the source has no named
    splits.
    """
    home: Path
    """The folder of data sets."""
    seed: int
    """The seed of random splits."""
    options: Any
    """An instance of the source's ``options``; ``None`` if the source has no options."""


@dataclass(frozen=True)
class Source:
    """A data set or a family of data sets (``scheme:rest``), with the properties that are known before loading.

    >>> def load_ring(query: Query) -> Graph:
    ...     return Graph.from_edge_index([[0, 1, 2], [1, 2, 0]], name=query.name)
    >>> Source("ring", "three nodes", load_ring, nodes=3, edges=3).splits
    ()
    """

    name: str
    description: str
    load: Callable[[Query], Graph]
    splits: tuple[str, ...] = ()
    """The names of the splits; the first is the default."""
    task: str = ""
    metric: str = "accuracy"
    nodes: int | None = None
    edges: int | None = None
    """The number of directed edges of the loaded graph: an undirected edge counts twice."""
    features: int | None = None
    classes: int | None = None
    options: type | None = None
    """A dataclass whose fields are the options that may follow the question mark."""
    scheme: bool = False
    """Whether the source is a family, whose name is followed by ``:rest``."""
    write: Callable[[Query, Path, int | str], None] | None = None
    """A function that writes the graph directly to a folder, within a memory budget; ``None`` if the graph can only be
    made in memory.
    """
    on_disk: Callable[[Path], bool] | None = None
    """A function that tests whether the data are in the folder of the data sets; ``None`` if the data are bundled or
    generated.
    """


@cache
def sources() -> dict[str, Source]:
    """All sources, by name.

    >>> sources()["debian"].nodes, sources()["debian"].splits
    (63436, ('rh', 'rl'))
    """
    result = [source for module in MODULES for source in import_module(f"handful.datasets.{module}").SOURCES]
    return {source.name: source for source in result}


def load(name: PathText, split: str | None = None, root: PathText | None = None, seed: int = 0) -> Graph:
    """Load a graph by name or path.

    Args:
        name: a data set (``debian``), a data set with options (``synthetic?nodes=100000&degree=20``), a data set of a
            family (``pyg:Planetoid/Cora``), or the path of a graph file or folder. A name has priority over a path:
            write ``./debian`` for a folder of that name.
        split: a split that comes with the data set (by default the first); or, for any labelled graph, a random split
            such as ``random:60/20/20`` or ``stratified:60/20/20``. For a data set without splits, ``rh`` (50/25/25) and
            ``rl`` (10/10/80) are also random splits, both stratified.
        root: the folder of data sets; by default ``$HANDFUL_HOME`` or, if it is not set, the user's cache.
        seed: the seed of random splits; the same seed gives the same split.

    Raises:
        DatasetError: there is no such data set, split, option or file.

    >>> load("synthetic?nodes=500&degree=4&features=8&classes=5")
    Graph(synthetic: undirected, 500 nodes, 1,932 edges, 8 features, 5 classes)
    """
    if not isinstance(name, str | os.PathLike):
        raise DatasetError(f"a graph is given by its name or path, got {name!r}")
    if split is not None and not isinstance(split, str):
        raise DatasetError(f"split takes a name such as rh or random:60/20/20, got {split!r}")
    check_seed(seed)
    text = os.fspath(name)
    named, own = query_of(text, split, root, seed), False
    if named is None:
        from handful.datasets.files import read_graph

        path = place(text)
        if path is None or not path.exists():
            names = [f"{s.name}:…" if s.scheme else s.name for s in sources().values()]
            raise DatasetError(unknown("data set or file", text, names))
        graph = read_graph(path)
    else:
        source, query = named
        graph = source.load(query)
        own = (source.scheme or bool(source.splits)) and not (split and is_drawn(split))
    return graph if split is None or own else graph.replace(**draw_split(graph, split, seed))


def write(name: str, path: PathText, memory: int | str) -> None:
    """Write the graph ``name`` directly to a folder, with the same files as ``handful.storage.save(load(name), path)``.

    Args:
        name: the name of a data set that supports direct writing: ``synthetic``, with its options.
        path: the folder, as for ``handful.storage.save``.
        memory: the maximum anonymous memory of this process, such as ``"4GiB"``.

    Raises:
        DatasetError: there is no such data set, or it can only be made in memory.

    >>> from handful.storage import open_graph
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     write("synthetic?nodes=500&degree=4&features=8&classes=5", folder + "/graph", memory="4GiB")
    ...     open_graph(folder + "/graph")
    Graph(synthetic: undirected, 500 nodes, 1,932 edges, 8 features, 5 classes)
    """
    result = query_of(name, None, None, 0)
    if result is None:
        raise DatasetError(unknown("data set", name, sources()))
    source, query = result
    if source.write is None:
        able = ", ".join(one.name for one in sources().values() if one.write is not None)
        raise DatasetError(f"data set '{source.name}' is made in memory: leave memory out, or choose from {able}")
    source.write(query, Path(path), memory)


def is_name(text: str) -> bool:
    """Whether ``text`` is the name of a data set, and not a path.

    >>> is_name("synthetic?nodes=500"), is_name("./debian")
    (True, False)
    """
    return _source(text) is not None


def _source(text: str) -> Source | None:
    kind, colon, _ = text.partition("?")[0].partition(":")
    source = sources().get(kind)
    return None if source is None or (colon and not source.scheme) else source


def query_of(text: str, split: str | None, root: PathText | None, seed: int) -> tuple[Source, Query] | None:
    """Parse the name of a data set. Return its source and the request to the source; ``None`` if ``text`` is a path."""
    source = _source(text)
    if source is None:
        return None
    base, _, given = text.partition("?")
    rest = base.partition(":")[2]
    if source.scheme and not rest:
        raise DatasetError(f"'{text}' is not complete: write {source.name}:NAME, {source.description}")
    # A family checks the splits of its members. For a data set without its own splits, ``load`` draws them.
    drawn = split is None or is_drawn(split) or not (source.scheme or source.splits)
    if not drawn and source.splits and split not in source.splits:
        raise DatasetError(f"data set '{source.name}': " + unknown("split", str(split), source.splits))
    own = next(iter(source.splits), None) if drawn else split
    return source, Query(text if given else base, rest, own, home(root), seed, _options(source, given))


def _options(source: Source, given: str) -> Any:
    """Convert the options after the question mark to an instance of the source's dataclass."""
    what = f"data set '{source.name}'"
    if source.options is None:
        if given:
            raise DatasetError(f"{what} takes no options, got '{given}'")
        return None
    try:
        named = parse_qsl(given, strict_parsing=True, keep_blank_values=True) if given else []
    except ValueError:
        raise DatasetError(f"{what}: '{given[:60]}' is not of the form option=value&other=value") from None
    if len(dict(named)) < len(named):
        raise DatasetError(f"{what}: an option is given twice in '{given[:60]}'")
    hints = get_type_hints(source.options)
    if odd := [key for key, _ in named if key not in hints]:
        raise DatasetError(f"{what}: " + unknown("option", odd[0], hints))
    return source.options(**{key: _convert(what, key, text, hints[key]) for key, text in named})


def _convert(what: str, key: str, text: str, hint: Any) -> Any:
    value: Any = text
    with suppress(ValueError, OverflowError):
        value = float(text)  # also accepts whole numbers such as 1e6
        value = int(text) if text.isdigit() else int(value) if value.is_integer() else value
    if hint is bool:
        value = {"true": True, "1": True, "false": False, "0": False}.get(text.lower(), text)
    with explaining(f"{what}: {{}}", HandfulError, kind=DatasetError):
        return check_value(f"option {key}", value, hint)
