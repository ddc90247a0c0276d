"""Raw files of data sets: downloaded with progress, resumed and verified; archives unpacked safely.

A file appears under its name only when it is complete. Without a network, the error says which file to put where.

No publisher of these data sets prints a SHA-256. What is verified instead: the length that the server told; the digest
that it told, where it does (Zenodo, for GraphLand, an MD5); and the CRC of every member of a zip, or of the gzip, when
it is unpacked (OGB, GraphLand, SNAP). ``Remote`` takes a SHA-256 and a size for files of which they are known.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import secrets
import shutil
import stat
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from filelock import FileLock, Timeout
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
    lock = target.with_name(f"{target.name}.lock")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(lock, timeout=0):  # released with the process, however it ends
            if not target.exists():
                _download(remote, target)
            with suppress(OSError):  # Windows removes the lock itself.
                lock.unlink()
    except Timeout:
        raise DatasetError(f"{target} is being downloaded by another process: wait for it") from None
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise DatasetError(
            f"{remote.url} cannot be downloaded ({reason}): run again to go on, or {_by_hand(target)}"
        ) from None
    return target


def _by_hand(target: Path) -> str:
    return f"fetch it by hand and put it at {target}"


def _download(remote: Remote, target: Path) -> None:
    """Bring the file beside ``target`` to its full length, verify it, and rename it.

    A second file, the tag, names the version that its bytes are of, so that bytes of two versions are never mixed.
    """
    part, tag = (target.with_name(f"{target.name}{suffix}") for suffix in (".part", ".part.tag"))
    have = part.stat().st_size if part.exists() else 0
    version = tag.read_text() if have and tag.exists() else None
    with _opened(remote.url, have, version) as response:
        if response.headers.get_content_type() == "text/html":
            raise DatasetError(f"{remote.url} answers with a web page instead of the file: {_by_hand(target)}")
        if response.status != 206:
            have = 0
        length = response.headers.get("Content-Length")
        total = None if length is None else have + int(length)
        tag.write_text(response.headers.get("ETag") or response.headers.get("Last-Modified") or "")
        with part.open("ab" if have else "wb") as file, _progress(remote.name, have, total) as advance:
            while block := response.read(BLOCK_BYTES):
                file.write(block)
                advance(len(block))
        told = told_digest(response.headers)
    got = part.stat().st_size
    if total is not None and got != total:
        raise OSError(f"the connection broke off at {got:,} of {total:,} bytes")
    try:
        _verify(remote, part, told)
    except DatasetError:
        part.unlink()
        raise
    os.replace(part, target)
    tag.unlink(missing_ok=True)


def _opened(url: str, have: int, version: str | None) -> Any:
    headers = {"User-Agent": "handful", "Accept-Encoding": "identity"}
    if have and version:
        try:
            resume = {"Range": f"bytes={have}-", "If-Range": version}
            return urlopen(Request(url, headers=headers | resume), timeout=TIMEOUT_SECONDS)
        except HTTPError as error:
            if error.code != 416:  # The server has nothing beyond what we have: download it again from the start.
                raise
    return urlopen(Request(url, headers=headers), timeout=TIMEOUT_SECONDS)


@contextmanager
def _progress(name: str, have: int, total: int | None) -> Iterator[Any]:
    columns = (TextColumn(name), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(name, total=total, completed=have)
        yield lambda count: bars.advance(task, count)


def told_digest(headers: Mapping[str, str]) -> tuple[str, bytes] | None:
    """The digest of the file that its server tells, and its name; ``None`` if it tells none.

    Zenodo tells an MD5 in ``Content-MD5`` and in the ``ETag``, others a SHA-256 by RFC 9530 or 3230, Google by its own.

    >>> told_digest({"ETag": '"md5:900150983cd24fb0d6963f7d28e17f72"'})[0]
    'md5'
    """
    for name, pattern, kind in (
        ("Repr-Digest", r"sha-256=:([\w+/=]+):", "sha256"),
        ("Digest", r"(?i)sha-256=([\w+/=]+)", "sha256"),
        ("Content-MD5", r"([\w+/=]+)", "md5"),
        ("ETag", r"md5:([0-9a-f]{32})", "md5"),
        ("x-goog-hash", r"md5=([\w+/=]+)", "md5"),
    ):
        found = re.search(pattern, headers.get(name) or "")
        length = hashlib.new(kind).digest_size
        with suppress(ValueError):
            text = found[1] if found else ""
            digest = bytes.fromhex(text) if len(text) == 2 * length else base64.b64decode(text, validate=True)
            if len(digest) == length:
                return kind, digest
    return None


def _verify(remote: Remote, path: Path, told: tuple[str, bytes] | None = None) -> None:
    size = path.stat().st_size
    again = f"remove {path} and fetch {remote.url} again"
    if remote.size is not None and size != remote.size:
        raise DatasetError(f"{path} has {size:,} bytes where there should be {remote.size:,}: {again}")
    if remote.sha256 is not None:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest != remote.sha256:
            raise DatasetError(f"{path} has the wrong checksum ({digest[:12]}… is not {remote.sha256[:12]}…): {again}")
    if told is not None:
        with path.open("rb") as file:
            got = hashlib.file_digest(file, told[0]).digest()
        if got != told[1]:
            raise DatasetError(f"{path} is not what its server says it sent: its {told[0]} differs; {again}")


def unpack(archive: Path, folder: Path) -> Path:
    """Unpack a zip into ``folder``, which appears complete or not at all.

    If the archive holds a single folder, its contents are unpacked. Members that point outside the folder, and links,
    are refused.
    """
    aside = folder.with_name(f".{folder.name}-{secrets.token_hex(4)}")
    try:
        with zipfile.ZipFile(archive) as source:
            for member in source.infolist():
                _check_member(member, archive)
            _check_room(source.infolist(), archive, folder)
            source.extractall(aside)
        tops = [top for top in aside.iterdir() if top.name != "__MACOSX"]
        inner = tops[0] if len(tops) == 1 and tops[0].is_dir() else aside
        shutil.rmtree(folder, ignore_errors=True)
        inner.rename(folder)
    except DatasetError:
        raise
    except OSError as error:
        raise DatasetError(f"{archive} cannot be unpacked into {folder}: {error}") from None
    except Exception as error:  # zipfile and what unpacks raise many kinds, and all mean the same to the user.
        said = str(error) or type(error).__name__
        raise DatasetError(f"{archive} is not a whole zip archive ({said}): remove it and fetch it again") from None
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return folder


def _check_room(members: list[zipfile.ZipInfo], archive: Path, folder: Path) -> None:
    """Refuse an archive that unpacks to more than the disk has room for. A member gives no more than it tells."""
    place = next(parent for parent in folder.resolve().parents if parent.exists())
    needed, free = sum(member.file_size for member in members), shutil.disk_usage(place).free
    if needed > free:
        size, room = (f"{count / 2**30:,.1f} GiB" for count in (needed, free))
        raise DatasetError(f"{archive} unpacks to {size}, and {place} has room for {room}")


def _check_member(member: zipfile.ZipInfo, archive: Path) -> None:
    for name in (PurePosixPath(member.orig_filename), PureWindowsPath(member.orig_filename)):
        if name.is_absolute() or name.drive or ".." in name.parts:
            raise DatasetError(f"{archive} holds '{member.orig_filename}', which points outside its folder: refused")
    if stat.S_ISLNK(member.external_attr >> 16):
        raise DatasetError(f"{archive} holds '{member.orig_filename}', which is a link: refused")
