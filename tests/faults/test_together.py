"""Several processes on one run folder, one cache and one graph."""

from __future__ import annotations

import json
import os
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

import handful as hf
from faults.programs import start
from graphs import make_graph
from handful.storage import open_graph, save

ONE_FOLDER = """
import sys, handful as hf
graph = "synthetic?nodes=300&degree=6&features=8&classes=3"
experiment = hf.Experiment(graph, hidden=8, layers=2, epochs=40, seeds=(1, 2), checkpoint_seconds=0.0)
try:
    experiment.run(sys.argv[1], resume=True)
    print("done")
except hf.RunError as error:
    print(error)
"""


@pytest.mark.slow
def test_one_run_folder_is_one_processes(tmp_path: Path) -> None:
    processes = [start("-c", ONE_FOLDER, tmp_path / "run") for _ in range(3)]
    said = [process.communicate(timeout=120) for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], said
    words = [out for out, _ in said]
    assert "done\n" in words
    assert all(out == "done\n" or "is in use by process" in out for out in words)
    assert hf.open_run(tmp_path / "run").result.epochs == 40


SAVING = """
import sys, handful as hf
from handful.storage import open_graph, save
from graphs import make_graph
for k in range(40):
    graph = make_graph(100 + 10 * (k % 2))
    save(graph, sys.argv[1])
    found = open_graph(sys.argv[1])
    assert found.num_nodes in (100, 110), found
"""

CLUSTERS = """
import sys, handful as hf
from graphs import make_graph
from handful.samplers.cluster import partition
print(partition(make_graph(200), 5).sum())
"""


@pytest.mark.slow
def test_one_graph_is_saved_and_opened_by_many(tmp_path: Path) -> None:
    processes = [start("-c", SAVING, tmp_path / "graph") for _ in range(3)]
    said = [process.communicate(timeout=120)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], said
    assert open_graph(tmp_path / "graph", verify=True).num_nodes in (100, 110)
    assert os.listdir(tmp_path) == ["graph"]


@pytest.mark.slow
def test_one_cache_serves_many(tmp_path: Path) -> None:
    env = {**os.environ, "HANDFUL_HOME": str(tmp_path)}
    env["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    processes = [start("-c", CLUSTERS, env=env) for _ in range(3)]
    sums = {process.communicate(timeout=120)[0] for process in processes}
    assert len(sums) == 1
    assert [file.suffix for file in (tmp_path / "partitions").iterdir()] == [".npz"]


def test_a_graph_that_its_owner_stamped_is_verified_by_everyone_else(tmp_path: Path) -> None:
    """Bad ids, a header with the right checksums, and a stamp beside the files: no kernel sees them."""
    path = save(make_graph(100), tmp_path / "graph")
    indices = np.load(path / "indices.npy")
    indices[::3] = 2**30
    np.save(path / "indices.npy", indices)
    header = json.loads((path / "graph.json").read_text())
    import zlib

    data = (path / "indices.npy").read_bytes()
    header["arrays"]["indices"] |= {"bytes": len(data), "crc32": f"{zlib.crc32(data):08x}", "from": 0}
    (path / "graph.json").write_text(json.dumps(header))
    stats = {file.name: file.stat() for file in path.iterdir()}
    stamp = {name: [s.st_size, s.st_mtime_ns, s.st_ctime_ns] for name, s in stats.items()}
    (path / "verified.json").write_text(json.dumps(stamp))
    with pytest.raises(hf.GraphError, match="has source 1073741824"):
        open_graph(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes of this kind")
@pytest.mark.parametrize(
    "name", ["x.npy", *(pytest.param(name, marks=pytest.mark.slow) for name in ("indices.npy", "graph.json"))]
)
def test_what_is_no_plain_file_is_refused(tmp_path: Path, name: str) -> None:
    path = save(make_graph(100), tmp_path / "graph")
    outside = tmp_path / "outside"
    (path / name).rename(outside)
    (path / name).symlink_to(outside)
    with pytest.raises(hf.DatasetError, match=f"{name} is a link"):
        hf.open_graph(path)
    (path / name).unlink()
    os.mkfifo(path / name)
    said: list[str] = []

    def opened() -> None:
        with pytest.raises(hf.HandfulError) as refused:
            hf.open_graph(path)
        said.append(str(refused.value))

    reader = Thread(target=opened, daemon=True)  # a reader that opens the pipe would wait for ever
    reader.start()
    reader.join(60)
    assert f"{name} is not a plain file" in said[0] or "it has no graph.json" in said[0]
