"""Commands about processes: none for those that have ended, or whose id another process has by now."""

from __future__ import annotations

import os
import subprocess
import time

import pytest

from headway.advice import Advice
from headway.linux.placement.still_there import about_the_living
from headway.model import Ledger, Thread, Window

pytestmark = pytest.mark.unit


def command_for(pid: int, measured: int) -> str | None:
    """What is left of the command about a process that was measured until then."""
    thread = Thread(pid, pid, "a", 0, 0, None, measured, measured, {})
    advice = Advice(pid, "kpi", 1, 0.5, "text", f"strace -p {pid}", name="a")
    (left,) = about_the_living([advice], Ledger("recording", Window(0, measured), (thread,)))
    return left.command


def test_a_process_that_still_lives_can_be_looked_at() -> None:
    assert command_for(os.getpid(), time.monotonic_ns()) == f"strace -p {os.getpid()}"


def test_one_that_has_ended_cannot() -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    assert command_for(ended.pid, time.monotonic_ns()) is None


def test_one_that_began_after_the_measurement_is_another() -> None:
    assert command_for(os.getpid(), 1) is None


def test_advice_about_the_machine_stays() -> None:
    advice = Advice(None, "stolen", 1, 0.5, "text", "vmstat -w 1 5")
    assert about_the_living([advice], Ledger("recording", Window(0, 1))) == (advice,)
