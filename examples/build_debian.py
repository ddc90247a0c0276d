"""Build the ``debian`` data set from an index of packages: ``python examples/build_debian.py Packages.xz OUT.npz``.

The index is in Debian's ``Packages`` format, plain, .gz or .xz: that of Debian, Ubuntu or an archive of your own.
``load("debian?file=OUT.npz")`` reads what is built. ``handful.datasets.debian`` says what the graph is.
"""

from __future__ import annotations

import gzip
import lzma
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch

from handful.datasets.debian import FEATURES, read
from handful.datasets.splits import NAMED, stratified_split
from handful.errors import DatasetError, readable
from handful.files import write_aside
from handful.graph import MASKS
from handful.random import generator

RELATIONS = ("Depends", "Pre-Depends", "Recommends", "Suggests", "Enhances")
MIN_PACKAGES = 3
"""Words that fewer packages use are left out."""
SEED = 12
_NAME = re.compile(r"[a-z0-9][a-z0-9+.-]*")
_WORD = re.compile(r"[a-z0-9]+")


@dataclass(frozen=True)
class Package:
    """What the graph needs of a package."""

    name: str
    section: str
    description: str
    related: frozenset[str]


def read_index(path: str | os.PathLike[str]) -> list[Package]:
    """The packages of an index in the ``Packages`` format (plain, .gz or .xz), ordered by name."""
    found: dict[str, Package] = {}
    for line, stanza in _stanzas(Path(path)):
        for needed in ("Package", "Section", "Description"):
            if not stanza.get(needed):
                raise DatasetError(f"{path}, line {line}: the stanza has no {needed}")
        name = stanza["Package"]
        related = frozenset(n for relation in RELATIONS for n in related_names(stanza.get(relation, "")))
        if name in found:
            related |= found[name].related
        section = stanza["Section"].rpartition("/")[2]
        found[name] = Package(name, section, stanza["Description"].partition("\n")[0], related)
    if not found:
        raise DatasetError(f"{path} holds no package: give it an index in Debian's Packages format")
    return [found[name] for name in sorted(found)]


def related_names(relation: str) -> list[str]:
    """The packages that a relation field names: ``"a (>= 1) | b:any, c [amd64]"`` gives a, b and c."""
    matches = (_NAME.match(item.strip()) for item in re.split(r"[,|]", relation))
    return [match.group() for match in matches if match]


def description_words(description: str) -> list[str]:
    """The distinct words of a description, in alphabetical order."""
    return sorted(set(_WORD.findall(description.lower())))


