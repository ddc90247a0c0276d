"""Run the command line in this process, as a user would see it."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from handful import cli


@dataclass
class Result:
    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> dict[str, Any]:
        return json.loads(self.stdout)


def handful(*args: object) -> Result:
    """``handful ARGS``: exit code, stdout and stderr."""
    stdout, stderr = io.StringIO(), io.StringIO()
    code = 0
    argv = patch.object(sys, "argv", ["handful", *map(str, args)])
    with argv, contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
        try:
            cli.main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    return Result(code, stdout.getvalue(), stderr.getvalue())
