"""Raw files of data sets: downloaded with progress, resumed, verified; archives unpacked without leaving their folder.

A file appears under its name only when it is whole. Without a network, the error says what to put where by hand.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
import shutil
import stat
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO, Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from handful.errors import DatasetError

TIMEOUT_SECONDS = 60
BLOCK_BYTES = 1 << 20


@dataclass(frozen=True)
class Remote:
    """A file on the net, and the name it gets in the data set's folder."""

    url: str
    name: str
    size: int | None = None
    sha256: str | None = None


def fetch(remote: Remote, folder: Path) -> Path:
    """The file of ``remote`` in ``folder``, downloaded unless it is there; a download that broke off is continued."""
    target = folder / remote.name
    if target.exists():
        _verify(remote, target)
        return target
    by_hand = f"fetch it by hand and put it at {target}"
    part = target.with_name(f"{target.name}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with part.open("ab") as file:
            _hold(file, target)
            _download(remote, file, part.with_name(f"{part.name}.tag"), by_hand)
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        if part.exists() and part.stat().st_size == 0:
            part.unlink()
        raise DatasetError(f"{remote.url} cannot be downloaded ({reason}): run again to go on, or {by_hand}") from None
    try:
        _verify(remote, part)
    except DatasetError:
        part.unlink()
        raise
    os.replace(part, target)
    part.with_name(f"{part.name}.tag").unlink(missing_ok=True)
    return target


def _hold(file: IO[bytes], target: Path) -> None:
    """Keep other processes from the same download; the lock goes with the process, however it ends."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise DatasetError(f"{target} is being downloaded by another process: wait for it") from None


def _download(remote: Remote, file: IO[bytes], tag: Path, by_hand: str) -> None:
    """Bring ``file`` to its full length. ``tag`` names the version that its bytes are of, so that none are mixed."""
    have = file.seek(0, os.SEEK_END)
    version = tag.read_text() if have and tag.exists() else None
    with _opened(remote.url, have, version) as response:
        if response.status != 206:
            file.truncate(have := 0)
        if response.headers.get_content_type() == "text/html":
            raise DatasetError(f"{remote.url} answers with a web page instead of the file: {by_hand}")
        length = response.headers.get("Content-Length")
        total = None if length is None else have + int(length)
        tag.write_text(response.headers.get("ETag") or response.headers.get("Last-Modified") or "")
        with _progress(remote.name, have, total) as advance:
            while block := response.read(BLOCK_BYTES):
                file.write(block)
                advance(len(block))
    got = file.tell()
    if total is not None and got != total:
        raise OSError(f"the connection broke off at {got:,} of {total:,} bytes")


def _opened(url: str, have: int, version: str | None) -> Any:
    headers = {"User-Agent": "handful", "Accept-Encoding": "identity"}
    if have and version:
        try:
            resume = {"Range": f"bytes={have}-", "If-Range": version}
            return urlopen(Request(url, headers=headers | resume), timeout=TIMEOUT_SECONDS)
        except HTTPError as error:
            if error.code != 416:  # Nothing lies beyond what we have: it is of another version, or whole. Start anew.
                raise
    return urlopen(Request(url, headers=headers), timeout=TIMEOUT_SECONDS)


@contextmanager
def _progress(name: str, have: int, total: int | None) -> Iterator[Any]:
    columns = (TextColumn(name), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(name, total=total, completed=have)
        yield lambda count: bars.advance(task, count)


def _verify(remote: Remote, path: Path) -> None:
    size = path.stat().st_size
    again = f"remove {path} and fetch {remote.url} again"
    if remote.size is not None and size != remote.size:
        raise DatasetError(f"{path} has {size:,} bytes where there should be {remote.size:,}: {again}")
    if remote.sha256 is not None:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest != remote.sha256:
            raise DatasetError(f"{path} has the wrong checksum ({digest[:12]}… is not {remote.sha256[:12]}…): {again}")


def unpack(archive: Path, folder: Path) -> Path:
    """Unpack a zip into ``folder``, which appears whole or not at all; a single folder at the top is left out.

    Members that point outside the folder, and links, are refused.
    """
    aside = folder.with_name(f".{folder.name}-{secrets.token_hex(4)}")
    try:
        with zipfile.ZipFile(archive) as source:
            for member in source.infolist():
                _check_member(member, archive)
            source.extractall(aside)
        tops = [top for top in aside.iterdir() if top.name != "__MACOSX"]
        inner = tops[0] if len(tops) == 1 and tops[0].is_dir() else aside
        shutil.rmtree(folder, ignore_errors=True)
        inner.rename(folder)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise DatasetError(f"{archive} is not a whole zip archive ({error}): remove it and fetch it again") from None
    except OSError as error:
        raise DatasetError(f"{archive} cannot be unpacked into {folder}: {error}") from None
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return folder


def _check_member(member: zipfile.ZipInfo, archive: Path) -> None:
    for name in (PurePosixPath(member.orig_filename), PureWindowsPath(member.orig_filename)):
        if name.is_absolute() or name.drive or ".." in name.parts:
            raise DatasetError(f"{archive} holds '{member.orig_filename}', which points outside its folder: refused")
    if stat.S_ISLNK(member.external_attr >> 16):
        raise DatasetError(f"{archive} holds '{member.orig_filename}', which is a link: refused")
