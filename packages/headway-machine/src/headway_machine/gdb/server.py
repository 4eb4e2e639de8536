"""The server: what a debugger asks of the machine ("Debugging with GDB", appendix E; vCont, non-stop mode).

Each hart is a thread. By default the whole machine stands still while any of its threads is stopped: no time passes,
and the program does not notice. In non-stop mode one hart is stopped while the others run, and its time passes.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Literal

from headway.errors import HeadwayError
from headway_machine.debugging import DebugSession, Stop

from .packets import Connection, ConnectionBrokenError, binary, text_of
from .target import N_GENERAL, description, read_register, threads, write_register

__all__ = ["GdbServer", "listen"]

_SLICE = 1 << 19
"""Ticks between two looks at what the debugger sends."""
_LOOK = 0.2
"""Seconds between two looks at whether the user wants to end the run."""
_MAX_MEMORY = 4096
_TRAP, _INTERRUPTED, _NOTHING = 5, 2, 0

Ended = Literal["over", "detached", "killed", "interrupted", "lost"]
"""How serving a debugger ended; "lost": it has gone without a word, and the program could go on."""


def listen(port: int) -> socket.socket:
    """Return a socket that listens on the loopback interface. Raises HeadwayError if the port cannot be had."""
    server = socket.socket()
    try:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("127.0.0.1", port))
        server.listen(1)
    except (OSError, OverflowError) as error:
        server.close()
        why = error.strerror if isinstance(error, OSError) else "there is no such port"
        raise HeadwayError(f"port {port} cannot be listened on ({why}): name another, or 0 for any") from None
    return server


@dataclass
class _Actions:
    """What each hart is to do until the next stop."""

    running: set[int] = field(default_factory=set)
    stepping: set[int] = field(default_factory=set)
    alone: int | None = None
    """The hart that goes on by itself: nothing that others do ends it. See `GdbServer._alone`."""


class GdbServer:
    """Serves one debugger. ``interrupted`` tells whether the user wants to end the run."""

    def __init__(
        self, session: DebugSession, connected: socket.socket, interrupted: Callable[[], bool] = lambda: False
    ) -> None:
        self._session, self._interrupted = session, interrupted
        self._connection = Connection(connected)
        self._chosen = 0
        self._actions = _Actions()
        self._non_stop = False
        self._reports: list[str] = []
        """Stop replies of non-stop mode that the debugger has not taken yet."""
        self._idle = False
        """Whether nothing can happen before the debugger says something: every hart that it lets run waits."""
        self._locks = False
        """Whether harts are held that the debugger does not let go on (GDB's scheduler-locking)."""
        self._leaving: set[int] = set()
        """Breakpoints that the debugger has removed, perhaps only to step over one of them."""
        self._ended: Ended | None = None

    def serve(self) -> Ended:
        """Serve until the program is over, or the debugger lets it go, ends it, or is gone."""
        try:
            while self._ended is None:
                runs = bool(self._actions.running | self._actions.stepping)
                going = runs and not self._idle and not self._session.ended
                if self._interrupted():
                    return "interrupted"
                found = self._connection.packet(0 if going else _LOOK)
                if found == "interrupt":
                    self._stop_all()
                elif found is not None:
                    self._idle = False
                    self._answer(found)
                elif going:
                    self._go()
        except ConnectionBrokenError:
            self._let_go()
            return "over" if self._session.ended else "lost"
        return self._ended

    # --- running ---

    def _go(self) -> None:
        """Run for a while, and report if something stopped it."""
        stop = self._session.run(cycles=_SLICE, stepping=self._actions.stepping)
        if stop.why == "cycle":
            return
        if stop.why == "exit":
            status = (self._session.exit_status or 0) & 0xFF
            self._report(f"W{status:02x}")
        elif stop.why == "standstill" and not self._session.ended:
            self._idle = True
        elif stop.why == "standstill":
            self._say("every hart waits for something that cannot come\n")
            self._report(self._reply(_TRAP, self._chosen))
        elif self._actions.alone is not None and stop.hart != self._actions.alone:
            # It stops when the step is done, and the debugger has put its breakpoints back.
            self._session.hold(stop.hart or 0)
            self._session.rearm(stop.hart or 0)
        else:
            self._report_stop(stop)

    def _report_stop(self, stop: Stop) -> None:
        hart = stop.hart or 0
        if stop.why == "trigger" and not self._non_stop:
            self._say(f"the trace unit stopped hart {hart}\n")
        if self._non_stop:
            if hart not in self._actions.running | self._actions.stepping:
                return
            self._session.hold(hart)
            self._actions.running.discard(hart)
            self._actions.stepping.discard(hart)
        else:
            self._chosen = hart
        self._report(self._reply(_TRAP, hart, stop.address))

    def _report(self, reply: str) -> None:
        self._session.end_trace_for_now()
        if self._non_stop:
            self._reports.append(reply)
            if len(self._reports) == 1:
                self._connection.notify(f"Stop:{reply}")
            return
        self._actions = _Actions()
        for hart in range(self._session.harts):
            self._session.release(hart)
        self._connection.send(reply)

    def _reply(self, signal: int, hart: int, watched: int | None = None) -> str:
        return f"T{signal:02x}{'' if watched is None else f'watch:{watched:x};'}thread:{hart + 1:x};"

    def _stop_all(self) -> None:
        """Stop because the user pressed Ctrl-C in the debugger."""
        if self._non_stop:
            self._stop_harts(range(self._session.harts))
        elif self._actions.running or self._actions.stepping:
            self._report(self._reply(_INTERRUPTED, self._chosen))

    def _stop_harts(self, harts: Collection[int]) -> None:
        for hart in harts:
            if hart in self._actions.running | self._actions.stepping:
                self._session.hold(hart)
                self._actions.running.discard(hart)
                self._actions.stepping.discard(hart)
                self._report(self._reply(_NOTHING, hart))

    def _let_go(self) -> None:
        """Forget everything that the debugger asked for."""
        self._session.clear_all()
        for hart in range(self._session.harts):
            self._session.release(hart)

    def _say(self, text: str) -> None:
        """Show a text in the debugger."""
        self._connection.send(b"O" + text.encode().hex().encode())

    # --- packets ---

    def _answer(self, packet: bytes) -> None:
        for name, serve in _PACKETS:
            if packet.startswith(name):
                try:
                    reply = serve(self, packet[len(name) :])
                except (HeadwayError, ValueError, OverflowError):
                    reply = "E01"
                if reply is not None:
                    self._connection.send(reply)
                return
        self._connection.send("")

    def _supported(self, rest: bytes) -> str:
        return (
            "PacketSize=4000;QStartNoAckMode+;QNonStop+;vContSupported+;qXfer:features:read+;qXfer:threads:read+;"
            "swbreak-;hwbreak-"
        )

    def _no_acknowledgements(self, rest: bytes) -> None:
        self._connection.send("OK")
        self._connection.acknowledges = False

    def _set_non_stop(self, rest: bytes) -> str:
        """Choose the mode. In non-stop mode hart 0 is stopped at first, and the others run.

        GDB 13.1 fails if more than one thread is stopped when it connects.
        """
        self._non_stop = rest == b"1"
        self._reports.clear()
        self._actions = _Actions()
        for hart in range(self._session.harts):
            self._session.release(hart)
        if self._non_stop:
            self._session.hold(0)
            self._actions.running = set(range(1, self._session.harts))
        return "OK"

    def _why(self, rest: bytes) -> str:
        if self._session.exit_status is not None:
            return f"W{self._session.exit_status & 0xFF:02x}"
        if not self._non_stop:
            return self._reply(_TRAP, self._chosen)
        stopped = [h for h in range(self._session.harts) if h not in self._actions.running | self._actions.stepping]
        self._reports = [self._reply(_NOTHING, hart) for hart in stopped]
        return self._reports[0] if self._reports else "OK"

    def _reported(self, rest: bytes) -> str:
        if self._reports:
            del self._reports[0]
        return self._reports[0] if self._reports else "OK"

    def _features(self, rest: bytes) -> bytes:
        return _part(description(), rest.partition(b":")[2]) if rest.startswith(b"target.xml:") else b"E00"

    def _threads(self, rest: bytes) -> bytes:
        return _part(threads(self._session), rest.removeprefix(b":"))

    def _first_threads(self, rest: bytes) -> str:
        return "m" + ",".join(f"{hart + 1:x}" for hart in range(self._session.harts))

    def _extra(self, rest: bytes) -> str:
        return self._session.doing(self._hart(rest)).encode().hex()

    def _choose(self, rest: bytes) -> str:
        if rest[:1] == b"g" and rest[1:] not in (b"0", b"-1"):
            self._chosen = self._hart(rest[1:])
        return "OK"

    def _is_there(self, rest: bytes) -> str:
        self._hart(rest)
        return "OK"

    def _registers(self, rest: bytes) -> str:
        return "".join(read_register(self._session, self._chosen, n) or "" for n in range(N_GENERAL))

    def _set_registers(self, rest: bytes) -> str:
        if len(rest) != 8 * N_GENERAL:
            return "E01"
        for n in range(N_GENERAL):
            write_register(self._session, self._chosen, n, rest[8 * n : 8 * n + 8])
        return "OK"

    def _register(self, rest: bytes) -> str:
        return read_register(self._session, self._chosen, int(rest, 16)) or "E01"

    def _set_register(self, rest: bytes) -> str:
        number, _, digits = rest.partition(b"=")
        if not digits:
            return "E01"
        return "OK" if write_register(self._session, self._chosen, int(number, 16), digits) else "E01"

    def _read(self, rest: bytes) -> str:
        address, size = (int(part, 16) for part in rest.split(b","))
        return self._session.read(address, min(size, _MAX_MEMORY)).hex()

    def _write(self, rest: bytes) -> str:
        where, _, digits = rest.partition(b":")
        return self._write_bytes(where, bytes.fromhex(digits.decode("ascii", "replace")))

    def _write_binary(self, rest: bytes) -> str:
        where, _, data = rest.partition(b":")
        return self._write_bytes(where, data)

    def _write_bytes(self, where: bytes, data: bytes) -> str:
        address, size = (int(part, 16) for part in where.split(b","))
        if size != len(data):
            return "E01"
        self._session.write(address, data)
        return "OK"

    def _set_point(self, rest: bytes) -> str:
        """Set a breakpoint (0, 1) or a watchpoint (2: stores, 3: loads, 4: both)."""
        kind, address, size = (int(part, 16) for part in rest.split(b";")[0].split(b","))
        if kind > 4:
            return ""
        if kind < 2:
            self._leaving.discard(address)
            self._session.break_at(address)
        else:
            self._session.watch(address, size, loads=kind != 2, stores=kind != 3)
        return "OK"

    def _clear_point(self, rest: bytes) -> str:
        kind, address, size = (int(part, 16) for part in rest.split(b";")[0].split(b","))
        if kind < 2:
            self._leaving.add(address)
        else:
            self._session.unwatch(address, size)
        return "OK"

    def _can_continue(self, rest: bytes) -> str:
        return "vCont;c;C;s;S;t"

    def _continue(self, rest: bytes) -> str | None:
        """vCont: the first action that fits a hart is the hart's."""
        actions: dict[int, bytes] = {}
        for part in rest.split(b";"):
            action, _, thread = part.partition(b":")
            harts = range(self._session.harts) if thread in (b"", b"-1") else (self._hart(thread),)
            for hart in harts:
                actions.setdefault(hart, action[:1])
        if not set(actions.values()) <= {b"c", b"C", b"s", b"S", b"t"}:
            return "E01"
        if self._non_stop:
            self._stop_harts([hart for hart, action in actions.items() if action == b"t"])
        elif len(actions) == 1 and not self._locks:
            return self._alone(*next(iter(actions.items())))
        for place in self._leaving:
            self._session.clear(place)
        self._leaving.clear()
        for hart in range(self._session.harts):
            action = actions.get(hart, b"")
            if action in (b"c", b"C", b"s", b"S"):
                (self._actions.running if action in (b"c", b"C") else self._actions.stepping).add(hart)
                self._session.release(hart)
            elif not self._non_stop:
                self._session.hold(hart)  # the others go on, and this one is not to
        return "OK" if self._non_stop else self._ended_already()

    def _alone(self, hart: int, action: bytes) -> str | None:
        """Let a hart go on that the debugger wants to go on alone, as it does to leave a breakpoint.

        The others are not stopped, because that would take time of theirs: they go on as if there were no debugger. The
        breakpoints that the debugger has removed meanwhile are kept for them. ``monitor lock on`` stops them.
        """
        (self._actions.running if action in (b"c", b"C") else self._actions.stepping).add(hart)
        self._actions.alone = hart
        return self._ended_already()

    def _ended_already(self) -> str | None:
        """Return the reply of a program that cannot go on; None: it goes on, and the reply comes when it stops."""
        if not self._session.ended:
            return None
        self._actions = _Actions()
        if self._session.exit_status is not None:
            return f"W{self._session.exit_status & 0xFF:02x}"
        return self._reply(_TRAP, self._chosen)

    def _continue_all(self, rest: bytes) -> str | None:
        return self._continue(b"c")

    def _step_one(self, rest: bytes) -> str | None:
        return self._continue(b"s:%x;c" % (self._chosen + 1))

    def _monitor(self, rest: bytes) -> str:
        """Serve the debugger's command ``monitor``."""
        words = text_of(rest).split()
        if words[:1] == ["lock"] and words[1:] in (["on"], ["off"]):
            self._locks = words[1] == "on"
            text = f"harts that the debugger does not let go on {'are held' if self._locks else 'run on'}\n"
        elif words == ["cycle"]:
            text = f"{self._session.now}\n"
        elif words == ["progress"]:
            text = _progress(self._session)
        elif words[:1] == ["trace"] and len(words) < 3 and (words[1:] or ["20"])[0].isdecimal():
            text = _traced(self._session, self._chosen, int((words[1:] or ["20"])[0]))
        else:
            text = _HELP
        return text.encode().hex()

    def _detach(self, rest: bytes) -> None:
        self._let_go()
        self._connection.send("OK")
        self._ended = "detached"

    def _kill(self, rest: bytes) -> None:
        if rest:
            self._connection.send("OK")
        self._ended = "killed"

    def _hart(self, digits: bytes) -> int:
        number = int(digits, 16) - 1
        if not 0 <= number < self._session.harts:
            raise ValueError(number)
        return number


_PACKETS: tuple[tuple[bytes, Callable[[GdbServer, bytes], bytes | str | None]], ...] = (
    (b"qSupported", GdbServer._supported),
    (b"QStartNoAckMode", GdbServer._no_acknowledgements),
    (b"QNonStop:", GdbServer._set_non_stop),
    (b"vStopped", GdbServer._reported),
    (b"vCont?", GdbServer._can_continue),
    (b"vCont;", GdbServer._continue),
    (b"vKill;", GdbServer._kill),
    (b"qXfer:features:read:", GdbServer._features),
    (b"qXfer:threads:read:", GdbServer._threads),
    (b"qfThreadInfo", GdbServer._first_threads),
    (b"qsThreadInfo", lambda server, rest: "l"),
    (b"qThreadExtraInfo,", GdbServer._extra),
    (b"qC", lambda server, rest: "" if rest else f"QC{server._chosen + 1:x}"),
    (b"qAttached", lambda server, rest: "1"),
    (b"qSymbol", lambda server, rest: "OK"),
    (b"qRcmd,", GdbServer._monitor),
    (b"?", GdbServer._why),
    (b"H", GdbServer._choose),
    (b"T", GdbServer._is_there),
    (b"g", GdbServer._registers),
    (b"G", GdbServer._set_registers),
    (b"p", GdbServer._register),
    (b"P", GdbServer._set_register),
    (b"m", GdbServer._read),
    (b"M", GdbServer._write),
    (b"X", GdbServer._write_binary),
    (b"Z", GdbServer._set_point),
    (b"z", GdbServer._clear_point),
    (b"c", GdbServer._continue_all),
    (b"s", GdbServer._step_one),
    (b"D", GdbServer._detach),
    (b"k", GdbServer._kill),
)
"""What serves packets, by their first bytes; the first that fits. Others get the empty reply: not supported."""


def _part(text: str, wanted: bytes) -> bytes:
    """Return the part of a document that qXfer asks for: ``offset,length``."""
    offset, length = (int(part, 16) for part in wanted.split(b","))
    if min(offset, length) < 0:
        raise ValueError(wanted)
    data = text.encode()
    found = data[offset : offset + length]
    return (b"m" if offset + length < len(data) else b"l") + binary(found)


def _progress(session: DebugSession) -> str:
    names = ("epc", "mpci", "mpcx", "kpc", "iopc", "rpc")
    rows = [f"hart {''.join(f'{name:>12}' for name in names)}  doing"]
    for hart in range(session.harts):
        counters = session.counters(hart)
        rows.append(f"{hart:>4} {''.join(f'{counters[name]:>12}' for name in names)}  {session.doing(hart)}")
    return "\n".join(rows) + "\n"


def _traced(session: DebugSession, hart: int, count: int) -> str:
    session.end_trace_for_now()
    try:
        rows = session.recent(hart, count)
    except HeadwayError as error:
        return f"{error}\n"
    found = [f"{'cycle':>12}  {'address':<10}  {'hart ' + str(hart):<12}  function"]
    for row in rows:
        cycle = "-" if row.cycle is None else str(row.cycle)
        known = not row.state.startswith("unknown")
        place = (f"{row.address:#010x}", session.name(row.address)) if known else ("", "")
        found.append(f"{cycle:>12}  {place[0]:<10}  {row.state:<12}  {place[1]}".rstrip())
    return "\n".join(found) + "\n"


_HELP = """\
monitor cycle         ticks since reset
monitor progress      each hart's progress counters, thread and state
monitor trace [N]     the last N instructions of the chosen hart, from the trace (20)
monitor lock on|off   hold the harts that the debugger does not let go on
                      (set scheduler-locking on); off: they run on, so that
                      stepping takes no time of theirs
"""
