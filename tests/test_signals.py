from __future__ import annotations

import signal
import threading

import pytest

from handful.signals import deferred, terminate


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_is_kept_back_and_the_second_does_what_it_usually_does(
    number: signal.Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    before = signal.signal(signal.SIGTERM, terminate)
    try:
        with deferred("soon") as signals:
            signal.raise_signal(number)
            assert signals.received is number
            assert capsys.readouterr().err == "handful: stopping soon; the same signal again stops at once\n"
            with pytest.raises((KeyboardInterrupt, SystemExit)):
                signals.deliver(number)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        assert signal.getsignal(signal.SIGTERM) is terminate
    finally:
        signal.signal(signal.SIGTERM, before)


def test_what_someone_else_handles_is_left_to_them() -> None:
    seen: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: seen.append(number))
    try:
        with deferred("soon") as signals:
            signal.raise_signal(signal.SIGTERM)
        assert (seen, signals.received) == ([signal.SIGTERM], None)
    finally:
        signal.signal(signal.SIGTERM, before)


def test_nothing_is_done_on_another_thread() -> None:
    def work() -> None:
        with deferred("soon") as signals:
            done.append(signals.received is None and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL)

    done: list[bool] = []
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [True]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_the_command_line_ends_with_143() -> None:
    with pytest.raises(SystemExit) as end:
        terminate(signal.SIGTERM, None)
    assert end.value.code == 143


def test_a_signal_of_another_process_ends_this_one_too_and_nothing_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    before = signal.signal(signal.SIGTERM, terminate)
    try:
        with deferred(None) as signals, pytest.raises(SystemExit) as end:
            signals.deliver(signal.SIGTERM)
        assert end.value.code == 128 + signal.SIGTERM
        assert capsys.readouterr().err == ""
    finally:
        signal.signal(signal.SIGTERM, before)
