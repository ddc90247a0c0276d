"""The run of ``killed.py`` on all ranks that torchrun starts: ``torchrun ranked.py FOLDER PAUSE``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from faults.killed import train
from handful import ranks

if __name__ == "__main__":
    with ranks.join(threads=1):
        train(Path(sys.argv[1]), float(sys.argv[2]), parts_per_step=2)
        if ranks.rank() == 0:
            print(f"restarted {os.environ['TORCHELASTIC_RESTART_COUNT']} times", file=sys.stderr)
