"""Several ranks: what they tell each other, what they come to against one process, and what goes wrong."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import pytest
import torch

import ranks_jobs
from handful import ranks
from handful.errors import HandfulError, RankError
from in_ranks import SIZE, Launch, launch, shared_launch

__all__ = ["shared_launch"]


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def test_one_process_is_all_there_is_unless_others_were_started() -> None:
    with ranks.join():
        assert (ranks.rank(), ranks.size(), ranks.launched()) == (0, 1, 1)
        assert ranks.broadcast({"a": 1}) == {"a": 1}
        assert ranks.gather(2) == [2]
        assert ranks.add_up(1.5, 2.0) == ranks.largest(1.5, 2.0) == [1.5, 2.0]
        assert torch.equal(ranks.exchange([torch.arange(3)])[0], torch.arange(3))
        assert ranks.share(7) == (0, 7)
        with pytest.raises(HandfulError, match="mine"), ranks.agreed():
            raise HandfulError("mine")


@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("per_step", [1, 2, 3, 5, float("inf")])
def test_every_batch_has_one_owner_and_a_step_is_shared_evenly(per_step: float, size: int) -> None:
    owners = [ranks.owner(index, per_step, size) for index in range(30)]
    length = 30 if per_step == float("inf") else int(per_step)
    for begin in range(0, 30, length):
        counts = [owners[begin : begin + length].count(rank) for rank in range(size)]
        assert sum(counts) == length
        assert max(counts) - min(counts) <= 1


def test_what_ranks_tell_each_other(shared_launch: Launch) -> None:
    for me, said in enumerate(shared_launch["talk"]):
        assert said["told"] == {"rank": 0, "none": None}
        assert said["tensors"]["half"].tolist() == [[0.0] * 3] * 2
        assert said["tensors"]["half"].dtype == torch.bfloat16
        assert said["tensors"]["empty"].shape == (0, 2)
        assert said["tensors"]["one"].item() == 0
        assert said["gathered"] == [[rank, "é"] for rank in range(SIZE)]
        assert said["summed"] == [SIZE, sum(range(SIZE))]
        assert said["largest"] == [SIZE - 1, 0]
        for rank, got in enumerate(said["exchanged"]):
            assert torch.equal(got, torch.arange(2 * (rank + me), dtype=torch.int32).view(-1, 2) + 100 * rank)


def test_a_mistake_of_one_rank_is_told_to_all_and_said_by_one(shared_launch: Launch) -> None:
    (one, both, none, data, folder), other = shared_launch["mistakes"][0], shared_launch["mistakes"][1]
    assert (one, other[0]) == (
        "ToldElsewhere: rank 1: something is wrong on 1",
        "HandfulError: something is wrong on 1",
    )
    assert (both, other[1]) == (
        "HandfulError: something is wrong on 0",
        "ToldElsewhere: rank 0: something is wrong on 0",
    )
    assert none == other[2] == ""
    assert other[3].startswith("RankError: rank 1 would train something else: ")
    assert data == "ToldElsewhere: rank 1: " + other[3].removeprefix("RankError: ")
    assert folder == "RunError: /refused already holds a run: resume it, or use another folder"
    assert other[4] == "ToldElsewhere: rank 0: " + folder.removeprefix("RunError: ")


def test_a_rank_that_never_comes_up_is_an_error_and_no_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"RANK": 0, "WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}.items():
        monkeypatch.setenv(name, str(value))
    with pytest.raises(RankError, match="did not come") as caught, ranks.join(wait=1.0):
        raise AssertionError("nobody else was started")
    assert "start all of them" in str(caught.value)
    assert ranks.size() == 1


def test_a_launcher_that_does_not_say_who_is_who_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    for name in ("RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(RankError, match="RANK"), ranks.join(wait=1.0):
        raise AssertionError("there is no rank")


def test_ranks_that_infer_together_find_what_one_finds(shared_launch: Launch) -> None:
    expected = ranks_jobs.inferred(shared_launch.folder)
    for found in shared_launch["inferred"]:
        assert set(found) == set(expected)
        assert all(torch.allclose(found[name], expected[name], atol=1e-5) for name in expected)


@pytest.mark.slow
def test_four_ranks_come_to_what_one_comes_to(tmp_path: Path) -> None:
    from training.test_group import assert_same

    for found in launch(tmp_path / "four", 4, "ways")["ways"]:
        for way in ranks_jobs.WAYS:
            assert_same(found[way], ranks_jobs.trained_way(way))


def test_start_gives_the_exit_code_of_the_rank_that_failed_and_leaves_nothing_behind() -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    with pytest.raises(SystemExit) as end:
        ranks.start(2, ["-c", "import os, sys; sys.exit(2 if os.environ['RANK'] == '1' else 0)"])
    assert end.value.code == 2
    assert "RANK" not in os.environ
    assert {number: signal.getsignal(number) for number in before} == before
