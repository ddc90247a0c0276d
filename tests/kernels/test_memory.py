from __future__ import annotations

import gc
import threading

import pytest
import torch

from handful.kernels import memory
from handful.kernels.memory import ALIGNMENT, Pool, empty, release, sender, sent

SMALLEST = 1 << 20
BIG = 4 * SMALLEST


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Pool:
    """A pool of our own behind ``empty``."""
    mine = Pool()
    monkeypatch.setattr(memory, "SMALLEST", SMALLEST)
    monkeypatch.setattr(memory, "_pool", mine)
    return mine


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.uint8])
def test_a_tensor_like_any_other(pool: Pool, dtype: torch.dtype) -> None:
    like = torch.empty(0, dtype=dtype)
    out = empty((BIG // 8, 3, 7), like)
    assert out.shape == (BIG // 8, 3, 7)
    assert out.dtype == dtype
    assert out.is_contiguous()
    assert not out._is_view()  # type: ignore[no-untyped-call]
    assert out.data_ptr() % ALIGNMENT == 0
    out.fill_(3)
    assert float(out.float().mean()) == 3
    assert pool.live == out.nbytes


def test_a_block_is_lent_again_only_when_nothing_looks_at_it(pool: Pool) -> None:
    first = empty((BIG,), torch.empty(0))
    place, view = first.data_ptr(), first[5:7].view(2, 1)
    view.fill_(1.5)
    del first
    second = empty((BIG,), torch.empty(0)).fill_(0)
    assert second.data_ptr() != place
    assert view.flatten().tolist() == [1.5, 1.5]
    del view
    assert empty((BIG,), torch.empty(0)).data_ptr() == place


def test_what_autograd_saved_is_not_lent_again(pool: Pool) -> None:
    x = torch.ones(BIG, requires_grad=True)
    kept = empty((BIG,), x.detach()).fill_(2.0)
    out = (x * kept).sum()
    del kept
    empty((BIG,), torch.empty(0)).fill_(9.0)
    out.backward()
    assert x.grad is not None
    assert x.grad.unique().tolist() == [2.0]


def test_what_is_kept_raises_the_peak_by_an_eighth_at_most(pool: Pool) -> None:
    """Whatever sizes come and go, in any order."""
    rng = torch.Generator().manual_seed(0)
    held: list[torch.Tensor] = []
    used = highest = 0
    for _ in range(300):
        if held and torch.rand((), generator=rng) < 0.5:
            used -= held.pop(int(torch.randint(len(held), (), generator=rng))).nbytes
        else:
            held.append(
                empty((int(torch.randint(SMALLEST, BIG, (), generator=rng)),), torch.empty(0, dtype=torch.uint8))
            )
            used += held[-1].nbytes
        highest = max(highest, used)
        blocks = sum(map(memory._size, pool.kept)) + pool.live
        assert blocks <= highest * 9 / 8 * 9 / 8  # a block may itself be an eighth larger than what it is lent for
    assert len(pool.kept) > 0


def test_the_same_sizes_again_ask_the_system_for_nothing(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    def step() -> None:
        layers = [empty((BIG,), torch.empty(0)) for _ in range(3)]
        small = empty((BIG // 4,), torch.empty(0))
        layers.pop()
        layers.append(empty((BIG,), torch.empty(0)))
        del small

    step()
    monkeypatch.setattr(pool, "_make_room", lambda size: pytest.fail("a new block"))
    for _ in range(5):
        step()


def test_release_forgets(pool: Pool) -> None:
    held = empty((BIG,), torch.empty(0))
    other = empty((BIG,), torch.empty(0))
    del other
    release()
    assert pool.kept == []
    assert pool.live == pool.peak == held.nbytes


def test_small_tensors_are_the_allocators(pool: Pool) -> None:
    empty((SMALLEST - 1,), torch.empty(0, dtype=torch.uint8))
    assert pool.live == pool.peak == 0


def test_threads_never_share_a_block(pool: Pool) -> None:
    wrong: list[int] = []

    def work(mark: int) -> None:
        for _ in range(200):
            out = empty((SMALLEST,), torch.empty(0, dtype=torch.uint8)).fill_(mark)
            if int(out[::4096].min()) != mark or int(out[::4096].max()) != mark:
                wrong.append(mark)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gc.collect()
    assert wrong == []


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
