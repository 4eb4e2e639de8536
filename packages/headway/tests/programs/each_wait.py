"""Waits for something of each kind, once or more, in a process called after the kind.

What a process waits for comes when it sleeps, and not before.
"""

import contextlib
import os
import select
import signal
import socket
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]


def _call(name: str) -> None:
    Path("/proc/self/comm").write_text(name)


def main() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    pipes = {kind: os.pipe() for kind in ("pipe", "poll", "epoll", "child")}
    near, far = socket.socketpair()
    polled, polled_too = select.poll(), select.epoll()
    polled.register(pipes["poll"][0])
    polled_too.register(pipes["epoll"][0])
    lock = threading.Lock()
    lock.acquire()

    def wake(end: int, pid: int) -> None:
        os.write(end, b"x")

    def sleep() -> None:
        for _ in range(5):
            time.sleep(0.02)

    def until_a_child_ends() -> None:
        child = os.fork()
        if not child:
            _call("another")
            os.read(pipes["child"][0], 1)
            os._exit(0)
        os.waitpid(child, 0)

    waits: dict[str, Callable[[], object]] = {
        "pipe": lambda: os.read(pipes["pipe"][0], 1),
        "poll": polled.poll,
        "epoll": polled_too.poll,
        "child": until_a_child_ends,
        "signal": lambda: signal.sigwait([signal.SIGUSR1]),
        "net": lambda: near.recv(1),
        # A timer may run out before the thread sleeps, but not each time.
        "futex": lambda: [lock.acquire(timeout=0.02) for _ in range(5)],
        "sleep": sleep,
    }
    wakes: dict[str, Callable[[int], object]] = {
        **{kind: partial(wake, end) for kind, (_, end) in pipes.items()},
        "signal": lambda pid: os.kill(pid, signal.SIGUSR1),
        "net": lambda _: far.send(b"x"),
    }
    for kind, wait in waits.items():
        pid = os.fork()
        if not pid:
            _call(kind)
            wait()
            os._exit(0)
        if kind in wakes:
            while _state(pid) != "S":
                time.sleep(0.002)
            wakes[kind](pid)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)


main()
