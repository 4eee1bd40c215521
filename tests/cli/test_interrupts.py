"""Interrupts wait while libraries are loaded, and are raised afterwards."""

from __future__ import annotations

import signal
import threading

import pytest

from geonew.cli import parser
from geonew.cli.interrupts import held_interrupts


def interrupted(steps: list[str], error: Exception | None = None) -> None:
    with held_interrupts():
        handler = signal.getsignal(signal.SIGINT)  # called as by a signal, which could miss us
        assert callable(handler)
        handler(signal.SIGINT, None)
        steps.append("went on")
        if error is not None:
            raise error


def test_an_interrupt_waits_until_the_end():
    before, steps = signal.getsignal(signal.SIGINT), []
    with pytest.raises(KeyboardInterrupt):
        interrupted(steps)
    assert steps == ["went on"]
    assert signal.getsignal(signal.SIGINT) is before


def test_errors_inside_are_raised_as_they_are():
    before, steps = signal.getsignal(signal.SIGINT), []
    with pytest.raises(ValueError, match="broken"):
        interrupted(steps, ValueError("broken"))
    assert steps == ["went on"]
    assert signal.getsignal(signal.SIGINT) is before


def test_other_threads_are_left_alone():
    done = []

    def work() -> None:
        with held_interrupts():
            done.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [True]


@pytest.mark.parametrize("command", [["predict", "m", "a.msh"], ["train", "c.yaml"], ["bench"]])
def test_commands_that_need_torch_say_so(command: list[str]):
    assert parser().parse_args(command).loads == ("torch",)
