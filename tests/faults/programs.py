"""Programs in processes of their own, for tests that break them off."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
PLACES = [str(HERE), str(HERE.parent), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]


def start(*args: object, **options: object) -> subprocess.Popen[str]:
    """``python ARGS``, with the modules beside the tests at hand; what it says is in ``stdout`` and ``stderr``."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(place for place in PLACES if place)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "env": env}
    return subprocess.Popen([sys.executable, *map(str, args)], **{**pipes, **options})  # type: ignore[call-overload]


def finished(*args: object, code: int = 0, timeout: float = 120, **options: object) -> tuple[str, str]:
    """What ``python ARGS`` wrote to stdout and stderr, if it ended with ``code`` in time."""
    process = start(*args, **options)
    try:
        out, err = process.communicate(timeout=timeout)
    finally:
        process.kill()
    assert process.returncode == code, f"exit code {process.returncode}\n{out}\n{err}"
    return out, err
