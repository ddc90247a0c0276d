from __future__ import annotations

import base64
import hashlib
import stat
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from filelock import FileLock

from handful.datasets.download import Remote, fetch, told_digest, unpack
from handful.errors import DatasetError

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
    digest = hashlib.sha256(CONTENT).hexdigest()
    remote = Remote(server.url, "sub/file.bin", size=len(CONTENT), sha256=digest)
    for _ in range(2):
        assert fetch(remote, tmp_path).read_bytes() == CONTENT
    assert files(tmp_path / "sub") == ["file.bin"]
    assert server.asked == [None]


def test_a_broken_download_is_resumed(server: Server, tmp_path: Path) -> None:
    remote = Remote(server.url, "file.bin")
    server.break_at = 3_000_000
    with pytest.raises(DatasetError, match=r"broke off at 3,000,000 of 10,240,000 bytes.*run again.*file\.bin"):
        fetch(remote, tmp_path)
    assert not (tmp_path / "file.bin").exists()
    server.break_at = None
    assert fetch(remote, tmp_path).read_bytes() == CONTENT
    assert server.asked == [None, "bytes=3000000-"]
    assert files(tmp_path) == ["file.bin"]


def test_bytes_of_two_versions_are_never_mixed(server: Server, tmp_path: Path) -> None:
    remote = Remote(server.url, "file.bin")
    server.break_at = 3_000_000
    with pytest.raises(DatasetError, match="broke off"):
        fetch(remote, tmp_path)
    server.break_at, server.tag, server.content = None, '"v2"', CONTENT[::-1]
    assert fetch(remote, tmp_path).read_bytes() == CONTENT[::-1]


def test_servers_without_ranges_and_parts_beyond_the_end(server: Server, tmp_path: Path) -> None:
    remote = Remote(server.url, "file.bin")
    for ranges, part in ((False, CONTENT[:100]), (True, CONTENT + b"more")):
        server.ranges = ranges
        (tmp_path / "file.bin.part").write_bytes(part)
        (tmp_path / "file.bin.part.tag").write_text(server.tag)
        assert fetch(remote, tmp_path).read_bytes() == CONTENT
        (tmp_path / "file.bin").unlink()


def test_wrong_size_and_checksum(server: Server, tmp_path: Path) -> None:
    for remote, message in (
        (Remote(server.url, "file.bin", size=7), "has 10,240,000 bytes where there should be 7"),
        (Remote(server.url, "file.bin", sha256="0" * 64), "has the wrong checksum"),
    ):
        with pytest.raises(DatasetError, match=message):
            fetch(remote, tmp_path)
        assert not list(tmp_path.glob("*.part"))
    (tmp_path / "file.bin").write_bytes(b"placed by hand")
    with pytest.raises(DatasetError, match="has 14 bytes where there should be 7"):
        fetch(Remote(server.url, "file.bin", size=7), tmp_path)


def test_no_network_says_what_to_put_where(server: Server, tmp_path: Path) -> None:
    server.server_close()
    with pytest.raises(DatasetError, match=r"cannot be downloaded \(.*\).*put it at .*file\.bin") as caught:
        fetch(Remote(server.url, "file.bin"), tmp_path)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "file.bin.part").exists()
    (tmp_path / "file.bin").write_bytes(b"placed by hand")
    assert fetch(Remote(server.url, "file.bin"), tmp_path).read_bytes() == b"placed by hand"


def test_a_web_page_is_not_the_file(server: Server, tmp_path: Path) -> None:
    server.kind = "text/html; charset=utf-8"
    with pytest.raises(
        DatasetError, match=r"a web page instead of the file: fetch it by hand and put it at .*file\.bin"
    ):
        fetch(Remote(server.url, "file.bin"), tmp_path)


def test_two_processes_do_not_write_one_file(server: Server, tmp_path: Path) -> None:
    remote = Remote(server.url, "file.bin")
    with (
        FileLock(tmp_path / "file.bin.lock"),
        pytest.raises(DatasetError, match="is being downloaded by another process"),
    ):
        fetch(remote, tmp_path)
    assert server.asked == []
    assert fetch(remote, tmp_path).read_bytes() == CONTENT
    assert files(tmp_path) == ["file.bin"]


# -- archives -------------------------------------------------------------------------------------------------------


