"""The walls between the rooms: the contracts hold, and the picture in the docs shows them as they are."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[1]


def draw_layers() -> ModuleType:
    spec = spec_from_file_location("draw_layers", ROOT / "docs" / "draw_layers.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_picture_shows_the_contracts() -> None:
    script = draw_layers()
    assert script.PICTURE.read_text(encoding="utf-8") == script.drawn(), "run python docs/draw_layers.py"


def test_every_room_is_in_a_layer() -> None:
    rooms = {room for layer in draw_layers().layers() for room in layer}
    package = ROOT / "src" / "handful"
    found = {path.stem for path in package.glob("*.py") if not path.stem.startswith("__")}
    found |= {path.parent.name for path in package.glob("*/__init__.py")}
    assert rooms == found


def test_the_contracts_are_kept(tmp_path: Path) -> None:
    code = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
