"""What counts as a line of code."""

from __future__ import annotations

from pathlib import Path

from scripts import script

size = script("size")

SOURCE = '''"""A module,
in two lines."""

import os  # counts


class Thing:
    """A class."""

    name: str = """a value
of two lines"""
    """An attribute."""

    def act(self) -> None:
        # a comment
        "A function."
        print(
            os.sep,
        )
'''


def test_documentation_comments_and_blank_lines_do_not_count() -> None:
    assert size.code_lines(SOURCE) == 8  # import, class, two of the value, def, three of the call
    assert size.code_lines("") == 0


def test_a_folder_has_the_lines_of_all_its_modules(tmp_path: Path) -> None:
    (tmp_path / "room").mkdir()
    (tmp_path / "__init__.py").write_text('"""Nothing."""\n')
    (tmp_path / "room" / "one.py").write_text(SOURCE)
    (tmp_path / "room" / "notes.txt").write_text("no code\n")
    assert size.measure(tmp_path) == size.Size(lines=8, modules=2)
