"""The main job on the embedded data set, in under three minutes: ``handful demo``."""

from __future__ import annotations

import subprocess
import sys

if __name__ == "__main__":
    subprocess.run([sys.executable, "-m", "handful", "demo"], check=True)
