"""Data sets that are downloaded, unpacked and converted once, and then opened from their folder.

A file gets its final name only when it is complete. If a download fails, the error says which file the user must
download by hand, and where to put it. No publisher of these data sets gives a SHA-256. Instead, a download is verified
by its length, by the MD5 that Zenodo and Google send, and by the CRC of the zip or gzip when it is unpacked.

A prepared data set is a saved graph, which is memory-mapped, and one file per split with one byte per node.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import re
import shutil
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from http.client import HTTPException
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.request import Request, urlopen

import numpy as np
import torch
from filelock import FileLock, Timeout

from handful.budget import require_disk
from handful.datasets.registry import Query, Source
from handful.datasets.splits import Masks
from handful.errors import DatasetError, readable
from handful.files import write_aside
from handful.graph import MASKS, Graph
from handful.storage import is_saved, open_graph, save

Built = tuple[Graph, dict[str, Masks]]
"""A graph without masks, and its splits by name."""
TIMEOUT_SECONDS = 60
BLOCK_BYTES = 1 << 20


def published(family: str) -> list[list[Any]]:
    """The data sets of a family, each with its name, its sizes and other known properties."""
    text = (files("handful.datasets") / "data" / "published.json").read_text(encoding="utf-8")
    return json.loads(text)[family]  # type: ignore[no-any-return]


def is_prepared(folder: Path) -> bool:
    """Whether the graph is already saved in ``folder``, so that ``prepared`` does not build it."""
    return is_saved(folder / "graph")


def prepared(folder: Path, build: Callable[[], Built], split: str | None) -> Graph:
    """Open the graph in ``folder`` with the masks of ``split``; the first call builds the graph and saves it there.

    If the folder is not writable, the graph is built each time.
    """
    if not is_prepared(folder):
        graph, splits = build()
        try:
            for name, masks in splits.items():
                _write_split(folder / "splits" / f"{name}.npy", masks)
            save(graph, folder / "graph")
        except OSError:
            return graph if split is None else graph.replace(**splits[split])
    graph = open_graph(folder / "graph")
    return graph if split is None else graph.replace(**_read_split(folder / "splits" / f"{split}.npy"))


def prepared_splits(folder: Path) -> list[str]:
    """The names of the splits in ``folder``."""
    return sorted(path.stem for path in (folder / "splits").glob("*.npy"))


def _write_split(path: Path, masks: Masks) -> None:
    codes = sum((masks[name].numpy() * np.uint8(i + 1) for i, name in enumerate(MASKS)), np.uint8(0))
    buffer = io.BytesIO()
    np.save(buffer, codes, allow_pickle=False)
    write_aside(path, lambda aside: aside.write_bytes(buffer.getvalue()))


def _read_split(path: Path) -> Masks:
    with readable(path, f"remove {path.parent.parent} and load the data again"):
        codes = np.load(path, mmap_mode="r", allow_pickle=False)  # a map is never longer than its file
    return {name: torch.from_numpy(np.asarray(codes == i + 1)) for i, name in enumerate(MASKS)}


# -- downloads ------------------------------------------------------------------------------------------------------


def fetch(url: str, target: Path) -> Path:
    """Download ``url`` to the file ``target``, unless this file exists. An interrupted download is continued."""
    if target.exists():
        return target
    part, lock = (target.with_name(f"{target.name}{suffix}") for suffix in (".part", ".lock"))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(lock, timeout=0):  # released at the end of the process, even after a crash
            if not target.exists():
                _download(url, part)
                os.replace(part, target)
            with suppress(OSError):  # Windows removes the lock itself.
                lock.unlink()
    except Timeout:
        raise DatasetError(f"{target} is being downloaded by another process: wait for it") from None
    except (OSError, HTTPException) as error:
        if getattr(error, "code", None) == 416:  # the server's file is shorter than the part: begin again
            part.unlink()
        reason = getattr(error, "reason", None) or error
        raise DatasetError(f"{url} cannot be downloaded ({reason}): run again, or put it at {target} by hand") from None
    return target


def _download(url: str, part: Path) -> None:
    """Complete the file ``part``, and verify it. A second file, the tag, stores the version of the downloaded bytes, so
    that two versions are never mixed.
    """
    from rich.console import Console  # only a download needs it
    from rich.progress import wrap_file

    tag = part.with_name(f"{part.name}.tag")
    have = part.stat().st_size if part.exists() else 0
    version = tag.read_text() if have and tag.exists() else ""
    resume = {"Range": f"bytes={have}-", "If-Range": version} if version else {}
    request = Request(url, headers={"User-Agent": "handful", "Accept-Encoding": "identity", **resume})
    with urlopen(request, timeout=TIMEOUT_SECONDS) as response:
        headers = response.headers
        if headers.get_content_type() == "text/html":
            raise OSError("the server sent a web page, not the file")
        have = have if response.status == 206 else 0
        length = int(headers.get("Content-Length") or 0)
        require_disk(length, part, url)
        tag.write_text(headers.get("ETag") or headers.get("Last-Modified") or "")
        shown: dict[str, Any] = {"description": part.stem, "transient": True, "console": Console(stderr=True)}
        with part.open("ab" if have else "wb") as file, wrap_file(response, length, **shown) as source:
            shutil.copyfileobj(source, file, BLOCK_BYTES)
    got, md5 = part.stat().st_size, read_md5_header(headers)
    if length and got != have + length:
        raise OSError(f"the connection broke off at {got:,} of {have + length:,} bytes")
    with part.open("rb") as file:
        differs = md5 is not None and hashlib.file_digest(file, "md5").digest() != md5
    if differs:
        part.unlink()
        raise OSError("its MD5 is not the one that its server sent")
    tag.unlink()


def read_md5_header(headers: Mapping[str, str]) -> bytes | None:
    """The MD5 of a file, which HTTP headers may contain in hexadecimal or base64; ``None`` if the headers have no MD5.

    >>> read_md5_header({"ETag": '"md5:900150983cd24fb0d6963f7d28e17f72"'}).hex()
    '900150983cd24fb0d6963f7d28e17f72'
    """
    of_zenodo = re.search("md5:([0-9a-fA-F]{32})", headers.get("ETag") or "")
    if of_zenodo:
        return bytes.fromhex(of_zenodo[1])
    of_google = re.search("md5=([A-Za-z0-9+/]{22}==)", headers.get("x-goog-hash") or "")
    return base64.b64decode(of_google[1]) if of_google else None


# -- archives -------------------------------------------------------------------------------------------------------


@contextmanager
def unpacked(archive: Path) -> Iterator[Path]:
    """A context manager that unpacks a zip into a temporary folder beside it. It yields the temporary folder or, if the
    folder contains only a subfolder, this subfolder.

    zipfile writes members with paths such as ``../x`` inside the folder, and creates no symbolic links.
    """
    with TemporaryDirectory(prefix=f".{archive.stem}-", dir=archive.parent, ignore_cleanup_errors=True) as made:
        folder = Path(made)
        with readable(archive, "remove it and fetch it again"), zipfile.ZipFile(archive) as source:
            # zipfile never reads more of a member than the size in its header.
            require_disk(sum(member.file_size for member in source.infolist()), folder, f"{archive} unpacked")
            source.extractall(folder)
            tops = [top for top in folder.iterdir() if top.name != "__MACOSX"]
        yield tops[0] if len(tops) == 1 and tops[0].is_dir() else folder


@dataclass(frozen=True)
class Archive:
    """A data set that its authors publish as one zip.

    Args:
        name: the name of the data set and of its folder.
        url: the address of the zip.
        marker: a file by which the folder of the raw files is recognised.
        read: a function that makes the graph and its splits from the folder of the raw files.
    """

    name: str
    url: str
    marker: str
    read: Callable[[Path], Built]

    def source(self, description: str, **known: Any) -> Source:
        """Make the ``Source`` of this data set for the registry; ``known`` contains the properties of the data set."""
        return Source(self.name, description, self.load, on_disk=self.on_disk, **known)

    def load(self, query: Query) -> Graph:
        """Load the graph with the requested split. The graph is converted on first use."""
        return prepared(query.home / self.name, partial(self._build, query.home), query.split)

    def on_disk(self, home: Path) -> bool:
        """Whether the data are on disk, in any form."""
        return is_prepared(home / self.name) or self._zip(home).exists() or self._raw(home) is not None

    def _zip(self, home: Path) -> Path:
        return home / self.name / self.url.rpartition("/")[2]

    def _raw(self, home: Path) -> Path | None:
        """The folder of the raw files, if the user has provided these files."""
        folder, stem = home / self.name, self._zip(home).stem
        places = (folder, home / self.name.replace("-", "_"), folder / stem, folder / "raw" / stem)
        return next((place for place in places if (place / self.marker).exists()), None)

    def _build(self, home: Path) -> Built:
        if (raw := self._raw(home)) is not None:
            return self.read(raw)
        with unpacked(fetch(self.url, self._zip(home))) as folder:
            return self.read(folder)
