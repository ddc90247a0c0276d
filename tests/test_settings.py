"""Settings: every field keeps its plain type, takes what it says, and names what it does not take."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError, asdict, fields, replace
from typing import Any, get_type_hints

import numpy as np
import pytest

from handful.errors import HandfulError
from handful.settings import SETTING_NAMES, Settings, check_value, vary_settings
from small import another

HINTS = get_type_hints(Settings)


@pytest.mark.parametrize("name", SETTING_NAMES)
def test_any_field_may_be_another_and_is_then_another_setting(name: str) -> None:
    value = another(getattr(Settings(), name), HINTS[name])
    changed = vary_settings(Settings(), {name: value})
    assert getattr(changed, name) == value
    assert changed == Settings(**{name: value}) != Settings()
    assert replace(changed, **{name: getattr(Settings(), name)}) == Settings()
    assert Settings(**json.loads(json.dumps(asdict(changed)))) == changed
    with pytest.raises(FrozenInstanceError):
        setattr(changed, name, value)


def test_a_metric_may_be_written_as_people_do() -> None:
    assert [Settings(metric=name).metric for name in ("ROC-AUC", "macro-F1", "R²", "average precision")] == [
        "roc_auc",
        "macro_f1",
        "r2",
        "average_precision",
    ]


def test_numbers_become_plain_ones() -> None:
    settings = Settings(epochs=np.int64(3), lr=1, clip=np.float32(0.5), patience=np.int32(2), weight_decay=0)
    assert settings == Settings(epochs=3, lr=1.0, clip=0.5, patience=2)
    kinds = {f.name: type(getattr(settings, f.name)) for f in fields(settings)}
    assert (kinds["epochs"], kinds["lr"], kinds["clip"], kinds["weight_decay"]) == (int, float, float, float)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"epochs": 0}, "epochs must be at least 1, got 0"),
        ({"epochs": 2.5}, "epochs must be a whole number, got 2.5"),
        ({"epochs": True}, "epochs must be a whole number, got True"),
        ({"epochs": None}, "epochs must be a whole number, got None"),
        ({"parts_per_step": 0}, "parts_per_step must be at least 1"),
        ({"update": "epoch", "parts_per_step": 2}, "update 'epoch' uses all parts in one step: leave parts_per_step"),
        ({"evaluate_every": 0}, "evaluate_every must be at least 1"),
        ({"patience": 0}, "patience must be at least 1"),
        ({"lr": 0.0}, "lr must be above 0"),
        ({"lr": float("nan")}, "lr must be a finite number, got nan"),
        ({"lr": "0.1"}, "lr must be a finite number, got '0.1'"),
        ({"clip": 0.0}, "clip must be above 0"),
        ({"clip": float("inf")}, "clip must be a finite number"),
        ({"weight_decay": -0.1}, "weight_decay must be at least 0"),
        ({"momentum": 1.0}, r"momentum must lie in \[0, 1\), got 1.0"),
        ({"update": "batch"}, "update must be step or epoch, got 'batch'"),
        ({"precision": "fp16"}, "precision must be fp32 or bf16"),
        ({"optimizer": "adm"}, "optimizer must be adam, adamw, sgd or sgdm"),
        ({"scheduler": None}, "scheduler must be constant, cosine or linear"),
        ({"class_weight": "equal"}, "class_weight must be none or balanced"),
        ({"evaluation": "full"}, "evaluation must be exact or sampled"),
        ({"evaluation": "sampled", "evaluation_fanout": "5,a"}, "evaluation_fanout must be whole numbers"),
        ({"evaluation": "sampled", "evaluation_fanout": [1.5]}, "evaluation_fanout must be whole numbers"),
        ({"evaluation": "sampled", "evaluation_fanout": ()}, "evaluation_fanout must be whole numbers"),
        ({"evaluation": "sampled", "evaluation_fanout": (5, 0)}, "evaluation_fanout takes numbers from 1, or -1"),
        ({"trim": 1}, "trim must be true or false, got 1"),
        ({"learning_rate": 0.1}, "there is no setting 'learning_rate'"),
        ({"epoch": 3}, "did you mean epochs"),
    ],
)
def test_wrong_settings_are_named(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(HandfulError, match=words):
        vary_settings(Settings(), wrong)


def test_nothing_is_a_value_only_where_the_type_says_so() -> None:
    for name, hint in HINTS.items():
        if type(None) in getattr(hint, "__args__", ()):
            assert check_value(name, None, hint) is None
        else:
            with pytest.raises(HandfulError, match=name):
                check_value(name, None, hint)


def test_a_fanout_is_a_tuple_however_it_is_written() -> None:
    for given in ("15,10", [15, 10], (np.int64(15), 10)):
        assert Settings(evaluation="sampled", evaluation_fanout=given).evaluation_fanout == (15, 10)  # type: ignore[arg-type]
    assert Settings(evaluation="sampled", evaluation_fanout=-1).evaluation_fanout == (-1,)  # type: ignore[arg-type]
