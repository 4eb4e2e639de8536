"""Find processors that came back after they had been turned off: their perf events have lost what was attached to them.

The kernel reports this at once to whoever listens (NETLINK_KOBJECT_UEVENT), but not in every container, and not after
the machine slept. So the list of online processors and the time slept are also looked at now and then.
"""

from __future__ import annotations

import re
import select
import socket
import time
from contextlib import suppress

from headway.linux.procfs import processors

__all__ = ["Hotplug", "parse_event"]

LOOK_SECONDS = 1.0
SLEPT_NS = 100_000_000
"""By so much the clock that goes on in sleep must have gained on the other; in between, one is read after the other."""
_UEVENT, _KERNEL = 15, 1
"""NETLINK_KOBJECT_UEVENT, and the group of those that the kernel sends (linux/netlink.h)."""
_MAX_BYTES = 16_384
_ONLINE = re.compile(rb"online@/devices/system/cpu/cpu([0-9]{1,5})\0")


class Hotplug:
    """Watches the processors from now on; `close` in any case."""

    def __init__(self) -> None:
        self._list = processors.OnlineList()
        self._on = set(self._list.processors)
        self._slept, self._looked = _slept(), time.monotonic()
        self._socket: socket.socket | None = None
        self._poll = select.poll()
        with suppress(OSError):
            self._socket = socket.socket(
                socket.AF_NETLINK, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC, _UEVENT
            )
            self._poll.register(self._socket, select.POLLIN)
            self._socket.bind((0, _KERNEL))

    def came_back(self) -> set[int]:
        """Processors that have been off since the last time, or since the beginning, and are on now."""
        back = self._told()
        now = time.monotonic()
        if not back and now - self._looked < LOOK_SECONDS:
            return set()
        on, slept = set(self._list.processors), _slept()
        back |= on - self._on
        if slept - self._slept > SLEPT_NS:  # all but the first are turned off for it
            back |= on
        self._on, self._slept, self._looked = on, slept, now
        return back & on

    def _told(self) -> set[int]:
        found: set[int] = set()
        if self._socket is None:
            return found
        while self._poll.poll(0):  # cheaper than the exception where there is nothing
            try:
                message, sender = self._socket.recvfrom(_MAX_BYTES)
            except BlockingIOError:
                return found
            except OSError:  # more came than there was room for: any may have been among them
                found |= set(processors.online())
                continue
            if sender[0] == 0 and (cpu := parse_event(message)) is not None:  # the kernel's
                found.add(cpu)
        return found

    def close(self) -> None:
        """Watch no more."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self._list.close()


def parse_event(message: bytes) -> int | None:
    """The processor that a message of the kernel says is on again; None: it is about something else."""
    found = _ONLINE.match(message)
    return int(found.group(1)) if found else None


def _slept() -> int:
    """ns that the machine slept since boot."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.monotonic_ns()
