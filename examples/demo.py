"""The main job on the embedded data set: the full graph against random node sampling, in under three minutes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

OUT = Path("runs") / "demo"
SAMPLERS = "full,rns,rns-mean-field"
COMMAND = f"compare debian --split rh --samplers {SAMPLERS} --option rns.parts=4 --epochs 25 --seeds 42"


def main() -> None:
    print(f"handful {COMMAND} --out {OUT}", flush=True)
    subprocess.run([sys.executable, "-m", "handful", *COMMAND.split(), "--out", str(OUT)], check=True)
    print(f"\nOpen {OUT / 'report.html'} in a browser; the records of the runs are beside it.")


if __name__ == "__main__":
    main()
