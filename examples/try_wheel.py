"""Installs a wheel into a fresh environment and uses it there: ``python examples/try_wheel.py WHEEL CONSTRAINTS``.

The commands run in an empty folder outside the checkout, so that data, templates, presets and kernels can only come
from the wheel.
"""

from __future__ import annotations

import subprocess
import sys
import venv
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

NEEDED = ("datasets/data/debian.npz", "studies/presets/training.toml", "report/assets/", "py.typed", "__init__.pyi")
COMMANDS = (
    "doctor",
    "demo",
    "train debian --epochs 2 --hidden 16 --layers 2 --seeds 1 --out run",
    "predict run --nodes test --out predictions.csv",
    "report run",
)


def main(wheel: Path, constraints: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    missing = [name for name in NEEDED if not any(one.startswith(f"handful/{name}") for one in names)]
    if missing:
        sys.exit(f"{wheel} lacks {', '.join(missing)}")
    with TemporaryDirectory() as folder:
        home = Path(folder)
        venv.create(home / "venv", with_pip=True)
        python = home / "venv" / "bin" / "python"
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", constraints.resolve()]
        for wanted in ("torch", wheel.resolve()):
            subprocess.run([*pip, wanted], check=True, cwd=home)
        for command in COMMANDS:
            print(f"handful {command}", flush=True)
            subprocess.run([home / "venv" / "bin" / "handful", *command.split()], check=True, cwd=home)
        rows = (home / "predictions.csv").read_text(encoding="utf-8").splitlines()
        page = (home / "run" / "report.html").read_text(encoding="utf-8")
        if len(rows) < 1000 or "<html" not in page:
            sys.exit("the wheel runs, and its predictions or its page are not there")
        where = subprocess.run(
            [python, "-c", "import handful; print(handful.__file__)"], cwd=home, text=True, capture_output=True
        )
        if str(home.resolve()) not in where.stdout:
            sys.exit(f"handful was imported from {where.stdout.strip()}, not from the wheel")
    print(f"{wheel.name} installs and runs")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
