"""Devices in Python: registers at addresses of your own, interrupts, and work at a tick."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headway.errors import HeadwayError

if TYPE_CHECKING:
    from ._processor import MachineProcessor

__all__ = ["Device", "Devices"]

FIRST, LAST = 0x1100_0000, 0x7FFF_FFFF
"""Addresses that are of no memory and no device of the machine."""


class Device:
    """A device with 32-bit registers. Inherit from it, and give it to `DebugSession.attach`.

    Whatever it remembers are attributes of its own; they are saved and restored with the machine.
    """

    _bus: Devices | None = None
    _line = 0

    def load(self, offset: int) -> int | None:
        """Return the register at this offset, from 0 to 2^32 - 1; None: there is none, which is a fault."""
        return None

    def store(self, offset: int, value: int) -> bool:
        """Write a register. Return whether there is one at this offset; if not, it is a fault."""
        return False

    def due(self) -> None:
        """Do what is to be done at the tick that was given to `call_at`."""

    @property
    def now(self) -> int:
        """Ticks since reset."""
        return self._attached().processor.now

    def interrupt(self, up: bool = True) -> None:
        """Hold the device's line of the PLIC up, or no longer. Raises HeadwayError if it has none."""
        if not self._line:
            raise HeadwayError("the device has no line to interrupt by: give attach() one, from 4 to 31")
        self._attached().processor.hold_line(self._line, up)

    def call_at(self, tick: int | None) -> None:
        """Have `due` called at this tick, or at once if it has passed; None: not at all."""
        self._attached().call_at(self, tick)

    def save(self) -> object:
        """Return what the device remembers."""
        return copy.deepcopy({name: value for name, value in vars(self).items() if name not in ("_bus", "_line")})

    def restore(self, saved: Any) -> None:
        """Remember what the device remembered when `save` was called."""
        for name in [name for name in vars(self) if name not in ("_bus", "_line")]:
            delattr(self, name)
        vars(self).update(copy.deepcopy(saved))

    def _attached(self) -> Devices:
        if self._bus is None:
            raise HeadwayError("the device is not attached to a machine: DebugSession.attach does that")
        return self._bus


class Devices:
    """All devices of a session, by their addresses."""

    def __init__(self, processor: MachineProcessor) -> None:
        self.processor = processor
        self._parts: list[tuple[int, int, Device]] = []
        self._calls: dict[int, int] = {}
        """The tick at which a device is called, by its place in the list."""

    def attach(self, device: Device, address: int, size: int, line: int) -> None:
        """Add a device. Raises HeadwayError if its addresses or its line are taken, or are none."""
        where = f"a device of {size:#x} bytes at {address:#x}"
        if not isinstance(device, Device):
            raise HeadwayError(f"{device!r} is no device: inherit from headway_machine.device.Device")
        if size <= 0 or size & 3 or address & 3 or not FIRST <= address <= address + size - 1 <= LAST:
            raise HeadwayError(f"{where}: give it whole words from {FIRST:#x} to {LAST:#x}")
        if any(address < start + length and start < address + size for start, length, _ in self._parts):
            raise HeadwayError(f"{where}: another device has these addresses")
        if line and not 4 <= line <= 31:
            raise HeadwayError(f"{where}: line {line} is not one of 4 to 31")
        if device._bus is not None:
            raise HeadwayError(f"{where} is attached already")
        try:
            self.processor.attach(address, size, self._access)
        except ValueError as error:
            raise HeadwayError(f"{where}: {error}") from None
        device._bus, device._line = self, line
        self._parts.append((address, size, device))

    def by_address(self) -> dict[int, Device]:
        """Return the devices by their first addresses."""
        return {start: device for start, _, device in self._parts}

    def call_at(self, device: Device, tick: int | None) -> None:
        """Call a device at a tick; None: not at all."""
        place = self._place(device)
        self._calls.pop(place, None)
        if tick is not None:
            self._calls[place] = tick
        self._ask()

    def save(self) -> tuple[Sequence[object], dict[int, int]]:
        """Return what all devices remember, and when they are to be called."""
        return [device.save() for _, _, device in self._parts], dict(self._calls)

    def restore(self, saved: tuple[Sequence[object], dict[int, int]]) -> None:
        """Go back to what `save` returned. Devices that were attached later are as they were then: not called."""
        states, calls = saved
        for (_, _, device), state in zip(self._parts, states, strict=False):
            device.restore(state)
        self._calls = dict(calls)

    def _place(self, device: Device) -> int:
        return next(place for place, part in enumerate(self._parts) if part[2] is device)

    def _ask(self) -> None:
        self.processor.call_at(min(self._calls.values(), default=None))

    def _access(self, what: int, address: int, value: int) -> int | None:
        """Serve the compiled processor: a load, a store, or the devices that are due."""
        from ._processor import DUE, LOAD

        if what == DUE:
            now = self.processor.now
            due = sorted(place for place, tick in self._calls.items() if tick <= now)
            for place in due:
                del self._calls[place]
            for place in due:
                self._parts[place][2].due()
            self._ask()
            return 0
        for start, size, device in self._parts:
            if 0 <= address - start < size:
                if what == LOAD:
                    return device.load(address - start)
                return 0 if device.store(address - start, value) else None
        return None
