"""A reader with every fault that the runner must find, each at an input of its own."""

from __future__ import annotations

import os
import signal
import time
from functools import cached_property
from random import Random

from tests.fuzz.target import Target

from headway.errors import HeadwayError

FAULTS = {3: "exception", 5: "crash", 7: "hang", 9: "memory", 11: "unclear", 13: "refusal", 15: "wait"}
"""By the number of the input."""


class FaultyTarget(Target):
    """Input ``number`` is the number as text."""

    name = "faulty"

    @cached_property
    def seeds(self) -> list[bytes]:
        """Return none."""
        return []

    def input(self, seed: int, number: int) -> bytes:
        """Return the number as text."""
        return b"%d" % number

    def read(self, data: bytes, random: Random) -> None:
        """Fail as the number says."""
        fault = FAULTS.get(int(data))
        if fault == "exception":
            raise KeyError(data)
        if fault == "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        if fault == "hang":
            while time.process_time() < 60:
                pass
        if fault == "wait":
            time.sleep(60)
        if fault == "memory":
            bytearray(300 << 20)
        if fault == "unclear":
            raise HeadwayError("two\nlines")
        if fault == "refusal":
            raise HeadwayError("this is refused: give something else")


TARGET = FaultyTarget
