"""The options that commands share: those of earlier versions still work, and help says what is true."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from typer.main import get_command

from cli.run import handful
from handful.cli import app, params
from handful.cli.app import RENAMED
from handful.errors import HandfulError
from handful.experiment import VARIANTS
from handful.kernels.threads import get_threads, set_threads
from handful.settings import ENOUGH, QUICK, SETTING_NAMES, GraphOn, Settings
from handful.vocabulary import METHODS

OF_DATA = "--split --root --json"
OF_RUNS = "--seeds --device --threads --jobs --executor --out"
OF_LABELS = "--epochs --class-weight --task --metric --positive --evaluate-every"
PROMISED = {
    "compare": f"{OF_DATA} {OF_RUNS} {OF_LABELS} --samplers --option -s --model --hidden --layers --norm --residual "
    "--no-residual --dropout --lr --weight-decay --optimizer",
    "datasets": "--root --json",
    "diagnose": f"{OF_DATA} --samplers --option -s --batches --repeats --model --hidden --layers --norm --residual "
    "--no-residual --task --weights --step --momentum --seed --device --threads --out",
    "import": "--out --undirected --source --target --weight --id --label --split-column --features --categorical "
    "--hashed --numbers --ignore --keep --task --impute --scale --unknown --repeated --schema --split --seed --metric "
    "--memory --decimal --encoding --dates --json",
    "info": f"{OF_DATA} --sources --sweeps --seed --threads",
    "parts": f"{OF_DATA} {OF_LABELS} --model --hidden --layers --dropout --lr --weight-decay --most --memory --seeds "
    "--device --threads --out",
    "plan": f"{OF_DATA} --model --hidden --layers --norm --residual --no-residual --parts --memory --processes "
    "--timed --no-timed --threads",
    "predict": "--out --nodes --changed --embeddings --memory --scratch --device --threads --json --strict --unknown "
    "--threshold --cost",
    "report": "--out --json",
    "shard": f"{OF_DATA} --shards --out --seed",
    "structure": "--root --parts --epochs --sources --sweeps --seed --threads --out --json",
    "study": f"{OF_DATA} {OF_RUNS} --graph --budget --tune-each --epochs",
    "train": f"{OF_DATA} {OF_LABELS} --model --hidden --layers --norm --residual --no-residual --input-projection "
    "--no-input-projection --output-projection --no-output-projection --dropout --heads --model-option --sampler "
    "--parts --sampler-option -s --lr --weight-decay --optimizer --momentum --scheduler --clip --threshold "
    "--update --parts-per-step --precision --evaluation --evaluation-fanout --patience --trim --no-trim --seeds "
    "--device --devices --graph-on --checkpoint-activations --processes --threads --memory --out --resume "
    "--no-resume --tracker --checksums",
    "tune": f"{OF_DATA} {OF_RUNS} {OF_LABELS} --sampling -s --trials --model --hidden --layers --paper --prune "
    "--storage --final --no-final",
    "bench epoch": f"{OF_DATA} --graph --parts --hidden --layers --rounds --seed --device --threads",
    "bench loader": "--nodes --edges --parts --rounds --seed --threads --json",
}
"""The options of handful 0.2, by command."""


def built(name: str) -> Any:
    """A command as typer has made it."""
    found: Any = get_command(app)
    for word in name.split():
        found = found.commands[word]
    return found


@pytest.mark.parametrize("name", PROMISED)
def test_every_earlier_option_still_has_its_name(name: str) -> None:
    options = {flag for one in built(name).params for flag in (*one.opts, *one.secondary_opts)}
    assert {
        f"--{RENAMED.get(flag[2:], flag[2:])}" if flag != "-s" else flag for flag in PROMISED[name].split()
    } <= options


@pytest.mark.parametrize(
    ("line", "instead"),
    [
        ("tune debian -s rns", "--sampling"),
        ("tune debian -s 'rns parts=4'", "--sampling"),
        ("tune debian --set lr=0.1", "lr"),
        ("parts debian --memory 8", "8GiB"),
        ("train debian --set list", "handful options"),
        ("compare debian -s parts=4", "rns.parts"),
    ],
)
def test_what_has_changed_says_what_replaces_it(line: str, instead: str) -> None:
    import shlex

    result = handful(*shlex.split(line))
    assert (result.code, result.stdout) == (2, "")
    (told,) = result.stderr.strip().splitlines()
    assert instead in told


def test_help_of_training_fits_on_two_screens_in_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    for width in ("80", "100"):
        monkeypatch.setenv("COLUMNS", width)
        text = handful("train", "--help").stdout
        assert len(text.splitlines()) <= 100
        places = [text.index(f"─ {panel} ─") for panel in params.PANELS]
        assert places == sorted(places)
        assert text.strip().splitlines()[-1].strip().startswith("`handful options train`")


@pytest.mark.parametrize("name", [name for name, options in PROMISED.items() if " -s" in options])
def test_a_memory_and_a_set_are_the_same_everywhere(name: str) -> None:
    (found,) = [one for one in built(name).params if "-s" in one.opts]
    assert found.opts == ["--set", "-s"]


def test_help_tells_the_defaults_of_the_settings() -> None:
    text = " ".join(handful("train", "--help").stdout.replace("│", " ").split())
    assert f"Default: {QUICK['epochs']}." in text
    assert f"Default: {QUICK['lr']}." in text
    assert str(ENOUGH["seeds"][-1]) in text
    compared = " ".join(handful("compare", "--help").stdout.replace("│", " ").split())
    assert f"Default: {QUICK['epochs']}." in compared  # a comparison trains as `handful train` does


def test_every_setting_is_an_option_and_described() -> None:
    assert set(SETTING_NAMES) <= set(params.OPTIONS)
    told = params.describe(Settings)
    assert set(told) == set(SETTING_NAMES)
    assert all(text and "``" not in text for text in told.values())


def test_choices_are_those_of_the_definition() -> None:
    assert set(params.SAMPLERS) == set(METHODS) - {*VARIANTS}
    assert handful("train", "debian", "--graph-on", "gpu").code == 2
    assert set(get_args(GraphOn)) == {"auto", "device", "host"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("4", 4),
        ("0.5", 0.5),
        ("1e-3", 0.001),
        ("true", True),
        ("False", False),
        ("none", None),
        ("10,5", (10, 5)),
        ("[10, 5]", (10, 5)),
        ("10,", (10,)),
        ("edges", "edges"),
    ],
)
def test_values(text: str, value: Any) -> None:
    found = params.parse_value(text)
    assert found == value
    assert type(found) is type(value)


def test_options_are_pairs() -> None:
    found = params.parse_options(["batch-size=50", " fanout = 3,2", "rns-mean-field.parts=a=2"])
    assert found == {"batch_size": 50, "fanout": (3, 2), "rns-mean-field.parts": "a=2"}
    for wrong in (["parts"], ["parts=2", "parts=4"], ["lr=fast"], ["optimizer=adma"]):
        with pytest.raises(HandfulError, match=r"parts|lr|optimizer"):
            params.parse_options(wrong)


def test_whole_numbers() -> None:
    assert params.parse_integers("1, 2,4", "--parts") == (1, 2, 4)
    for text in ("", "a", "1.5", ","):
        with pytest.raises(HandfulError, match="--parts"):
            params.parse_integers(text, "--parts")


@pytest.mark.parametrize("count", [1, 2])
def test_threads_are_set_when_they_are_given(count: int) -> None:
    before = get_threads()
    try:
        assert params._use_threads(count) == count
        assert get_threads() == count
    finally:
        set_threads(before)


def test_a_check_of_an_option_that_is_not_in_the_table_is_an_error() -> None:
    assert set(params.read_options("train", processes={"check": int})) >= {"processes", "resume"}
    with pytest.raises(KeyError, match="proceses"):
        params.read_options("train", proceses={"check": int})
