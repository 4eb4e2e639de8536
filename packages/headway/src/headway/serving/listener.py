"""The process that listens. It has no privileges and no eBPF; the process that measures hands readings to it."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Sequence
from concurrent.futures.thread import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from headway.exhaustion import fork, in_words
from headway.linux.privileges import User, give_up
from headway.views.metrics.families import families
from headway.views.metrics.otlp import PushExporter

from .feed import Feed
from .http import Server
from .site import HEALTH, Site, cost_of_ourselves

__all__ = ["Listener", "Push", "start_listener"]

_DESCRIPTORS = 512
"""Limit of open files of the process that listens. It has far fewer connections."""

SWITCH_SECONDS = 0.0005
"""Seconds until a thread that answers gets Python's lock from one that formats a reading (sys.setswitchinterval)."""
LAST_PUSH_SECONDS = 10.0
_NOT_TAKEN = "%s does not take metrics: trying on"


@dataclass(frozen=True, slots=True)
class Push:
    """Where metrics are pushed to, and how often."""

    exporter: PushExporter
    interval: float
    """Seconds."""


class Listener:
    """The process that listens, as seen by the process that measures."""

    def __init__(self, pid: int, channel: socket.socket) -> None:
        self._pid = pid
        self.channel = channel
        """The channel on which the process asks for readings, a byte each."""
        self._ended = False

    def why_ended(self, seconds: float) -> str:
        """Return how the process ended, in a clause; empty if it has not ended after this many seconds."""
        if self._ended:
            return "it has ended"
        deadline = time.monotonic() + seconds
        while not (ended := os.waitpid(self._pid, os.WNOHANG))[0]:  # its files are closed a little before it has ended
            if time.monotonic() >= deadline:
                return ""
            time.sleep(0.001)
        _, status = ended
        self._ended = True
        code = os.waitstatus_to_exitcode(status)
        return f"signal {-code}" if code < 0 else f"exit status {code}"

    def close(self) -> None:
        """Let the process finish its answers and end."""
        self.channel.close()
        if not self._ended:
            os.waitpid(self._pid, 0)
            self._ended = True


def start_listener(
    listening: Sequence[socket.socket],
    user: User | None,
    *,
    interval: float,
    token: bytes | None,
    counts: bool,
    push: Push | None,
) -> Listener:
    """Start the process that listens, as this user (None: the present one) and without capabilities.

    This process's copies of the sockets are closed. Call it before anything is opened that the new process should not
    have.
    """
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sys.stdout.flush()
    sys.stderr.flush()
    pid = fork()
    if pid:
        its.close()
        for one in listening:
            one.close()
        ours.setblocking(False)
        return Listener(pid, ours)
    status = 1
    try:
        ours.close()
        _alone(user)
        with asyncio.Runner() as runner:
            runner.get_loop()  # it needs descriptors: if there are none, nothing else has been begun
            runner.run(_listen(listening, its, interval=interval, token=token, counts=counts, push=push))
        status = 0
    except OSError as error:
        _say(f"the process that listens has failed: {in_words(error)}")
    except BaseException as error:  # whatever it is, a sentence: what is above on the stack is not this process's
        _say(f"the process that listens has failed ({type(error).__name__}: {error})")
    finally:
        os._exit(status)


def _alone(user: User | None) -> None:
    """Reduce the process to what serving needs. The process that measures says when to end."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    most = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(_DESCRIPTORS, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.setswitchinterval(SWITCH_SECONDS)
    sys.unraisablehook = lambda _: None  # a loop that could not be made says so while it is forgotten, too
    give_up(user)


async def _listen(
    listening: Sequence[socket.socket],
    channel: socket.socket,
    *,
    interval: float,
    token: bytes | None,
    counts: bool,
    push: Push | None,
) -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_failed)
    feed = Feed(channel, interval)
    feed.open()
    server = Server(listening, Site(feed, token=token, counts=counts).respond, reserved=(HEALTH,))
    await server.open()
    pushing = loop.create_task(_push(feed, push, counts)) if push is not None else None
    await feed.ended.wait()
    await server.close()
    if pushing is not None:
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_PUSH_SECONDS):
                await pushing


async def _push(feed: Feed, push: Push, counts: bool) -> None:
    """Send a reading each interval, and the last one. A failure is reported once, and so is the next success."""
    arrives, last = True, False
    executor = ThreadPoolExecutor(1)
    while not last:
        last = feed.ended.is_set()
        readings = await feed.latest()
        if readings is not None:
            found = list(families(readings[0], counts=counts, serving=cost_of_ourselves()))
            try:
                pushing = asyncio.get_running_loop().run_in_executor(executor, push.exporter.push, readings[0], found)
            except RuntimeError:
                _say("no thread can be started to push metrics: raise the limit of processes (pids.max, ulimit -u)")
                return
            arrived = await pushing
            if arrived is not arrives:
                arrives = arrived
                _say(f"{push.exporter.address} takes metrics again" if arrived else _NOT_TAKEN % push.exporter.address)
        with suppress(TimeoutError):
            async with asyncio.timeout(push.interval):
                await feed.ended.wait()


def _failed(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Print a sentence about an unexpected error. The client sees the connection closed."""
    error = context.get("exception")
    if not isinstance(error, ConnectionError):
        _say(f"an answer has failed ({type(error).__name__}: {error})")


def _say(text: str) -> None:
    with suppress(OSError):
        os.write(2, f"headway: {text}\n".encode("utf-8", "backslashreplace"))
