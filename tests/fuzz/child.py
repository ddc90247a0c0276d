"""The process in which cases run, one after another, with limits. It dies with a case that kills it; see ``runner``."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import resource
import shutil
import sys
import traceback
import warnings
from pathlib import Path
from random import Random
from typing import Any

MORE_BYTES = 3 << 29
"""What a case may take beside what the libraries have."""
FILE_BYTES = 256 << 20


def main() -> None:
    """Answer each request, a line of JSON on stdin, by a line of JSON on what was stdout."""
    material, work = Path(sys.argv[1]), Path(sys.argv[2])
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    warnings.simplefilter("ignore")
    os.environ |= {
        "HANDFUL_HOME": str(work / "home"),
        "http_proxy": "http://127.0.0.1:9",
        "https_proxy": "http://127.0.0.1:9",
    }
    from fuzz.case import Case
    from fuzz.doors import DOORS

    files = pickle.loads(material.read_bytes()) if material.stat().st_size else {}
    warm(work / "warm")
    limit()
    began = held()
    for line in sys.stdin:
        asked = json.loads(line)
        shutil.rmtree(work / "case", ignore_errors=True)
        folder = work / "case" / "files"
        folder.mkdir(parents=True)
        if "case" in asked:
            case = Case.loads(Path(asked["case"]).read_text())
        elif asked["seed"] is None:
            case = Case(asked["door"], 0, files[asked["door"]])
        else:
            try:
                made, words = DOORS[asked["door"]].make(Random(asked["seed"]), files.get(asked["door"], {}))
            except Exception:
                print(json.dumps({"made": False}), file=answers)
                print(json.dumps({"answer": "unmade", "said": traceback.format_exc()}), file=answers)
                continue
            case = Case(asked["door"], asked["seed"], made, words)
        (work / "case" / "case.json").write_text(case.dumps())
        print(json.dumps({"made": True}), file=answers)
        # What libraries reserve and keep for later counts against the limit too.
        print(json.dumps({**opened(case, folder), "full": held() - began > MORE_BYTES // 2}), file=answers)


def warm(folder: Path) -> None:
    """Libraries reserve what they need: V8 when it first draws, Arrow when it first reads, numba when it compiles."""
    import pyarrow.parquet as parquet
    import vl_convert
    from pyarrow import table

    from fuzz.material import GRAPH, experiment

    folder.mkdir(parents=True, exist_ok=True)
    vl_convert.vegalite_to_svg({"mark": "point"})
    parquet.write_table(table({"a": [1]}), folder / "a.parquet")
    parquet.read_table(folder / "a.parquet")
    experiment(GRAPH).run()


def opened(case: Any, folder: Path) -> dict[str, Any]:
    """What came of a case: ``ok``, ``refused`` with the words that the user reads, or ``finding``."""
    from fuzz.doors import BROKEN, DOORS
    from handful.errors import HandfulError

    try:
        with open(os.devnull, "w") as null, contextlib.redirect_stdout(null), contextlib.redirect_stderr(null):
            words = case.write(folder)
            {**DOORS, "broken": BROKEN}[case.door].open(folder, words)
    except HandfulError as error:
        return {"answer": "refused", "said": str(error)[:2000]}
    except BaseException as error:
        trace = traceback.extract_tb(error.__traceback__)
        ours = [f for f in trace if "/handful/" in f.filename] or list(trace)
        at = f"{Path(ours[-1].filename).name}:{ours[-1].name}" if ours else "?"
        said = f"{type(error).__name__} at {at}: {str(error)[:1500]}"
        return {"answer": "finding", "said": said, "key": f"{type(error).__name__} at {at}"}
    return {"answer": "ok", "said": ""}


def limit() -> None:
    """No core files, no large files, and little memory beside what is mapped already."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES, FILE_BYTES))
    # Not RLIMIT_AS, which counts what is reserved and never written, such as V8's cage.
    most = held() + MORE_BYTES
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def held() -> int:
    """The bytes that count against the limit."""
    return int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()


if __name__ == "__main__":
    main()
