"""Waiting for a debugger and serving it, for ``headway machine run --gdb``."""

from __future__ import annotations

import shlex
import socket
from collections.abc import Callable

from headway.cli.say import say
from headway.readable import is_readable
from headway_machine.debugging import DebugSession
from headway_machine.gdb.server import Ended, GdbServer, listen

__all__ = ["serve_debugger"]

_LOOK = 0.2
"""Seconds between two looks at whether the user wants to end the run."""


def serve_debugger(session: DebugSession, port: int, program: str, interrupted: Callable[[], bool]) -> Ended:
    """Wait for a debugger on a port of the loopback interface (0: any), and serve it until it is done.

    If a debugger is gone without having let the program go, the machine stands, and the next debugger is waited for.
    """
    with listen(port) as server:
        number = server.getsockname()[1]
        said = "waiting for a debugger"
        while True:
            say(f"{said}: gdb-multiarch {shlex.quote(program)} -ex 'target remote :{number}'")
            while not is_readable(server, _LOOK):
                if interrupted():
                    return "interrupted"
            connected, _ = server.accept()
            with connected:
                connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                ended = GdbServer(session, connected, interrupted).serve()
            if ended != "lost":
                return ended
            said = f"the debugger is gone, and the program stands at cycle {session.now:,}; waiting for another"
