"""Interrupts at any instruction of Python."""

from __future__ import annotations

import gc
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

PATIENCE = 100.0
"""Seconds after which a test gives up."""


def interrupted_at(instruction: int, call: Callable[[], object]) -> bool:
    """Call it, and raise KeyboardInterrupt before the given instruction of Python. Return whether it was raised.

    While SIGINT is blocked it waits, as the signal does.
    """
    left, raised = instruction, False

    def step(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal left, raised
        frame.f_trace_opcodes = True
        if event == "opcode":
            left -= 1
            if left <= 0 and signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ()):
                sys.settrace(None)
                raised = True
                raise KeyboardInterrupt
        return step

    before, collected = sys.gettrace(), gc.isenabled()
    gc.disable()  # what is called when garbage is collected swallows exceptions
    sys.settrace(step)
    try:
        call()
    except KeyboardInterrupt:  # suppress() has instructions of Python, too
        pass
    finally:
        sys.settrace(before)
        if collected:
            gc.enable()
    return raised


def in_time(call: Callable[[], None]) -> None:
    """Call it in a thread, so that a lock that is never released fails the test and does not stop it."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert not thread.is_alive(), "it waits for ever"
    if failed:
        raise failed[0]