def _stanzas(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Each stanza as a dictionary of its fields, with the line on which it begins."""
    stanza: dict[str, str] = {}
    key, begin = "", 1
    with readable(path, "give it an index in Debian's Packages format"), _opened(path) as lines:
        for number, raw in enumerate(lines, 1):
            line = raw.rstrip()
            if not line:
                if stanza:
                    yield begin, stanza
                stanza, key, begin = {}, "", number + 1
            elif line[0] in " \t" and key:
                stanza[key] += "\n" + line.strip()
            else:
                key, colon, value = line.partition(":")
                if not colon or key in stanza or not key.strip():
                    raise DatasetError(f"{path}, line {number}: expected 'Field: value', got '{line[:60]}'")
                stanza[key] = value.strip()
    if stanza:
        yield begin, stanza


def _opened(path: Path) -> IO[str]:
    with path.open("rb") as file:
        start = file.read(2)
    opener: Any = {b"\xfd7": lzma.open, b"\x1f\x8b": gzip.open}.get(start, open)
    return opener(path, "rt", encoding="utf-8")  # type: ignore[no-any-return]


def build(packages: list[Package]) -> dict[str, np.ndarray]:
    """The arrays that the data set is made of. Neighbours and words are kept as counts and gaps, which pack well."""
    names = [p.name for p in packages]
    place = {name: i for i, name in enumerate(names)}
    sections = sorted({p.section for p in packages})
    pairs = {
        (min(i, j), max(i, j)) for i, p in enumerate(packages) for j in map(place.get, p.related) if j not in (None, i)
    }
    edges = np.array(sorted(pairs), np.int64).reshape(-1, 2)
    texts = [description_words(p.description) for p in packages]
    vocabulary, bag = _bag_of_words(texts)
    scale, projection = _projection(*bag, len(vocabulary))
    label = np.array([sections.index(p.section) for p in packages], np.uint8 if len(sections) < 256 else np.uint16)
    arrays = {
        "names": _packed_text(names),
        "sections": _packed_text(sections),
        "words": _packed_text(vocabulary),
        "label": label,
        "scale": scale,
        "projection": projection,
    }
    arrays |= _packed_rows("neighbour", np.bincount(edges[:, 0], minlength=len(names)), edges[:, 1])
    arrays |= _packed_rows("word", *bag)
    for split, shares in NAMED.items():
        masks = stratified_split(torch.from_numpy(label.astype(np.int64)), shares, SEED)
        arrays[f"split_{split}"] = np.stack([masks[name].numpy() for name in MASKS]).argmax(0).astype(np.uint8)
    return arrays


def _bag_of_words(texts: list[list[str]]) -> tuple[list[str], tuple[np.ndarray, np.ndarray]]:
    """The vocabulary, and for each text how many of its words are in it and which."""
    counts = Counter(word for text in texts for word in text)
    vocabulary = sorted(word for word, count in counts.items() if count >= MIN_PACKAGES)
    place = {word: i for i, word in enumerate(vocabulary)}
    rows = [[place[word] for word in text if word in place] for text in texts]
    return vocabulary, (np.array([len(r) for r in rows]), np.array([w for r in rows for w in r], np.int64))


def _projection(counts: np.ndarray, columns: np.ndarray, num_words: int) -> tuple[np.ndarray, np.ndarray]:
    """The words' rows of V in TF-IDF ≈ U·S·Vᵀ in 8 bits, and what each is to be multiplied by, its idf included."""
    from scipy.sparse import csr_array, diags_array
    from scipy.sparse.linalg import norm, svds

    packages = len(counts)
    bag = csr_array((np.ones(len(columns)), columns, np.concatenate([[0], np.cumsum(counts)])), (packages, num_words))
    idf = 1 + np.log(packages / np.bincount(columns, minlength=num_words).clip(1))
    tfidf = bag @ diags_array(idf)
    tfidf = diags_array(1 / np.maximum(norm(tfidf, axis=1), 1e-12)) @ tfidf
    rank = min(FEATURES, min(tfidf.shape) - 1)
    if rank < 1:
        raise DatasetError(f"{packages} packages with {num_words} common words are too few to make features of")
    start = generator(SEED).standard_normal(min(tfidf.shape))
    _, strength, v = svds(tfidf, k=rank, v0=start)
    v = v[np.argsort(-strength)].T
    v *= np.sign(v[np.abs(v).argmax(0), np.arange(rank)])
    largest = np.maximum(np.abs(v).max(1), 1e-12)
    return (idf * largest / 127).astype(np.float32), np.round(v / largest[:, None] * 127).astype(np.int8)


def _packed_text(items: list[str]) -> np.ndarray:
    return np.frombuffer("\n".join(items).encode(), np.uint8)


def _packed_rows(name: str, counts: np.ndarray, columns: np.ndarray) -> dict[str, np.ndarray]:
    """Rows of ascending numbers as their lengths and the gaps between the numbers, each in the smallest type."""
    gaps = np.diff(columns, prepend=0)
    first = np.cumsum(counts)[:-1]
    first = first[first < len(columns)]
    gaps[first] = columns[first]
    return {f"{name}_counts": _narrow(counts), f"{name}_gaps": _narrow(gaps)}


def _narrow(values: np.ndarray) -> np.ndarray:
    return values.astype(np.min_scalar_type(int(values.max(initial=0))))


def save_arrays(arrays: dict[str, np.ndarray], path: str | os.PathLike[str]) -> None:
    """Write what ``build`` made."""

    def write(aside: Path) -> None:
        with aside.open("wb") as file:  # given a name, numpy would add .npz to it
            np.savez_compressed(file, **arrays)  # type: ignore[arg-type]

    write_aside(Path(path), write)


def main(arguments: list[str]) -> int:
    """Build the data set's file from an index."""
    try:
        if len(arguments) != 2:
            raise DatasetError("usage: python examples/build_debian.py Packages.xz OUT.npz")
        save_arrays(build(read_index(arguments[0])), arguments[1])
        print(read(arguments[1], "rh"), file=sys.stderr)
    except DatasetError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
