from __future__ import annotations

import importlib
import inspect
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from handful.kernels import dispatch
from handful.kernels.dispatch import twin_gradients


@pytest.mark.parametrize(
    ("device", "triton", "expected"),
    [("cpu", True, "numba"), ("cuda", True, "triton"), ("cuda", False, "torch"), ("mps", True, "torch")],
)
def test_each_device_has_its_twin(device: str, triton: bool, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "has_triton", lambda: triton)
    assert dispatch.backend(torch.device(device)) == expected


def test_a_twin_can_be_asked_for_and_is_given_back() -> None:
    here = torch.device("cpu")
    with dispatch.use("torch"):
        assert dispatch.loops("aggregate", here) is None
    assert dispatch.loops("aggregate", here).__name__ == "handful.kernels.aggregate_numba"


def test_triton_launches_where_its_tensors_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not on the device that happens to be the current one: another GPU would read addresses that it does not have."""
    inside: list[object] = []

    @contextmanager
    def device_of(tensor: torch.Tensor) -> Iterator[None]:
        inside.append(tensor)
        yield
        inside.pop()

    monkeypatch.setattr(torch.cuda, "device_of", device_of)
    there = torch.zeros(1)
    module = SimpleNamespace(seen=lambda first, second, *, third: (list(inside), first, second, third))
    assert dispatch.OnTheirDevice(module).seen(None, there, third=3) == ([there], None, there, 3)
    assert not inside


@pytest.mark.parametrize("name", ["activation", "aggregate", "attention"])
def test_the_twins_have_the_same_functions(name: str) -> None:
    pytest.importorskip("triton")
    numba, triton = (importlib.import_module(f"handful.kernels.{name}_{which}") for which in ("numba", "triton"))

    def functions(module: object) -> dict[str, inspect.Signature]:
        own = inspect.getmembers(module, inspect.isfunction)
        return {
            key: inspect.signature(value)
            for key, value in own
            if value.__module__ == module.__name__ and not key.startswith("_")  # type: ignore[attr-defined]
        }

    theirs = functions(triton)
    assert functions(numba).items() <= theirs.items()


@pytest.mark.triton
@pytest.mark.parametrize(
    "dtypes", [["float32"], pytest.param(["bfloat16", "float16", "float64"], marks=pytest.mark.slow)]
)
def test_every_triton_kernel_compiles_for_gpus(dtypes: list[str]) -> None:
    """For sm_80, sm_90 and gfx942, in a process without the interpreter."""
    environment = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    script = Path(__file__).parents[1] / "triton_compile.py"
    done = subprocess.run(
        [sys.executable, script, *dtypes], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    source = Path(dispatch.__file__).parent
    launched = {
        name
        for file in source.glob("*_triton.py")
        for name in re.findall(r"^ *(_\w+)\[[^]\n]*\]\(", file.read_text(), re.M)
    }
    assert launched - {"_map"} <= set(found["kernels"])
    assert set(found["compiled"]) == {"sm_80", "sm_90", "gfx942"}
    assert min(found["compiled"].values()) >= len(found["kernels"])


def product(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    return x.square() * y * z


def test_gradients_are_those_of_the_twin_and_can_be_differentiated() -> None:
    x, y, z = torch.tensor([2.0, 3.0]), torch.tensor([5.0, 7.0]), torch.tensor([1.0, 2.0])
    x.requires_grad_()
    z.requires_grad_()
    gx, gy, gz = twin_gradients(product, (x, y, z), torch.tensor([1.0, 10.0]))
    assert gx is not None
    assert gz is not None
    assert gy is None  # y needs none
    assert gx.tolist() == [2 * 2 * 5 * 1, 10 * 2 * 3 * 7 * 2]
    assert gz.tolist() == [4 * 5, 10 * 9 * 7]
    # d/dx of grad · 2·x·y·z is grad · 2·y·z.
    assert torch.autograd.grad(gx.sum(), x)[0].tolist() == [2 * 5 * 1, 10 * 2 * 7 * 2]
