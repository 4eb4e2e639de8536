"""Tell the service manager that headway is ready, that it is alive and that it stops (sd_notify(3))."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import MutableMapping
from contextlib import suppress

from headway.text import is_number

__all__ = ["Notifier"]

_SHARE = 0.4
"""Time between two messages that headway is alive, as a part of the time after which the manager would kill it."""


class Notifier:
    """Sends messages to the service manager, if there is one. A message that cannot be sent is dropped."""

    def __init__(self, environment: MutableMapping[str, str] = os.environ) -> None:
        """Read NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID, and remove them from the environment for children."""
        address = environment.pop("NOTIFY_SOCKET", "")
        usec, pid = environment.pop("WATCHDOG_USEC", ""), environment.pop("WATCHDOG_PID", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address
        ours = is_number(usec) and pid in ("", str(os.getpid()))
        self.period = int(usec) / 1e6 * _SHARE if ours and int(usec) > 0 else None
        """Seconds between two messages of `alive`; None: the manager does not expect any."""
        self._next = 0.0

    def ready(self, status: str) -> None:
        """Tell that startup has finished. ``status``: a line for people."""
        self._send(f"READY=1\nSTATUS={' '.join(status.split())}")

    def stopping(self) -> None:
        """Tell that headway stops."""
        self._send("STOPPING=1")

    def alive(self) -> float | None:
        """Tell that headway is alive, if a message is due. Returns seconds until the next; None: none is expected."""
        if self.period is None:
            return None
        now = time.monotonic()
        if now >= self._next:
            self._send("WATCHDOG=1")
            self._next = now + self.period
        return self._next - now

    def _send(self, message: str) -> None:
        if not self._address.startswith(("/", "\0")):  # sd_notify(3) has other kinds, for virtual machines
            return
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as one:
            one.sendto(message.encode(errors="replace"), self._address)