def make_zip(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def test_unpack_drops_a_single_top_folder(tmp_path: Path) -> None:
    one = make_zip(tmp_path / "one.zip", {"top/raw/a.csv": b"1", "top/b": b"2", "__MACOSX/top/._b": b"junk"})
    assert sorted(p.name for p in unpack(one, tmp_path / "one").iterdir()) == ["b", "raw"]
    two = make_zip(tmp_path / "two.zip", {"raw/a.csv": b"1", "b": b"2"})
    assert sorted(p.name for p in unpack(two, tmp_path / "two").iterdir()) == ["b", "raw"]
    assert files(tmp_path) == ["one", "one.zip", "two", "two.zip"]


@pytest.mark.parametrize("name", ["../evil", "a/../../evil", "/etc/evil", "C:/evil", "..\\evil"])
def test_members_outside_the_folder_are_refused(tmp_path: Path, name: str) -> None:
    archive = make_zip(tmp_path / "a.zip", {"fine": b"1", name: b"2"})
    with pytest.raises(DatasetError, match="points outside its folder: refused"):
        unpack(archive, tmp_path / "out")
    assert files(tmp_path) == ["a.zip"]


def test_links_are_refused(tmp_path: Path) -> None:
    link = zipfile.ZipInfo("link")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(link, "/etc/passwd")
    with pytest.raises(DatasetError, match="is a link: refused"):
        unpack(tmp_path / "a.zip", tmp_path / "out")


def test_truncated_and_damaged_archives(tmp_path: Path) -> None:
    archive = make_zip(tmp_path / "a.zip", {"big": CONTENT})
    whole = archive.read_bytes()
    damaged = bytearray(whole)
    damaged[200] ^= 0xFF
    for content in (whole[:-30], whole[: len(whole) // 2], b"", b"junk", bytes(damaged)):
        archive.write_bytes(content)
        with pytest.raises(DatasetError, match=r"a\.zip is not a whole zip archive"):
            unpack(archive, tmp_path / "out")
        assert files(tmp_path) == ["a.zip"]


SHA256 = hashlib.sha256(CONTENT)
MD5 = hashlib.md5(CONTENT)


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-MD5": MD5.hexdigest()},
        {"Content-MD5": base64.b64encode(MD5.digest()).decode()},
        {"ETag": f'"md5:{MD5.hexdigest()}"'},
        {"x-goog-hash": f"crc32c=n03x6A==,md5={base64.b64encode(MD5.digest()).decode()}"},
        {"Repr-Digest": f"sha-256=:{base64.b64encode(SHA256.digest()).decode()}:"},
        {"Digest": f"SHA-256={base64.b64encode(SHA256.digest()).decode()}"},
    ],
)
def test_the_digest_that_a_server_tells(headers: dict[str, str]) -> None:
    told = told_digest(headers)
    assert told is not None
    assert told[1] == hashlib.new(told[0], CONTENT).digest()


@pytest.mark.parametrize(
    "headers", [{}, {"ETag": '"v1"'}, {"Content-MD5": "abc"}, {"Digest": "sha-256=!"}, {"ETag": '"md5:0"'}]
)
def test_no_digest_is_told(headers: dict[str, str]) -> None:
    assert told_digest(headers) is None


def test_a_file_that_differs_from_the_digest_its_server_told(server: Server, tmp_path: Path) -> None:
    server.tag = f'"md5:{MD5.hexdigest()}"'
    assert fetch(Remote(server.url, "good.bin"), tmp_path).read_bytes() == CONTENT
    server.content = CONTENT[:-1] + b"!"
    with pytest.raises(DatasetError, match="not what its server says it sent: its md5 differs"):
        fetch(Remote(server.url, "bad.bin"), tmp_path)
    assert not (tmp_path / "bad.bin").exists()
    assert not (tmp_path / "bad.bin.part").exists()


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_compression_is_unpacked(tmp_path: Path, method: int) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w", method) as archive:
        archive.writestr("top/file.txt", "text")
    assert (unpack(tmp_path / "a.zip", tmp_path / "out") / "file.txt").read_text() == "text"


def test_archives_that_cannot_be_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("file.txt", "text")
    whole = path.read_bytes()
    central = whole.index(b"PK\x01\x02")
    for at, value in ((central + 8, 1), (central + 10, 99)):  # said to be encrypted; packed by a method of nobody
        path.write_bytes(whole[:at] + bytes([value]) + whole[at + 1 :])
        with pytest.raises(DatasetError, match="is not a whole zip archive"):
            unpack(path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_archive_that_the_disk_has_no_room_for(tmp_path: Path) -> None:
    """A size of 2⁶² bytes, which only the directory at the end of the archive tells."""
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("file.txt", "text")
        archive.filelist[0].file_size = 2**62
    with pytest.raises(DatasetError, match=r"unpacks to 4,294,967,296\.0 GiB, and .* has room for"):
        unpack(path, tmp_path / "out")
