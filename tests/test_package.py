from __future__ import annotations

import subprocess
import sys

import pytest

import handful


@pytest.mark.parametrize("name", handful.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(handful, name) is not None


def test_an_unknown_name_is_said_to_be_one() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = handful.nothing  # type: ignore[attr-defined]


def test_help_does_not_wait_for_torch() -> None:
    code = "import sys; sys.argv[1:] = ['--help']\nimport handful.cli\n"
    code += "try: handful.cli.main()\nexcept SystemExit: sys.exit('torch' in sys.modules or 'numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0
