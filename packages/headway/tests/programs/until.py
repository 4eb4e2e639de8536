"""What programs under test wait for, instead of a time: that another thread sleeps, that an observer has looked."""

from __future__ import annotations

import os
import time
from pathlib import Path


def until_asleep(tid: int) -> None:
    """Wait until a thread waits for something that may take long."""
    while Path(f"/proc/{tid}/stat").read_text().rpartition(") ")[2][0] != "S":
        time.sleep(0.001)


def until_seen(otherwise: float = 0.5) -> None:
    """Wait until an observer has looked at this process as it is now, as until_seen.h does.

    If none says when it does, wait for so many seconds.
    """
    if "UNTIL_SEEN" not in os.environ:
        time.sleep(otherwise)
        return
    for _ in range(2):
        Path(os.environ["UNTIL_SEEN"]).read_bytes()
