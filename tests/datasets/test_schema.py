"""The schema of a table: fitted once, applied to other tables, never shifted by their order or by new values."""

from __future__ import annotations

import json
import zlib
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.preprocessing import QuantileTransformer

from handful.datasets.schema import Column, Edges, Schema, fit_columns, fit_labels, normal_scores
from handful.datasets.tables import Problems, TableFile
from handful.errors import DatasetError
from handful.settings import TableOptions

EDGES = Edges("source", "target")


def rows(**columns: Any) -> TableFile:
    table = pa.table(columns)
    return TableFile.open(table)


def fitted(table: TableFile, how: TableOptions | None = None, where: list[bool] | None = None) -> Schema:
    problems = Problems()
    mask = np.ones(len(table), bool) if where is None else np.array(where)
    found = fit_columns(table, table.names, how or TableOptions(), mask, problems)
    problems.tell()
    return Schema("id", EDGES, found, rows=int(mask.sum()))


def encoded(schema: Schema, table: TableFile) -> tuple[np.ndarray, list[str]]:
    problems, said = Problems(), list[str]()
    x = schema.encode(table, problems, said.append)
    problems.tell()
    return x, said


def test_numbers_are_filled_flagged_and_scaled() -> None:
    table = rows(a=[1.0, None, 3.0, 8.0], b=[2, 4, 4, 6])
    x, said = encoded(fitted(table), table)
    a = np.array([1, 3, 3, 8])  # the median of 1, 3 and 8 is 3
    a = (a - 4) / np.std([1, 3, 8])
    b = (np.array([2, 4, 4, 6]) - 4) / np.sqrt(2)
    assert np.allclose(x, np.stack([a, [0, 1, 0, 0], b], 1))
    assert not said
    assert [column.width for column in fitted(table).columns] == [2, 1]
    other, said = encoded(fitted(table), rows(b=[None, 4], a=[8.0, 8.0]))
    assert np.allclose(other[:, 2], [0, 0])
    (words,) = said
    assert "'b' is missing in 1 rows" in words


def test_only_the_fitted_rows_tell_medians_and_scales() -> None:
    table = rows(a=[1.0, 3.0, None, 1000.0])
    column = fitted(table, where=[True, True, False, False]).columns[0]
    assert (column.fill, column.center, column.spread, column.missing) == ((2.0,), 2.0, 1.0, 1)


def test_missing_numbers_are_filled_or_refused() -> None:
    table = rows(a=[1.0, None, 2.0, 9.0])
    x, _ = encoded(fitted(table, TableOptions(scale="none")), table)
    assert x.tolist() == [[1, 0], [2, 1], [2, 0], [9, 0]]
    with pytest.raises(DatasetError, match="row 2: 'a' is missing"):
        fitted(table, TableOptions(impute="error"))


def test_quantiles_are_those_of_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.lognormal(size=300), np.ones(40)])[:, None]
    judge = QuantileTransformer(n_quantiles=101, output_distribution="normal", subsample=None).fit(values)
    table = rows(a=values[:, 0])
    x, _ = encoded(fitted(table, TableOptions(scale="quantile")), table)
    assert np.allclose(x, judge.transform(values), atol=1e-5)
    beyond = np.array([-5.0, 1e6])
    quantiles = np.array(fitted(table, TableOptions(scale="quantile")).columns[0].quantiles)
    assert np.allclose(normal_scores(beyond, quantiles), judge.transform(beyond[:, None])[:, 0], atol=1e-5)


def test_a_category_that_was_not_there_has_its_own_bucket() -> None:
    table = rows(city=["Rome", "Oslo", None, "Rome"])
    schema = fitted(table)
    assert schema.columns[0].categories == ("Oslo", "Rome")
    assert encoded(schema, table)[0].tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 1], [0, 1, 0]]
    x, said = encoded(schema, rows(city=["Bonn", "Oslo", "Bonn"]))
    assert x.tolist() == [[0, 0, 1], [1, 0, 0], [0, 0, 1]]
    (words,) = said
    assert "'city'" in words
    assert "'Bonn': 2 rows are 'other'" in words


