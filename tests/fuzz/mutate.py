"""Mutators: small changes that make a valid input an odd one. Each draws from the generator that it is given."""

from __future__ import annotations

import io
import json
import re
import struct
import zipfile
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

from handful.files import seal

NUMBERS: list[Any] = [
    *(
        0,
        1,
        -1,
        2,
        3,
        7,
        100,
        255,
        65_536,
        2**31 - 1,
        2**31,
        -(2**31),
        2**53 + 1,
        2**62,
        2**63 - 1,
        2**63,
        2**64,
        -(2**63),
    ),
    *(10**30, 5 * 10**8, 10**13, 0.5, -0.5, 1e-320, 1e30, 1e308, -0.0, float("nan"), float("inf"), -float("inf")),
]
TEXTS = [
    *(
        "",
        " ",
        "abc",
        "0",
        "-1",
        "1.5",
        "1e9",
        "1e999",
        "nan",
        "inf",
        "-inf",
        "true",
        "null",
        "None",
        "2,4",
        "1,,2",
        ",",
    ),
    *("a=b", "=", "[1]", "{}", '"', "'", "\\", "\0", "\n", "\t", "é", "Ω≈ç√", "😀", "\u202e", "\ufeff", "%00", "%s%n"),
    *("../..", "/", "~", "~nobody-of-this-name", "[red]", "[/]", "<b>", "0x10", "1_000", "٣", "9" * 5000, "x" * 5000),
]
NESTED: list[Any] = [None, True, False, [], {}, [[]], [1, 2], {"a": 1}, [None], "text", [[[[[]]]]], [1, "a", None]]


def anything(rng: Random) -> Any:
    """A value of any type."""
    return rng.choice(rng.choice([NUMBERS, TEXTS, NESTED]))


def several(rng: Random, most: int = 4) -> range:
    """How often: once mostly."""
    return range(min(most, 1 + int(rng.expovariate(1.2))))


# -- bytes ----------------------------------------------------------------------------------------------------------


