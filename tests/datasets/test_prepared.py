from __future__ import annotations

import base64
import hashlib
import stat
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
import torch
from filelock import FileLock

from handful.datasets import prepared as module
from handful.datasets.prepared import Built, fetch, is_prepared, prepared, prepared_splits, read_md5_header, unpacked
from handful.errors import DatasetError, HandfulError
from handful.graph import MASKS, Graph


def build() -> Built:
    graph = Graph.from_edge_index(np.array([[0, 1], [1, 2]]), 4, x=np.eye(4), y=[0, 1, 1, -1])
    masks = {m: torch.tensor([i == k for i in range(4)]) for k, m in enumerate(MASKS)}
    other = {m: masks[MASKS[(i + 1) % 3]] for i, m in enumerate(MASKS)}
    return graph, {"one": masks, "two": other}


def split_of(graph: Graph) -> list[list[int]]:
    return [getattr(graph, m).nonzero().squeeze(1).tolist() for m in MASKS]


def test_built_once_and_opened_after_that(tmp_path: Path) -> None:
    count = [0]

    def counted() -> Built:
        count[0] += 1
        return build()

    assert not is_prepared(tmp_path / "d")
    assert split_of(prepared(tmp_path / "d", counted, "one")) == [[0], [1], [2]]
    assert split_of(prepared(tmp_path / "d", counted, "two")) == [[1], [2], [0]]
    assert prepared(tmp_path / "d", counted, None).train_mask is None
    assert count == [1]
    assert is_prepared(tmp_path / "d")
    assert prepared_splits(tmp_path / "d") == ["one", "two"]


def test_a_failed_build_leaves_nothing(tmp_path: Path) -> None:
    def fail() -> Built:
        raise DatasetError("no")

    with pytest.raises(DatasetError):
        prepared(tmp_path / "d", fail, None)
    assert not (tmp_path / "d").exists()


def test_where_nothing_can_be_kept_the_graph_is_built_anyway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object) -> None:
        raise PermissionError

    monkeypatch.setattr(module, "save", refuse)
    assert split_of(prepared(tmp_path / "d", build, "one")) == [[0], [1], [2]]
    assert not is_prepared(tmp_path / "d")


def test_a_broken_split_says_what_to_do(tmp_path: Path) -> None:
    prepared(tmp_path / "d", build, None)
    (tmp_path / "d" / "splits" / "one.npy").write_bytes(b"junk")
    with pytest.raises(DatasetError, match=r"one\.npy cannot be read .*: remove .*d and load"):
        prepared(tmp_path / "d", build, "one")


# -- downloads ------------------------------------------------------------------------------------------------------

CONTENT = bytes(range(256)) * 40_000


