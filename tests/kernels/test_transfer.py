"""What goes to a device. ``meta`` stands for one: it tells storages apart, and copies nothing."""

from __future__ import annotations

import torch

from handful.kernels.transfer import sender, sent


def test_what_begins_at_the_same_place_goes_once() -> None:
    whole, other = torch.arange(10), torch.arange(10)
    send = sender(torch.device("meta"))
    first, shorter, again, apart, later = (send(t) for t in (whole, whole[:4], whole, other, whole[4:]))
    storages = [t.untyped_storage()._cdata for t in (first, shorter, again, apart, later)]
    assert storages[0] == storages[1] == storages[2]
    assert len(set(storages)) == 3
    assert [len(t) for t in (first, shorter, again, apart, later)] == [10, 4, 10, 10, 6]


def test_another_type_or_shape_at_the_same_place_is_another_tensor() -> None:
    numbers = torch.arange(12, dtype=torch.int32)
    send = sender(torch.device("cpu"))
    for t in (numbers, numbers.view(torch.float32), numbers.view(4, 3), numbers.view(3, 4), numbers[::2]):
        assert torch.equal(send(t), t)
        assert send(t).dtype == t.dtype


def test_what_is_there_already_stays() -> None:
    x = torch.arange(3)
    assert sent(x, torch.device("cpu")) is x
