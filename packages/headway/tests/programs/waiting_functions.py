"""Two functions of Python that wait, at a pipe and asleep. The thread "taker" waits for its bytes in `take` only."""

import os
import threading
import time

ROUNDS = 20
readable, writable = os.pipe()


def take() -> None:
    """Wait for a byte."""
    os.read(readable, 1)


def fill() -> None:
    """End that wait."""
    os.write(writable, b"x")


def doze() -> None:
    """Wait for a while."""
    time.sleep(0.002)


def take_all() -> None:
    """Wait for all bytes."""
    with open("/proc/thread-self/comm", "w") as name:
        name.write("taker")
    for _ in range(ROUNDS):
        take()


taker = threading.Thread(target=take_all)
taker.start()
for _ in range(ROUNDS):
    doze()
    fill()
taker.join()
