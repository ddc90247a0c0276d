from __future__ import annotations

from handful.bench.harness import Turns, measure_by_turns, seconds_of


def test_works_take_turns_and_each_second_round_is_reversed() -> None:
    order: list[str] = []
    said: list[str] = []

    def work(name: str, seconds: float) -> float:
        order.append(name)
        return seconds

    turns = measure_by_turns({"a": lambda: work("a", 2.0), "b": lambda: work("b", 1.0)}, 3, said.append)
    assert order == ["a", "b", "b", "a", "a", "b"]
    assert turns.seconds == {"a": [2.0] * 3, "b": [1.0] * 3}
    assert len(said) == 6


def test_a_slow_round_does_not_change_the_ratio() -> None:
    turns = Turns({"a": [2.0, 40.0, 3.0], "b": [1.0, 20.0, 1.0]})
    assert turns.medians == {"a": 3.0, "b": 1.0}
    assert turns.ratios("a", "b") == [2.0, 2.0, 3.0]
    assert turns.ratio("a", "b") == 2.0


def test_a_work_is_run_once() -> None:
    ran: list[int] = []
    assert seconds_of(lambda: ran.append(1)) >= 0
    assert ran == [1]