class Server(ThreadingHTTPServer):
    """A file server that can break off, change its file, refuse ranges, and answer with a page."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.content = CONTENT
        self.tag = '"v1"'
        self.break_at: int | None = None
        self.ranges = True
        self.kind = "application/zip"
        self.asked: list[str | None] = []

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hangs up is part of these tests."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/file.bin"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        server, wanted = self.server, self.headers.get("Range")
        server.asked.append(wanted)
        start = 0
        if wanted and server.ranges and self.headers.get("If-Range") == server.tag:
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
        if start and start >= len(server.content):
            self.send_response(416)
            self.end_headers()
            return
        body = server.content[start:]
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Type", server.kind)
        self.send_header("ETag", server.tag)
        self.end_headers()
        self.wfile.write(body if server.break_at is None else body[: server.break_at])

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_fetched_once(server: Server, tmp_path: Path) -> None:
    for _ in range(2):
        assert fetch(server.url, tmp_path / "sub" / "file.bin").read_bytes() == CONTENT
    assert files(tmp_path / "sub") == ["file.bin"]
    assert server.asked == [None]


def test_a_broken_download_is_resumed(server: Server, tmp_path: Path) -> None:
    server.break_at = 3_000_000
    with pytest.raises(DatasetError, match=r"broke off at 3,000,000 of 10,240,000 bytes.*run again.*file\.bin"):
        fetch(server.url, tmp_path / "file.bin")
    assert not (tmp_path / "file.bin").exists()
    server.break_at = None
    assert fetch(server.url, tmp_path / "file.bin").read_bytes() == CONTENT
    assert server.asked == [None, "bytes=3000000-"]
    assert files(tmp_path) == ["file.bin"]


def test_bytes_of_two_versions_are_never_mixed(server: Server, tmp_path: Path) -> None:
    server.break_at = 3_000_000
    with pytest.raises(DatasetError, match="broke off"):
        fetch(server.url, tmp_path / "file.bin")
    server.break_at, server.tag, server.content = None, '"v2"', CONTENT[::-1]
    assert fetch(server.url, tmp_path / "file.bin").read_bytes() == CONTENT[::-1]


def test_servers_without_ranges_and_parts_beyond_the_end(server: Server, tmp_path: Path) -> None:
    for ranges, part in ((False, CONTENT[:100]), (True, CONTENT + b"more")):
        server.ranges = ranges
        (tmp_path / "file.bin.part").write_bytes(part)
        (tmp_path / "file.bin.part.tag").write_text(server.tag)
        if ranges:
            with pytest.raises(DatasetError, match="run again"):
                fetch(server.url, tmp_path / "file.bin")
        assert fetch(server.url, tmp_path / "file.bin").read_bytes() == CONTENT
        (tmp_path / "file.bin").unlink()


def test_no_network_says_what_to_put_where(server: Server, tmp_path: Path) -> None:
    server.server_close()
    with pytest.raises(DatasetError, match=r"cannot be downloaded \(.*\).*put it at .*file\.bin") as caught:
        fetch(server.url, tmp_path / "file.bin")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "file.bin.part").exists()
    (tmp_path / "file.bin").write_bytes(b"placed by hand")
    assert fetch(server.url, tmp_path / "file.bin").read_bytes() == b"placed by hand"


def test_a_web_page_is_not_the_file(server: Server, tmp_path: Path) -> None:
    server.kind = "text/html; charset=utf-8"
    with pytest.raises(DatasetError, match=r"web page.* put it at .*file\.bin"):
        fetch(server.url, tmp_path / "file.bin")


def test_two_processes_do_not_write_one_file(server: Server, tmp_path: Path) -> None:
    with (
        FileLock(tmp_path / "file.bin.lock"),
        pytest.raises(DatasetError, match="is being downloaded by another process"),
    ):
        fetch(server.url, tmp_path / "file.bin")
    assert server.asked == []
    assert fetch(server.url, tmp_path / "file.bin").read_bytes() == CONTENT
    assert files(tmp_path) == ["file.bin"]


# -- archives -------------------------------------------------------------------------------------------------------


def make_zip(path: Path, members: dict[str, bytes]) -> Path:
    path.parent.mkdir(exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def test_a_single_top_folder_is_dropped(tmp_path: Path) -> None:
    one = make_zip(tmp_path / "one.zip", {"top/raw/a.csv": b"1", "top/b": b"2", "__MACOSX/top/._b": b"junk"})
    two = make_zip(tmp_path / "two.zip", {"raw/a.csv": b"1", "b": b"2"})
    for archive in (one, two):
        with unpacked(archive) as folder:
            assert files(folder) == ["b", "raw"]
    assert files(tmp_path) == ["one.zip", "two.zip"]


@pytest.mark.parametrize("name", ["../evil", "a/../../evil", "/etc/evil", "C:/evil", "..\\evil"])
def test_nothing_is_put_outside_the_folder(tmp_path: Path, name: str) -> None:
    archive = make_zip(tmp_path / "in" / "a.zip", {"fine": b"1", name: b"2"})
    with unpacked(archive) as folder:
        inside = [path for path in folder.rglob("*") if path.is_file()]
        assert sorted(path.read_bytes() for path in inside) == [b"1", b"2"]
        assert files(tmp_path) == ["in"]
        assert len(files(tmp_path / "in")) == 2
    assert files(tmp_path / "in") == ["a.zip"]


def test_a_link_is_a_plain_file(tmp_path: Path) -> None:
    link = zipfile.ZipInfo("link")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(link, "/etc/passwd")
    with unpacked(tmp_path / "a.zip") as folder:
        assert not (folder / "link").is_symlink()


def test_truncated_and_damaged_archives(tmp_path: Path) -> None:
    archive = make_zip(tmp_path / "a.zip", {"big": CONTENT})
    whole = archive.read_bytes()
    damaged = bytearray(whole)
    damaged[200] ^= 0xFF
    for content in (whole[:-30], whole[: len(whole) // 2], b"", b"junk", bytes(damaged)):
        archive.write_bytes(content)
        with pytest.raises(DatasetError, match=r"a\.zip cannot be read"), unpacked(archive):
            pass
        assert files(tmp_path) == ["a.zip"]


MD5 = hashlib.md5(CONTENT)


@pytest.mark.parametrize(
    "headers",
    [
        {"ETag": f'"md5:{MD5.hexdigest()}"'},
        {"x-goog-hash": f"crc32c=n03x6A==,md5={base64.b64encode(MD5.digest()).decode()}"},
        {"x-goog-hash": f"md5={base64.b64encode(MD5.digest()).decode()},crc32c=n03x6A=="},
    ],
)
def test_the_md5_that_a_server_tells(headers: dict[str, str]) -> None:
    assert read_md5_header(headers) == MD5.digest()


@pytest.mark.parametrize("headers", [{}, {"ETag": '"v1"'}, {"x-goog-hash": "md5=abc"}, {"ETag": '"md5:0"'}])
def test_no_md5_is_told(headers: dict[str, str]) -> None:
    assert read_md5_header(headers) is None


def test_a_file_that_differs_from_the_digest_its_server_told(server: Server, tmp_path: Path) -> None:
    server.tag = f'"md5:{MD5.hexdigest()}"'
    assert fetch(server.url, tmp_path / "good.bin").read_bytes() == CONTENT
    server.content = CONTENT[:-1] + b"!"
    with pytest.raises(DatasetError, match=r"MD5.*bad\.bin"):
        fetch(server.url, tmp_path / "bad.bin")
    assert not (tmp_path / "bad.bin").exists()
    assert not (tmp_path / "bad.bin.part").exists()


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_compression_is_unpacked(tmp_path: Path, method: int) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w", method) as archive:
        archive.writestr("top/file.txt", "text")
    with unpacked(tmp_path / "a.zip") as folder:
        assert (folder / "file.txt").read_text() == "text"


def test_archives_that_cannot_be_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("file.txt", "text")
    whole = path.read_bytes()
    central = whole.index(b"PK\x01\x02")
    for at, value in ((central + 8, 1), (central + 10, 99)):  # said to be encrypted; packed by a method of nobody
        path.write_bytes(whole[:at] + bytes([value]) + whole[at + 1 :])
        with pytest.raises(DatasetError, match="cannot be read"), unpacked(path):
            pass
    assert files(tmp_path) == ["a.zip"]


def test_an_archive_that_the_disk_has_no_room_for(tmp_path: Path) -> None:
    """A size of 2⁶² bytes, which only the directory at the end of the archive tells."""
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("file.txt", "text")
        archive.filelist[0].file_size = 2**62
    with pytest.raises(HandfulError, match=r"a\.zip unpacked takes 4,194,304\.0 TiB of disk"), unpacked(path):
        pass
