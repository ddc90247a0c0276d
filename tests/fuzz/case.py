"""A case of the fuzzer: the files and words that one door is opened with. It is a value, so that it can be kept."""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import dataclass, field
from pathlib import Path

HERE = "{here}"
"""Stands in words for the folder that the files are in."""


@dataclass(frozen=True)
class Case:
    """What one door is opened with.

    Args:
        door: its name; see ``doors.DOORS``.
        seed: what the mutators drew from.
        files: by path, below a folder of the case's own.
        words: options or arguments, in which ``{here}`` is that folder.
        found: what it was kept for.
    """

    door: str
    seed: int
    files: dict[str, bytes] = field(default_factory=dict, repr=False)
    words: tuple[str, ...] = ()
    found: str = ""

    def write(self, folder: Path) -> list[str]:
        """Put the files into ``folder``; the words, as they are meant there."""
        for name, content in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return [word.replace(HERE, str(folder)) for word in self.words]

    def dumps(self) -> str:
        """One small JSON text."""
        packed = {name: base64.b64encode(zlib.compress(content, 9)).decode() for name, content in self.files.items()}
        value = {"door": self.door, "seed": self.seed, "found": self.found, "words": self.words, "files": packed}
        return json.dumps(value, indent=1) + "\n"

    @classmethod
    def loads(cls, text: str) -> Case:
        """What ``dumps`` gave."""
        value = json.loads(text)
        files = {name: zlib.decompress(base64.b64decode(packed)) for name, packed in value["files"].items()}
        return cls(value["door"], value["seed"], files, tuple(value["words"]), value["found"])
