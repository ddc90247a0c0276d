"""Every case that the fuzzer ever found, and a few of each door, run again; see ``make fuzz`` for the fuzzer itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import gettempdir

import pytest

from fuzz.__main__ import without_folder
from fuzz.case import Case
from fuzz.doors import DOORS
from fuzz.runner import Child, child, run_case

CORPUS = sorted((Path(__file__).parent / "corpus").glob("*.json"))


@pytest.fixture(scope="module")
def worker() -> Iterator[Child]:
    with child() as made:
        yield made


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_the_only_answers_are_success_and_a_told_mistake(
    path: Path, worker: Child, request: pytest.FixtureRequest
) -> None:
    answer = run_case(worker, path)
    assert answer.kind in ("ok", "refused"), answer.said


def test_the_corpus_has_cases_of_every_door() -> None:
    assert {Case.loads(path.read_text()).door for path in CORPUS} == set(DOORS)


def test_a_kept_case_does_not_name_the_folder_of_this_machine() -> None:
    said = f"{gettempdir()}/handful-fuzz-x1/run/config.json is cut short: copy {gettempdir()}/handful-fuzz-x1/run again"
    assert without_folder(said) == "run/config.json is cut short: copy run again"


def test_a_case_is_kept_whole() -> None:
    case = Case("npz", 3, {"a/b.bin": bytes(range(256))}, ("--out={here}",), "why")
    assert Case.loads(case.dumps()) == case


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("hang",), "no answer"),
        (("kill",), "ended by SIGKILL"),
        (("memory",), "MemoryError"),
        (("error",), "ZeroDivisionError"),
    ],
)
def test_what_the_fuzzer_calls_a_finding(worker: Child, tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    """The child answers for a door that hangs, dies, takes too much or raises; and goes on afterwards."""
    (tmp_path / "case.json").write_text(Case("broken", 0, {}, words).dumps())
    answer = worker.ask({"case": str(tmp_path / "case.json")}, 1.0)
    assert answer.kind == "finding"
    assert said in answer.said
    (tmp_path / "case.json").write_text(Case("broken", 0, {}, ("fine",)).dumps())
    assert worker.ask({"case": str(tmp_path / "case.json")}, 20.0).kind == "ok"
