"""Running a program step by step: breakpoints, registers, memory, devices in Python, and going back.

The machine stops between two instructions, when nothing of the next one has happened. So a program that is stopped,
looked at and let go does the same in every cycle as one that runs through, on all harts. Only what changes something
changes it: writing a register or memory, and holding one hart while others run.
"""

from __future__ import annotations

import hashlib
import os
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from headway.errors import HeadwayError
from headway_trace.threads.container import digest_of

from .device import Device, Devices
from .fields import shown
from .ledger import thread_name
from .moments import Deed, Moment, read_moment, write_moment
from .moments import Place as Moved
from .recent import TracedRow
from .run import LATEST, Result, Run, SavedRun

if TYPE_CHECKING:
    from ._processor import MachineProcessor

__all__ = ["REGISTERS", "DebugSession", "SavedSession", "Stop", "Why"]

REGISTERS = (
    *("zero", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1"),
    *(f"a{n}" for n in range(8)),
    *(f"s{n}" for n in range(2, 12)),
    *("t3", "t4", "t5", "t6"),
)
"""The names of x0 to x31 in the ABI ("RISC-V ABIs Specification", register conventions)."""
_NUMBERS = {name: n for n, name in enumerate(REGISTERS)} | {f"x{n}": n for n in range(32)} | {"fp": 8}

Why = Literal["breakpoint", "step", "watch", "trigger", "cycle", "condition", "exit", "standstill"]
Place = int | str
"""An address, or the name of a function or a variable of the program; ``name+offset`` is possible."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Where the machine stopped, and why."""

    why: Why
    """Why it stopped.

    "breakpoint" and "step": before the next instruction of ``hart``. "watch": after its access to watched memory.
    "trigger": its core's trace unit entered a state with the action ``halt`` or ``stop``; before its next instruction.
    "cycle": that tick is reached. "condition": ``when`` was true. "exit": the program has ended. "standstill": every
    hart waits for something that cannot come.
    """
    cycle: int
    """Ticks since reset."""
    hart: int | None
    """The hart that is about to go on; None: none in particular."""
    address: int | None = None
    """The watched address that was accessed."""


@dataclass(frozen=True, slots=True)
class SavedSession:
    """A session as it was at some moment, for `DebugSession.restore`."""

    run: SavedRun
    devices: object
    held: frozenset[int]
    deeds: tuple[Deed, ...]
    at: Moved


class DebugSession:
    """A program on the machine, to be run step by step. `headway_machine.machine.Machine.debug` returns it.

    >>> session = Machine(cores=1, threads=6).debug("examples/mutex.elf")
    >>> session.run_until("main").why
    'breakpoint'
    """

    def __init__(self, run: Run, fresh: Callable[[], MachineProcessor] | None = None) -> None:
        """Take a run, and what makes a processor with its program, which only `restore_from` needs."""
        self._run = run
        self._fresh = fresh
        if fresh is not None:
            run.remember()
        self._deeds: list[Deed] = []
        """What was done to the program since reset, apart from letting it run."""
        self._at = Moved("tick", 0)
        self._processor = run.processor
        self._processor.debugger(True)
        self._breakpoints: set[int] = set()
        self._watches: list[tuple[int, int, bool, bool]] = []
        self._held: set[int] = set()
        self._devices = Devices(run.processor)
        places = {**run.image.objects, **run.image.functions}
        self._places = {name: start for name, (start, _) in places.items()}
        functions = sorted((start, end, name) for name, (start, end) in run.image.functions.items())
        self._starts = [start for start, _, _ in functions]
        self._functions = functions

    # --- going on ---

    @property
    def now(self) -> int:
        """Ticks since reset."""
        return self._processor.now

    @property
    def harts(self) -> int:
        """The number of harts."""
        return self._run.config.harts

    @property
    def threads(self) -> int:
        """The number of harts of each core."""
        return self._run.config.threads

    @property
    def ended(self) -> bool:
        """Whether the program has ended, or can never go on."""
        return self._run.ended != "limit"

    def run(self, *, cycles: int | None = None, stepping: Collection[int] = ()) -> Stop:
        """Run to the next breakpoint or the end, or for so many ticks.

        ``stepping``: harts before whose second turn from now on it stops, too.
        """
        if cycles is not None:
            _check_number("cycles", cycles, -LATEST)
            if cycles < 0:
                raise HeadwayError(
                    f"cycles is {cycles}: the machine cannot run backwards; save() and restore() go back"
                )
        with self._stepping([self._hart(hart) for hart in stepping]):
            return self._go(LATEST if cycles is None else self.now + cycles)

    def step(self, hart: int | None = None, count: int = 1) -> Stop:
        """Run until a hart has executed ``count`` instructions, or entered traps; None: any hart.

        Other harts run meanwhile. A breakpoint ends it before.
        """
        _check_number("count", count, 1)
        if hart is not None:
            with self._stepping((self._hart(hart),), count):
                return self._go(LATEST)
        for _ in range(count):
            with self._stepping(range(self.harts)):
                stop = self._go(LATEST)
            if stop.why != "step":
                break
        return stop

    def run_until(
        self,
        place: Place | None = None,
        *,
        cycle: int | None = None,
        when: Callable[[DebugSession], object] | None = None,
        hart: int | None = None,
    ) -> Stop:
        """Run to an address or a symbol, to a tick, or until ``when(session)`` is true, whichever comes first.

        ``when`` is asked before each instruction of any hart, or of ``hart``, which takes some microseconds each.
        ``hart``: only this hart stops at the place. Breakpoints end it, too. Raises HeadwayError if none is given.
        """
        if place is None and cycle is None and when is None:
            raise HeadwayError("run_until needs an address, a symbol, a cycle or a condition")
        if cycle is not None:
            _check_number("cycle", cycle)
        if when is not None and not callable(when):
            raise HeadwayError(f"when is {shown(when)}: give a function that takes the session")
        if hart is not None:
            self._hart(hart)
        until = LATEST if cycle is None else cycle
        if when is not None:
            return self._until(None if place is None else self.address(place), until, when, hart)
        if place is None:
            return self._go(until)
        at = self.address(place)
        with self._also(at):
            while True:
                stop = self._go(until)
                elsewhere = hart is not None and stop.hart != hart and at not in self._breakpoints
                if stop.why != "breakpoint" or not elsewhere or self.pc(stop.hart or 0) != at:
                    return stop

    def _until(self, at: int | None, until: int, when: Callable[[DebugSession], object], hart: int | None) -> Stop:
        if when(self):
            return Stop("condition", self.now, hart)
        harts = range(self.harts) if hart is None else (self._hart(hart),)
        while True:
            with self._stepping(harts):
                stop = self._go(until)
            if stop.why not in ("step", "breakpoint", "watch"):
                return stop
            if when(self):
                return Stop("condition", stop.cycle, stop.hart)
            if stop.why != "step":
                return stop
            if at is not None and self.pc(stop.hart or 0) == at:
                return Stop("breakpoint", stop.cycle, stop.hart)

    def _go(self, until: int) -> Stop:
        stop = self._went(until)
        if stop.why in ("exit", "standstill"):
            self._at = Moved("end", self.now)
        elif stop.why == "cycle":
            self._at = Moved("tick", self.now)
        else:
            hart = stop.hart or 0
            self._at = Moved("turn", self.now, hart, self._processor.turns(hart))
        return stop

    def _went(self, until: int) -> Stop:
        if self.ended:
            return Stop("exit" if self._run.ended == "exit" else "standstill", self.now, None)
        if self._run.go(until, None):
            why, touched = self._processor.stopped_for()
            return Stop(why, self.now, self._processor.stopped_hart, touched if why == "watch" else None)
        if self._run.ended == "limit":
            return Stop("cycle", self.now, None)
        if self._run.ended == "standstill" and self._held:
            self._run.ended = "limit"  # it can go on, once a hart is released
            return Stop("standstill", self.now, None)
        return Stop("exit" if self._run.ended == "exit" else "standstill", self.now, None)

    # --- breakpoints ---

    @property
    def breakpoints(self) -> frozenset[int]:
        """The addresses before which every hart stops."""
        return frozenset(self._breakpoints)

    def break_at(self, place: Place) -> int:
        """Stop before the instruction at an address or a symbol, on every hart. Return the address."""
        at = self.address(place)
        self._breakpoints.add(at)
        self._processor.breakpoints(self._breakpoints)
        return at

    def clear(self, place: Place) -> None:
        """Stop there no longer."""
        self._breakpoints.discard(self.address(place))
        self._processor.breakpoints(self._breakpoints)

    def clear_all(self) -> None:
        """Stop at no breakpoint and for no watched memory any more."""
        self._breakpoints.clear()
        self._watches.clear()
        self._processor.breakpoints(())
        self._processor.watches(())

    @contextmanager
    def _also(self, at: int) -> Iterator[None]:
        self._processor.breakpoints(self._breakpoints | {at})
        try:
            yield
        finally:
            self._processor.breakpoints(self._breakpoints)

    def watch(self, place: Place, size: int = 4, *, loads: bool = False, stores: bool = True) -> None:
        """Stop after every access of that kind to so many bytes, by any hart. Raises HeadwayError if it cannot be."""
        at = self.address(place)
        _check_number("size", size)
        if size < 1 or at + size > 1 << 32 or not (loads or stores):
            raise HeadwayError(f"{size} bytes at {at:#x} cannot be watched: give bytes of memory, and loads or stores")
        wanted = [*self._watches, (at, size, loads, stores)]
        try:
            self._processor.watches(wanted)
        except ValueError as error:
            raise HeadwayError(str(error)) from None
        self._watches = wanted

    def unwatch(self, place: Place, size: int | None = None) -> None:
        """Watch what begins there no longer; ``size``: only what has that size."""
        at = self.address(place)
        self._watches = [w for w in self._watches if w[0] != at or (size is not None and w[1] != size)]
        self._processor.watches(self._watches)

    def heed_triggers(self, on: bool) -> None:
        """Stop, or do not, where trace units enter states with the action ``halt`` or ``stop``. At first it stops."""
        self._processor.debugger(on)

    @contextmanager
    def _stepping(self, harts: Collection[int], count: int = 1) -> Iterator[None]:
        for n in harts:
            self._processor.step_to(n, self._processor.turns(n) + count)
        try:
            yield
        finally:
            for n in harts:
                self._processor.step_to(n, 0)

    # --- harts ---

    def hold(self, hart: int) -> None:
        """Keep a hart from issuing while others run. Its time passes in the state ``stopped``, until `release`."""
        try:
            self._processor.hold(self._hart(hart))
            self._held.add(hart)
            self._did("hold", hart)
        except ValueError as error:
            raise HeadwayError(f"hart {hart} cannot be held: {error}") from None

    def release(self, hart: int) -> None:
        """Let a hart go on that is held."""
        self._processor.release(self._hart(hart))
        self._held.discard(hart)
        self._did("release", hart)

    def rearm(self, hart: int) -> None:
        """Let a hart that has stopped before an instruction stop before it once more."""
        self._processor.rearm(self._hart(hart))

    def halted(self, hart: int) -> bool:
        """Return whether a hart waits for an interrupt, or has not been started."""
        return self._processor.halted(self._hart(hart)) != 0

    def pc(self, hart: int = 0) -> int:
        """Return the address of a hart's next instruction."""
        return self._processor.special(self._hart(hart))[0]

    def registers(self, hart: int = 0) -> dict[str, int]:
        """Return a hart's registers by name: ``zero`` to ``t6``, ``pc``, and the CSRs of traps (``mstatus`` …)."""
        from ._processor import REGISTERS as SPECIAL

        number = self._hart(hart)
        found = {name: self._processor.register(number, n) for n, name in enumerate(REGISTERS)}
        return found | dict(zip(SPECIAL, self._processor.special(number), strict=True))

    def counters(self, hart: int = 0) -> Mapping[str, int]:
        """Return a hart's progress counters by name: ``epc``, ``mpci``, ``mpcx``, ``kpc``, ``iopc``, ``rpc`` …"""
        return self._processor.hart(self._hart(hart))

    def doing(self, hart: int = 0) -> str:
        """Return the name of the thread that a hart runs and its state, as ``worker, kernel.sleep``."""
        number = self._hart(hart)
        for thread, name, _, end, is_hart, runs_on, state, _ in self._processor.seen():
            if runs_on == number and end < 0:
                shown = self._run.names.get(state, str(state))
                return shown if is_hart else f"{thread_name(thread, name, is_hart)}, {shown}"
        return "not started" if self._processor.halted(number) < 0 else ""

    @property
    def exit_status(self) -> int | None:
        """The program's exit status; None: it has not ended."""
        return self._run.exit_status

    def set_register(self, hart: int, name: str, value: int) -> None:
        """Set a register: ``a0``, ``x10``, ``pc``. Raises HeadwayError for another name."""
        _check_number("value", value, -(1 << 31), (1 << 32) - 1)
        if name == "pc":
            self._processor.set_pc(self._hart(hart), value & 0xFFFF_FFFF)
        elif isinstance(name, str) and name in _NUMBERS:
            self._processor.set_register(self._hart(hart), _NUMBERS[name], value & 0xFFFF_FFFF)
        else:
            raise HeadwayError(f"{shown(name)} cannot be set: give pc, x1 to x31, or a name of the ABI, such as a0")
        self._did("set_register", hart, name, value & 0xFFFF_FFFF)

    def where(self, hart: int = 0) -> str:
        """Return where a hart is: ``function+offset``, or the address."""
        return self.name(self.pc(hart))

    def _hart(self, hart: int) -> int:
        if isinstance(hart, bool) or not isinstance(hart, int) or not 0 <= hart < self.harts:
            raise HeadwayError(f"there is no hart {shown(hart)}: they are 0 to {self.harts - 1}")
        return hart

    # --- memory and names ---

    def read(self, place: Place, size: int) -> bytes:
        """Return memory. Raises HeadwayError if it is not in RAM, or in core 0's tightly coupled memory."""
        at = self.address(place)
        _check_number("size", size, 0, 1 << 32)
        try:
            return self._processor.read(at, size)
        except ValueError as error:
            raise HeadwayError(str(error)) from None

    def write(self, place: Place, data: bytes) -> None:
        """Write memory. Raises HeadwayError as `read` does."""
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise HeadwayError(f"data is {shown(data)}: give bytes")
        at = self.address(place)
        try:
            self._processor.write(at, bytes(data))
        except ValueError as error:
            raise HeadwayError(str(error)) from None
        self._did("write", at, data=bytes(data))

    def address(self, place: Place) -> int:
        """Return the address of a place. Raises HeadwayError if the program has no such name."""
        if isinstance(place, int) and not isinstance(place, bool):
            if not 0 <= place < 1 << 32:
                raise HeadwayError(f"{shown(place)} is no address of 32 bits")
            return place
        if not isinstance(place, str):
            raise HeadwayError(f"{shown(place)} is no place: give an address, or the name of a function or a variable")
        name, plus, offset = place.partition("+")
        if name not in self._places:
            raise HeadwayError(f"{self._run.image.name} has no function or variable {shown(name)}")
        try:
            found = self._places[name] + (int(offset, 0) if plus else 0)
        except ValueError:
            raise HeadwayError(f"{shown(place)}: {shown(offset)} is no number") from None
        if not 0 <= found < 1 << 32:
            raise HeadwayError(f"{shown(place)} is no address of 32 bits")
        return found

    @property
    def names(self) -> frozenset[str]:
        """The names of the program's functions and variables."""
        return frozenset(self._places)

    def name(self, address: int) -> str:
        """Return ``function+offset`` for an address, or the address itself where no function is."""
        _check_number("address", address, 0, (1 << 32) - 1)
        at = bisect_right(self._starts, address) - 1
        if at < 0 or address >= self._functions[at][1]:
            return f"{address:#010x}"
        start, _, name = self._functions[at]
        return name if address == start else f"{name}+{address - start:#x}"

    # --- devices ---

    def attach(self, device: Device, address: int, *, size: int = 4096, line: int = 0) -> None:
        """Attach a device: its registers at ``address``, and its line of the PLIC, from 4 to 31 (0: none)."""
        for name, value in (("address", address), ("size", size), ("line", line)):
            _check_number(name, value)
        self._devices.attach(device, address, size, line)

    @property
    def devices(self) -> Mapping[int, Device]:
        """The attached devices by their addresses."""
        return self._devices.by_address()

    # --- each cycle ---

    def log(self, on: bool) -> None:
        """Log what every hart does in each of its cycles, from now on; or end the log, and forget it."""
        self._processor.log(on)

    def logged(self) -> list[tuple[int, int, int, int, int]]:
        """Return the log: (hart, cycle of its core, cycles, address, code of headway-trace/docs/trace-format.md)."""
        return self._processor.logged()

    def core_cycle(self, core: int) -> int:
        """Return the cycle that a core's clock has reached."""
        _check_number("core", core, 0, self.harts // self.threads - 1)
        return self._processor.core_cycle(core)

    def idle_state(self, hart: int) -> str:
        """Return the state of a hart that issues nothing for an unknown time; empty if it does not idle."""
        halted = self._processor.halted(self._hart(hart))
        if hart in self._held:
            return "stopped"
        return "idle.reset" if halted < 0 else f"idle.c{halted}" if halted else ""

    # --- the trace ---

    def recent(self, hart: int = 0, count: int = 20) -> list[TracedRow]:
        """Return what a hart did last, ``count`` rows of the trace at most, the latest last.

        Nothing changes by it. Raises HeadwayError without a trace unit, and for a trace of E-Trace.
        """
        _check_number("count", count, 0, 1 << 20)
        return self._run.recent(self._hart(hart), count)

    def end_trace_for_now(self) -> bool:
        """Complete the trace's file as if the run ended now, so that it can be read. What runs next takes that back.

        Return False if there is no trace, or if it goes to a stream that cannot go back.
        """
        return self._run.end_trace_for_now()

    def end_trace(self) -> None:
        """Complete the trace's file. Nothing may run afterwards."""
        self._run.end_trace()

    # --- the past ---

    def save(self) -> SavedSession:
        """Return the session as it is now, for `restore`: memory, harts, caches, time, devices. Output is not."""
        state = self._run.save()
        return SavedSession(state, self._devices.save(), frozenset(self._held), tuple(self._deeds), self._at)

    def restore(self, saved: SavedSession) -> None:
        """Go back to a saved moment, from which everything goes on as before, to the cycle. Breakpoints stay."""
        self._check_untraced()
        if not isinstance(saved, SavedSession):
            raise HeadwayError(
                f"{shown(saved)} is no saved moment: give what save() returned; restore_from() reads files"
            )
        try:
            self._run.restore(saved.run)
        except ValueError as error:
            raise HeadwayError(f"the moment cannot be restored here: {error}") from None
        self._held = set(saved.held)
        self._deeds, self._at = list(saved.deeds), saved.at
        self._devices.restore(saved.devices)  # type: ignore[arg-type]
        self._processor.breakpoints(self._breakpoints)
        self._processor.watches(self._watches)

    def save_to(self, path: str | os.PathLike[str]) -> None:
        """Write the session as it is now to a file, for `restore_from` in another process.

        The file has no memory in it, but what was done to the program since reset, what it read, and the digest of
        everything. Raises HeadwayError if the session has devices in Python, or if the file cannot be written.
        """
        _check_path(path)
        self._check_without_devices()
        write_moment(
            path,
            Moment(
                config=self._config_hash(),
                program=self._program_hash(),
                arguments=self._run.arguments,
                deeds=self._deeds,
                heard=self._run.heard,
                at=self._at,
                digest=self._run.result().digest,
            ),
        )

    def restore_from(self, path: str | os.PathLike[str]) -> None:
        """Go to the moment of a file, from which everything goes on as before, to the cycle. Breakpoints stay.

        The program runs there again from reset, which takes the time that this takes; it reads from the file what it
        read before, and writes nothing to streams. Then all must be as it was when the file was written. Raises
        HeadwayError, with the session as it was, if the file is none, is of another program, configuration or version,
        or does not lead there.
        """
        _check_path(path)
        self._check_untraced()
        self._check_without_devices()
        moment, name = read_moment(path), shown(os.fspath(path))
        for what, here, there in (
            ("configuration", self._config_hash(), moment.config),
            ("program", self._program_hash(), moment.program),
            ("command line", list(self._run.arguments), list(moment.arguments)),
        ):
            if here != there:
                raise HeadwayError(f"{name} is of another {what}: debug that with which it was saved")
        if self._fresh is None:
            raise HeadwayError("this session is of a run that goes on already: restore in one of Machine.debug()")
        before = self.save()
        self._processor.breakpoints(())
        self._processor.watches(())
        self._processor.debugger(False)
        try:
            with self._run.again(self._fresh(), moment.heard):
                self._held, self._deeds, self._at = set(), [], Moved("tick", 0)
                for deed in moment.deeds:
                    self._move(deed.at)
                    self._do(deed)
                self._move(moment.at)
            if self._run.result().digest != moment.digest:
                raise HeadwayError("it ends elsewhere")
        except (HeadwayError, IndexError, OverflowError) as error:
            self.restore(before)
            raise HeadwayError(
                f"{name} does not lead to the moment at which it was saved ({error}): it was changed, or is of another "
                "version of headway"
            ) from None
        finally:
            self._processor.debugger(True)
        self._processor.breakpoints(self._breakpoints)
        self._processor.watches(self._watches)

    def _move(self, to: Moved) -> None:
        """Run to a place at which the session once was. Raises HeadwayError if there is no such place."""
        if to == self._at:
            return
        if to.cycle < self.now or self.ended:
            raise HeadwayError(f"cycle {to.cycle} is over")
        processor = self._processor
        if to.sort == "tick":
            self._go(to.cycle)
        elif to.sort == "end":
            self._run.go(LATEST, lambda now, _: now > to.cycle)
            if self._run.ended == "standstill" and self._held:
                self._run.ended = "limit"
            self._at = Moved("end", self.now)
        else:
            hart = self._hart(to.hart)
            self._go(max(to.cycle - 1, self.now))
            if to.turn:
                processor.step_to(hart, to.turn)
            else:
                processor.breakpoints((self._run.image.entry,))
            processor.rearm(hart)
            try:
                while self._at != to and not self.ended and self.now <= to.cycle:
                    if self._go(to.cycle + 1).why in ("cycle", "standstill"):
                        break
            finally:
                processor.step_to(hart, 0)
                processor.breakpoints(())
        if self._at != to:
            raise HeadwayError(f"nothing stops at cycle {to.cycle}")

    def _do(self, deed: Deed) -> None:
        if deed.what == "write":
            self.write(deed.hart, deed.data)
        elif deed.what == "set_register":
            self.set_register(deed.hart, deed.register, deed.value)
        elif deed.what == "hold":
            self.hold(deed.hart)
        else:
            self.release(deed.hart)

    def _did(self, what: str, hart: int, register: str = "", value: int = 0, data: bytes = b"") -> None:
        self._deeds.append(Deed(self._at, what, hart, register, value, data))

    def _check_untraced(self) -> None:
        if self._run.traced:
            raise HeadwayError("a session with a trace cannot go back: what it has written tells what happened")

    def _check_without_devices(self) -> None:
        if self._devices.by_address():
            raise HeadwayError(
                "a session with devices in Python has no moments in files, because only the devices know what they do: "
                "use save() and restore()"
            )

    def _config_hash(self) -> str:
        return hashlib.sha256(self._run.config.to_toml().encode()).hexdigest()

    def _program_hash(self) -> str:
        return digest_of((segment.address, segment.data) for segment in self._run.image.segments)

    def result(self) -> Result:
        """Return the result so far, as `Machine.run` does at the end."""
        return self._run.result()


def _check_number(name: str, value: object, least: int = 0, most: int = LATEST) -> None:
    """Raise HeadwayError if an argument is no whole number between these."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise HeadwayError(f"{name} is {shown(value)}: give a whole number from {least} to {most}")


def _check_path(path: object) -> None:
    if not isinstance(path, (str, os.PathLike)):
        raise HeadwayError(f"{shown(path)} is no path of a file")