def test_dates_booleans_decimals_lists_and_text() -> None:
    table = rows(
        day=[date(1970, 1, 3), None],
        moment=pa.array([datetime(1970, 1, 2, 12, tzinfo=UTC), datetime(1970, 1, 1, tzinfo=UTC)]),
        hour=[time(6), time(12, 30)],
        ok=pa.array([True, None]),
        price=[Decimal("1.25"), Decimal("2.50")],
        half=pa.array(np.array([1.5, 2.5], np.float16)),
        emb=[[1.0, 2.0], None],
        kind=pa.array(["u", "v"]).dictionary_encode(),
        note=["red shoes", "RED, shoes!"],
    )
    schema = fitted(table, TableOptions(scale="none", hashed=["note"]))
    kinds = ["date", "date", "date", "boolean", "number", "number", "vector", "category", "text"]
    assert [column.kind for column in schema.columns] == kinds
    x, _ = encoded(schema, table)
    numbers = x[:, : x.shape[1] - 64].tolist()
    assert numbers[0] == [2, 0, 1.5, 6, 1, 0, 1.25, 1.5, 1, 2, 0, 1, 0, 0]
    assert numbers[1] == [2, 1, 0, 12.5, 1, 1, 2.5, 2.5, 1, 2, 1, 0, 1, 0]
    assert np.array_equal(x[0, -64:], x[1, -64:])
    assert np.isclose(np.linalg.norm(x[0, -64:]), 1)


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (pa.array([{"a": 1}]), "holds struct<a: int64>, neither numbers nor text: ignore it"),
        (pa.array([b"x"]), "holds binary, neither numbers nor text"),
        (pa.array([1.0, float("inf"), float("inf")]), "row 2: 'c' is inf"),
        (pa.array([[1.0], [1.0, 2.0]]), "row 2: 'c' has 2 values, and others have 1"),
        (pa.array([*map(str, range(40)), "k.A.", None, "?"]), r"row 41: 'c' is 'k.A.', and most are numbers.*row 43"),
        (pa.array([["x"]]), "holds lists of words: have them hashed"),
        (pa.array([f"t{i}" for i in range(60)]), "has 60 different values, .*too many .* hashed='c=512'"),
    ],
)
def test_what_cannot_be_encoded_is_said(column: Any, words: str) -> None:
    with pytest.raises(DatasetError, match=words):
        fitted(rows(c=column))


def test_another_table_must_have_the_columns_and_their_kinds() -> None:
    schema = fitted(rows(a=[1.0, 2.0], b=["x", "y"]))
    said: list[str] = []
    with pytest.raises(DatasetError, match="has no column id, a, which the schema needs: its columns are b, A"):
        schema.check(rows(b=["x"], A=[1.0]), said.append)
    schema.check(rows(c=[0], b=["x"], a=[1.0], id=["n"]), said.append)
    (words,) = said
    assert words.endswith("not used: c")
    with pytest.raises(DatasetError, match="'a' holds string such as 'old', and was a number before"):
        encoded(schema, rows(a=["old"], b=["x"]))
    x, _ = encoded(schema, rows(a=pa.nulls(1), b=pa.nulls(1)))
    assert x.tolist() == [[0, 0, 0, 1]]
    assert schema.missing_row().tolist() == [0, 0, 0, 1]


VALUES = st.one_of(
    st.lists(st.one_of(st.none(), st.floats(-1e6, 1e6)), min_size=5, max_size=5),
    st.lists(st.one_of(st.none(), st.sampled_from("pqrst")), min_size=5, max_size=5),
    st.lists(st.one_of(st.none(), st.booleans()), min_size=5, max_size=5),
)


@settings(max_examples=60)
@given(st.dictionaries(st.text("abcdef é,", min_size=1, max_size=5), VALUES, min_size=1, max_size=6), st.data())
def test_the_order_of_columns_never_changes_the_encoding(columns: dict[str, Any], data: Any) -> None:
    table = rows(**columns)
    schema = fitted(table, TableOptions(scale=data.draw(st.sampled_from(["standard", "quantile", "none"]))))
    assert Schema.from_json(json.loads(json.dumps(schema.to_json()))) == schema
    names = data.draw(st.permutations(list(columns)))
    shuffled = rows(**{name: columns[name] for name in names}, **{"an extra one": [1] * 5})
    x, _ = encoded(schema, table)
    assert x.shape == (5, schema.width)
    assert np.array_equal(x, encoded(schema, shuffled)[0])
    assert np.isfinite(x).all()
    assert schema.differences(schema) == []