def mutate_bytes(rng: Random, data: bytes, other: bytes = b"") -> bytes:
    """Bits flipped, pieces cut, doubled, zeroed, taken from elsewhere, or overwritten by telling numbers."""
    out = bytearray(data)
    for _ in several(rng):
        n = len(out)
        if n == 0:
            return bytes(rng.randbytes(rng.randrange(1, 50)))
        at, size = rng.randrange(n), rng.choice([1, 2, 4, 8, 64, max(1, n // 4)])
        how = rng.randrange(8)
        if how <= 1:
            for _ in range(rng.choice([1, 1, 2, 8])):
                out[rng.randrange(n)] ^= 1 << rng.randrange(8)
        elif how == 2:
            del out[at:]
        elif how == 3:
            out[at:at] = rng.randbytes(size)
        elif how == 4:
            del out[at : at + size]
        elif how == 5:
            piece = out[at : at + size] if not other else other[(b := rng.randrange(len(other))) : b + size]
            out[at:at] = piece
        elif how == 6:
            out[at : at + size] = bytes([rng.choice([0, 255, 0x7F])]) * len(out[at : at + size])
        else:
            kind, number = rng.choice([("<i", 2**31 - 1), ("<I", 2**32 - 1), ("<q", 2**62), ("<q", -1), ("<H", 65_535)])
            packed = struct.pack(kind, number)
            out[at : at + len(packed)] = packed
    return bytes(out)


# -- JSON -----------------------------------------------------------------------------------------------------------


def mutate_json(rng: Random, text: bytes) -> bytes:
    """Values of other types, keys that are missing or new, deep nesting; at times a change of the text itself."""
    how = rng.randrange(10)
    if how == 0:
        return mutate_bytes(rng, text)
    if how == 1:
        depth = rng.choice([100, 5_000, 200_000])
        return rng.choice([b"[" * depth, b"[" * depth + b"]" * depth, b'{"a":' * depth + b"1" + b"}" * depth])
    if how == 2:
        return rng.choice(
            [b"", b"null", b"[]", b"{}", b"1", b'"a"', b"NaN", b"\xff\xfe", b"\xef\xbb\xbf{}", b"9" * 6000]
        )
    value = edited(rng, json.loads(text))
    for _ in several(rng, 3):
        value = edited(rng, value)
    if isinstance(value, dict) and "crc32" in value and rng.random() < 0.7:
        value = resealed(value)
    return json.dumps(value, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")


def resealed(value: dict[str, Any]) -> dict[str, Any]:
    """The value with the checksum that belongs to it, so that what is behind the checksum is tried too."""
    try:
        return seal({k: v for k, v in value.items() if k != "crc32"})
    except (TypeError, ValueError):
        return value


def edited(rng: Random, value: Any) -> Any:
    """A plain value with one place of it changed."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(list(value))
        how = rng.random()
        if how < 0.12:
            return {k: v for k, v in value.items() if k != key}
        if how < 0.18:
            return {**value, str(rng.choice(TEXTS))[:100]: anything(rng)}
        return {**value, key: edited(rng, value[key])}
    if isinstance(value, list) and value and rng.random() < 0.9:
        at = rng.randrange(len(value))
        how = rng.random()
        if how < 0.1:
            return value[:at] + value[at + 1 :]
        if how < 0.2:
            return value * 2
        return [*value[:at], edited(rng, value[at]), *value[at + 1 :]]
    if isinstance(value, str) and rng.random() < 0.3:
        return value + rng.choice(TEXTS)
    return anything(rng)


# -- arrays ---------------------------------------------------------------------------------------------------------

DTYPES = [
    *(
        "<i8",
        ">i8",
        "<i4",
        ">i4",
        "<i2",
        "|i1",
        "|u1",
        "<u2",
        "<u4",
        "<u8",
        ">u8",
        "|b1",
        "<f2",
        "<f4",
        ">f4",
        "<f8",
        ">f8",
    ),
    *(
        "<f16",
        "<c8",
        "<c16",
        "|S3",
        "<U5",
        "<M8[ns]",
        "<m8[D]",
        "|V8",
        "|O",
        "|S0",
        "<U0",
        "<M8",
        "bad",
        "<i8,<f4",
        "|V0",
    ),
]


def mutate_array(rng: Random, array: np.ndarray) -> np.ndarray:
    """Another type, shape or order, or a few values that are out of place."""
    how = rng.randrange(9)
    try:
        if how <= 1:
            return array.astype(rng.choice([d for d in DTYPES if d not in ("|O", "bad")]))
        if how == 2:
            return rng.choice([array.T, array.reshape(-1), array[..., None], array[None], array[:0], array[:, :0]])
        if how == 3:
            return np.asfortranarray(array)[::-1]
        if how == 4:
            return np.array([(1, 2.0)], dtype=[("a", "<i4"), ("b", "<f4")])[np.zeros(len(array), int)]
        if how == 5:
            return np.asarray(array.reshape(-1)[0])
        if how == 6:
            return np.concatenate([array, array[:1]])
        if how == 7:
            return np.array([rng.choice(TEXTS)[:40] for _ in range(len(array))])
        out = array.copy()
        flat = out.reshape(-1)
        with np.errstate(all="ignore"):
            for _ in several(rng):
                number = rng.choice(NUMBERS)
                flat[rng.randrange(len(flat))] = number
        return out
    except (ValueError, TypeError, IndexError, OverflowError, AssertionError):
        return array[: len(array) // 2] if array.ndim else array


def mutate_npy(rng: Random, data: bytes) -> bytes:
    """An ``.npy`` file whose header tells another shape, type or order than its bytes have."""
    how = rng.randrange(6)
    if how == 0:
        return mutate_bytes(rng, data)
    if how == 1:
        return saved_array(mutate_array(rng, np.load(io.BytesIO(data))))
    size = struct.unpack("<H", data[8:10])[0]
    header = data[10 : 10 + size].decode("latin1")
    if how <= 3:
        shape = rng.choice(
            ["()", "(0,)", "(10000000000000,)", "(2, 9223372036854775807)", "(-1,)", "(3,)", "(2, 3)", "(1.5,)"]
        )
        header = re.sub(
            r"\([^)]*\)", lambda _: rng.choice([shape, "(" + "1, " * 70 + ")", "(99999999999999999999,)"]), header
        )
    elif how == 4:
        header = re.sub(r"'descr': '[^']*'", lambda _: f"'descr': {rng.choice(DTYPES)!r}", header)
        header = header.replace("|O", rng.choice(["|O", "O"]))
    else:
        header = rng.choice(
            [
                header.replace("False", "True"),
                header.replace("descr", "desc"),
                "{}",
                "(" * 500,
                "{'descr': open}",
                "9" * 400,
            ]
        )
    encoded = header.encode("latin1", "replace")
    return data[:8] + struct.pack("<H", min(len(encoded), 65_535)) + encoded + data[10 + size :]


def saved_array(array: np.ndarray) -> bytes:
    """The array as a ``.npy`` file."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


# -- zip ------------------------------------------------------------------------------------------------------------

METHODS = [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]


def members(data: bytes) -> dict[str, bytes]:
    """What a zip holds."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def mutate_zip(rng: Random, data: bytes, inner: Callable[[Random, bytes], bytes] = mutate_bytes) -> bytes:
    """Members changed, dropped, renamed, doubled or packed another way; or the bytes of the archive changed."""
    if rng.random() < 0.25:
        return mutate_bytes(rng, data)
    held = members(data)
    name = rng.choice(list(held))
    how = rng.randrange(9)
    method = rng.choice(METHODS) if rng.random() < 0.4 else zipfile.ZIP_DEFLATED
    doubled: list[str] = []
    if how <= 3:
        held[name] = inner(rng, held[name])
    elif how == 4:
        del held[name]
    elif how == 5:
        held[rng.choice(["../out", "/abs", "a/../../b", "C:\\x", "..\\x", "", "x" * 300, "é", "a\0b"])] = held[name]
    elif how == 6:
        held[name.replace(".", rng.choice(["_", "..", "./", " "]), 1)] = held.pop(name)
    elif how == 7:
        held["unused.npy"], method = b"\0" * (16 << 20), zipfile.ZIP_DEFLATED
    else:
        doubled = [name]
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for member in [*held, *doubled]:
            info = zipfile.ZipInfo(member or "empty")
            info.compress_type = method
            if rng.random() < 0.03:
                info.external_attr = 0o120777 << 16
            archive.writestr(info, held[member])
    packed = out.getvalue()
    if rng.random() < 0.15:  # a header that tells another size, method, checksum or flag than the data have
        at = packed.find(rng.choice([b"PK\x01\x02", b"PK\x03\x04", b"PK\x05\x06"]))
        field = at + rng.randrange(4, 46)
        packed = packed[:field] + rng.randbytes(rng.choice([1, 2, 4])) + packed[field + 4 :]
    return packed


# -- text -----------------------------------------------------------------------------------------------------------


def mutate_csv(rng: Random, data: bytes) -> bytes:
    """Cells, rows and columns that are odd, missing, doubled or too many; other encodings and separators."""
    how = rng.randrange(14)
    text = data.decode()
    rows = [line.split(",") for line in text.splitlines()]
    if how <= 4 and rows:
        for _ in several(rng):
            row = rng.choice(rows)
            row[rng.randrange(len(row))] = str(anything(rng))
    elif how == 5:
        del rows[rng.randrange(len(rows))][-1:]
    elif how == 6:
        rows[rng.randrange(len(rows))] += ["more", "cells"]
    elif how == 7:
        rows[0] = [rows[0][0]] * len(rows[0]) if rng.random() < 0.5 else [*rows[0][:-1], rows[0][0]]
    elif how == 8:
        rows = [row + [f"wide{i}" if at == 0 else "1" for i in range(6_000)] for at, row in enumerate(rows)]
    elif how == 9:
        return rng.choice(
            [b"\xef\xbb\xbf" + data, text.encode("utf-16"), text.encode("utf-16-le"), data.replace(b"a", b"\xe9")]
        )
    elif how == 10:
        return data.replace(
            rng.choice([b",", b"\n"]), rng.choice([b";", b"\t", b" ", b"\r", b"\r\n", b"\n\n", b"\0", b'","'])
        )
    elif how == 11:
        rows = rng.choice([[], rows[:1], rows[1:], rows[::-1], [[""]], [["#"], *rows], rows * 50])
    elif how == 12:
        row = rng.choice(rows)
        row[rng.randrange(len(row))] = rng.choice(
            ['"open', 'a"b', '"a\nb"', '""', '"', "'", '"' * 3, "1" * 400, "x" * 100_000]
        )
    else:
        return mutate_bytes(rng, data)
    return "\n".join(",".join(row) for row in rows).encode("utf-8", "replace") + (b"\n" if rng.random() < 0.8 else b"")


def mutate_query(rng: Random, text: str) -> str:
    """A name with options, one of them changed, added or garbled."""
    base, _, given = text.partition("?")
    pairs = [pair for pair in given.split("&") if pair]
    for _ in several(rng):
        how = rng.randrange(7)
        if pairs and how <= 3:
            at = rng.randrange(len(pairs))
            pairs[at] = pairs[at].partition("=")[0] + "=" + str(rng.choice(rng.choice([NUMBERS, TEXTS])))
        elif how == 4:
            pairs.append(rng.choice(TEXTS) + rng.choice(["", "="]) + rng.choice(TEXTS))
        elif how == 5:
            base += rng.choice([*TEXTS, ":", "?", "/", ":x/y"])
        elif pairs:
            pairs += [rng.choice(pairs)]
    return base + ("?" + "&".join(pairs) if pairs else "")
