from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from handful.datasets import pokec
from handful.datasets.download import Remote
from handful.datasets.pokec import read_linkx, read_snap
from handful.datasets.registry import load
from handful.errors import DatasetError, HandfulError
from handful.graph import MASKS

EDGES = np.array([[0, 0, 2, 3], [1, 2, 1, 0]])
REST = "\t".join(["null"] * 51)
PROFILES = [  # In the file's own order: not by id.
    '1\t1\t14\t1\tzilinsky kraj, kysucke nove mesto\t2012-05-25 11:20:00.0\t2005-04-03 00:00:00.0\t26\tsaid "hi\t',
    "3\t0\t50\t0\tbratislavsky kraj, bratislava - raca\t2012-05-20 10:00:00.0\t2007-01-01 00:00:00.0\t0\tnull\t",
    "2\t1\t62\t0\tzilinsky kraj, zilina\t2012-05-25 23:08:00.0\t2007-11-30 00:00:00.0\t18\tnull\t",
    "4\t1\t0\tnull\tnull\tnull\tnull\tnull\tnull\t",
]


def write_mat(path: Path, **changes: np.ndarray) -> Path:
    x = np.arange(8, dtype=np.float64).reshape(4, 2)
    fields = {"edge_index": EDGES, "node_feat": x, "label": np.array([[1, 0, 0, -1]])}
    savemat(path, {key: value for key, value in (fields | changes).items() if value is not None})
    return path


def write_snap(folder: Path, profiles: list[str] = PROFILES, packed: bool = False) -> tuple[Path, Path]:
    texts = {
        "soc-pokec-relationships.txt": "".join(f"{u + 1}\t{v + 1}\n" for u, v in EDGES.T),
        "soc-pokec-profiles.txt": "".join(f"{line}{REST}\n" for line in profiles),
    }
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, text in texts.items():
        path = folder / (f"{name}.gz" if packed else name)
        path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
        paths.append(path)
    return paths[0], paths[1]


def test_linkx_file(tmp_path: Path) -> None:
    graph = read_linkx(write_mat(tmp_path / "pokec.mat"))
    both = {(int(u), int(v)) for u, v in EDGES.T} | {(int(v), int(u)) for u, v in EDGES.T}
    assert {(u, v) for u, v in graph.edge_index.T.tolist()} == both
    assert graph.undirected
    assert graph.x is not None
    assert graph.x.tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert graph.y is not None
    assert graph.y.tolist() == [1, 0, 0, -1]
    assert graph.class_names == ("female", "male")


@pytest.mark.parametrize("packed", [False, True])
def test_snap_files(tmp_path: Path, packed: bool) -> None:
    graph = read_snap(*write_snap(tmp_path, packed=packed))
    assert graph.y is not None
    assert graph.y.tolist() == [1, 0, 0, -1]
    assert graph.edge_index.tolist() == read_linkx(write_mat(tmp_path / "pokec.mat")).edge_index.tolist()
    assert graph.x is not None
    assert graph.x.shape == (4, 13)  # Five numbers with their flags, and three regions.
    x = graph.x.numpy()
    assert x[:, 5].tolist() == [0, 0, 1, 1]  # An age of 0 is one that is not known.
    np.testing.assert_allclose(x[:2, 4], [1, -1], rtol=1e-6)  # 26 and 18 years.
    assert x[:, 10:].tolist() == [[0, 0, 1], [0, 0, 1], [0, 1, 0], [1, 0, 0]]
    days = np.array([np.datetime64(d, "D").astype(int) for d in ("2005-04-03", "2007-11-30", "2007-01-01")])
    np.testing.assert_allclose(x[:3, 6], (days - days.mean()) / days.std(), rtol=1e-5)


def test_by_name_the_split_belongs_to_the_seed(tmp_path: Path) -> None:
    folder = tmp_path / "pokec"
    folder.mkdir()
    rng = np.random.default_rng(0)
    n = 100
    fields = {"edge_index": rng.integers(0, n, (2, 300)), "node_feat": rng.normal(size=(n, 3))}
    write_mat(folder / "pokec.mat", **fields, label=np.where(np.arange(n) < 90, np.arange(n) % 2, -1)[None])
    one, again, two = (
        load("pokec", root=tmp_path, seed=1),
        load("pokec", root=tmp_path, seed=1),
        load("pokec", root=tmp_path),
    )
    assert [int(getattr(one, m).sum()) for m in MASKS] == [9, 9, 72]
    assert one.train_nodes.tolist() == again.train_nodes.tolist() != two.train_nodes.tolist()
    (folder / "pokec.mat").unlink()
    assert load("pokec", root=tmp_path).num_nodes == n


def test_forms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pokec, "LINKX", Remote("http://127.0.0.1:9/x", "pokec.mat"))
    more = [f"{i}\t1\t{i}\t{i % 2}\tnull\tnull\tnull\t30\tnull\t" for i in range(5, 13)]
    write_snap(tmp_path / "pokec", [*PROFILES, *more])
    graph = load("pokec?form=snap", root=tmp_path)
    assert (graph.num_nodes, graph.num_features, len(graph.train_nodes)) == (12, 13, 1)
    with pytest.raises(DatasetError, match=r"put it at .*pokec/pokec\.mat"):
        load("pokec", root=tmp_path)
    with pytest.raises(DatasetError, match="there is no form 'snapp': did you mean snap"):
        load("pokec?form=snapp", root=tmp_path)


def test_broken_files(tmp_path: Path) -> None:
    path = write_mat(tmp_path / "pokec.mat")
    whole = path.read_bytes()
    for content in (b"", b"junk", whole[: len(whole) // 2]):
        path.write_bytes(content)
        with pytest.raises(DatasetError, match=r"pokec\.mat (is not a whole \.mat file|has no array)"):
            read_linkx(path)
    with pytest.raises(DatasetError, match="has no array 'label'"):
        read_linkx(write_mat(path, label=None))  # type: ignore[arg-type]
    with pytest.raises(HandfulError, match=r"pokec\.mat: edge 0 has target 9"):
        read_linkx(write_mat(path, edge_index=np.array([[0], [9]])))
    for line, message in (
        ("9\t1\t14\t1\tnull\tnull\tnull\t26\tnull\t", "row 4: user 9 is not one of 1 to 4"),
        ("1\t1\t14\t1\tnull\tnull\tnull\t26\tnull\t", "has no profile of user 4, and another one twice"),
        ("4\t1\t14\tx\tnull\tnull\tnull\t26\tnull\t", "soc-pokec-profiles.txt cannot be read"),
        ("4\t1\t14", "row 4: 3 columns where there should be 60|row 4: 53 columns where there should be 60"),
    ):
        with pytest.raises(DatasetError, match=message):
            read_snap(*write_snap(tmp_path, [*PROFILES[:3], line]))