def test_differences_name_the_columns() -> None:
    table = rows(a=[1.0, 2.0], b=["x", "y"], c=[1.0, 2.0], d=["u", "u"])
    schema = fitted(table)
    other = fitted(rows(b=["x", "z"], a=[1.0, 3.0], c=["1", "2"], e=[1, 2]))
    assert [words.split()[0] for words in schema.differences(other)] == ["'d'", "'e'", "'a'", "'b'", "'c'"]
    *_, scale, categories, kind = schema.differences(other)
    assert "has another fill and center and spread" in scale
    assert ("categories (y, z)" in categories, "has another kind" in kind) == (True, True)
    turned = Schema("id", EDGES, schema.columns[::-1])
    assert len(schema.differences(turned)) == 1


def test_labels_of_another_table_are_known_by_name() -> None:
    table = rows(id=["a", "b", "c"], y=["ok", "fraud", None])
    schema = Schema("id", EDGES, labels=("y",), classes=fit_labels(table, ["y"], "classification"))
    assert schema.classes == ("fraud", "ok")
    said: list[str] = []
    assert schema.label_fields(rows(y=["ok", "odd", None, "fraud"]), said.append)["y"].tolist() == [1, -1, -1, 0]
    assert "1 labels" in said[0]
    assert "'odd'" in said[0]
    assert schema.label_fields(rows(z=[1]), said.append) == {}
    assert fit_labels(rows(y=[10, 9, -1, None]), ["y"], "classification") == ("-1", "9", "10")
    assert fit_labels(rows(y=[True, False]), ["y"], "classification") == ("false", "true")


def test_classes_that_are_true_and_false_are_as_in_the_file(tmp_path: Path) -> None:
    def read(name: str, cells: str) -> TableFile:
        (tmp_path / name).write_text("y,x\n" + "".join(f"{cell},1\n" for cell in cells.split(" ")))
        return TableFile.open(tmp_path / name).read()

    def classes(table: TableFile) -> tuple[str, ...]:
        return fit_labels(table, ["y"], "classification")

    table = read("a.csv", "True False  True")
    schema = Schema("id", EDGES, labels=("y",), classes=classes(table))
    assert schema.classes == ("False", "True")
    for other in (table, rows(y=[True, False, None, True]), read("b.csv", "TRUE false  true")):
        assert schema.label_fields(other, print)["y"].tolist() == [1, 0, -1, 1]
    assert classes(read("c.csv", "True true false")) == ("false", "true")  # one class in two spellings


def test_labels_that_are_numbers_or_many() -> None:
    table = rows(y=[0.5, None], u=[1, 0], v=[None, 1])
    number = Schema("id", EDGES, labels=("y",), task="regression")
    assert np.array_equal(number.label_fields(table, print)["y"], np.array([0.5, np.nan], np.float32), equal_nan=True)
    many = Schema("id", EDGES, labels=("u", "v"), task="multilabel", classes=("u", "v"))
    found = many.label_fields(table, print)
    assert np.array_equal(found["y"], np.array([[1, np.nan], [0, 1]], np.float32), equal_nan=True)
    assert found["class_names"] == ("u", "v")
    with pytest.raises(DatasetError, match=r"label 0\.5 is a fraction, not a class: give task='regression'"):
        fit_labels(table, ["y"], "classification")
    with pytest.raises(DatasetError, match="are for the task multilabel"):
        fit_labels(table, ["u", "v"], "classification")


@pytest.mark.parametrize(
    "broken",
    [
        None,
        [],
        {},
        {"id": 3},
        {"columns": [{"name": "a", "kind": "odd"}]},
        {"columns": [{"name": "a", "kind": "number", "spread": 0.0}]},
        {"columns": [{"name": "a", "kind": "number", "center": "x"}]},
        {"columns": [{"name": "a", "kind": "number", "fill": [1.0, 2.0]}]},
        {"columns": [{"name": "a", "kind": "vector", "size": 1 << 40}]},
        {"columns": [{"name": "a", "kind": "number"}, {"name": "a", "kind": "number"}]},
        {"columns": [{"name": "a", "kind": "number", "quantiles": [2.0, 1.0]}]},
        {"columns": [{"name": "a", "kind": "number", "indicator": 3}]},
        {"columns": [{"name": "a", "kind": "text", "size": 1 << 19}]},
        {"edges": {"start": "a"}},
        {"edges": {"source": "a", "target": "b", "weight": 3}},
        {"edges": {"source": "a", "target": "b", "repeated": "x"}},
        {"task": "dance"},
        {"rows": "many"},
        {"rows": -1},
        {"training": 1},
        {"split": 3},
        {"labels": "label"},
        {"ignored": {"a": 1}},
        {"classes": ["a", "a"]},
    ],
)
def test_a_broken_schema_is_one_line(broken: Any) -> None:
    whole = Schema("id", EDGES, (Column("a", "number"),)).to_json()
    value = {**whole, **broken} if isinstance(broken, dict) and broken else broken
    with pytest.raises(DatasetError, match="this is not a schema of this version of handful"):
        Schema.from_json(value)


def test_what_is_done_is_one_table() -> None:
    table = fitted(rows(age=[30.0, None, 50.0], city=["Rome", "Oslo", "Rome"])).table()
    assert [[cell.text for cell in row[:2]] for row in table.rows] == [
        ["id", "id"],
        ["age", "number"],
        ["city", "category"],
    ]
    age, city = (row[2].text for row in table.rows[1:])
    assert "missing = 40" in age
    assert "(x − 40) / 10" in age
    assert "2 values" in city
    assert [row[3].text for row in table.rows] == ["", "1", ""]


@pytest.mark.slow
def test_six_thousand_columns(tmp_path: Path) -> None:
    names = [f"a long name of a column {i}" for i in range(6000)]
    path = tmp_path / "wide.csv"
    path.write_text(",".join(names) + "\n" + ",".join("1" for _ in names) + "\n" + ",".join("2" for _ in names) + "\n")
    assert len(path.read_text().splitlines()[0]) > 1 << 16
    table = TableFile.open(path).read()
    schema = fitted(table)
    assert (schema.width, encoded(schema, table)[0].tolist()) == (6000, [[-1] * 6000, [1] * 6000])
    assert len(schema.table().rows) == 42


def test_words_and_lists_are_hashed_by_tf_idf_as_scikit_learn_weighs_them() -> None:
    tags = [["Rock", "jazz"], ["rock"], None, ["jazz", "jazz", "New York"], []]
    notes = ["Rock, jazz!", "rock", None, "jazz jazz york", ""]
    options = TableOptions(hashed={"tags": 512, "note": 128})
    table = rows(tags=pa.array(tags), note=pa.array(notes))
    schema = fitted(table, options)
    assert [column.size for column in schema.columns] == [512, 128]
    x, said = encoded(schema, table)
    counts = np.zeros((5, 512))
    for row, words in zip(counts, tags, strict=True):
        for word in words or ():
            mixed = zlib.crc32(word.lower().encode())
            row[mixed % 512] += 1 if mixed >> 31 else -1
    weigh = TfidfTransformer().fit((counts != 0).astype(float))
    np.testing.assert_allclose(x[:, :512], weigh.transform(counts).toarray(), atol=1e-6)
    assert not x[2].any()
    again = Schema.from_json(json.loads(json.dumps(schema.to_json())))
    later, _ = encoded(again, rows(note=pa.array(["rock"]), tags=pa.array([["rock"]])))
    assert np.array_equal(later[0], x[1])
    assert not said


def test_the_width_of_a_hashed_column_is_checked() -> None:
    assert TableOptions(hashed=("a=b", "c=12")).widths == {"a=b": 64, "c": 12}
    with pytest.raises(DatasetError, match="'c' must have a width from 1 to 4096"):
        TableOptions(hashed="c=5000")
