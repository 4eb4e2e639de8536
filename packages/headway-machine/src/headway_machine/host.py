"""The services of the host to a program: HTIF calls through ``tohost``, and semihosting operations.

Every address from a program is untrusted. Only `HostMemory` reads and writes it, and refuses an address outside.
Time is the machine's and never the host's, so that two runs are the same.

Sources: riscv-isa-sim, fesvr/htif.cc and syscall.cc; "Semihosting for AArch32 and AArch64", Arm, version 2.0, with the
numbers and the 32-bit blocks that "RISC-V Semihosting" 1.0 takes from there.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from headway.errors import HeadwayError

from .config import RAM
from .console import Console

__all__ = ["TICKS_PER_SECOND", "Host", "HostMemory"]

TICKS_PER_SECOND = 100_000_000
"""The clock rate that programs are told when they ask for time in seconds."""

_CALL_WRITE = 64
_CHUNK = 1 << 16
_FAILED = 0xFFFF_FFFF
_EFAULT, _EBADF, _ENOENT, _EINVAL, _ENOSYS = 14, 9, 2, 22, 88  # newlib's errno.h
_APPLICATION_EXIT = 0x20026
_INPUT, _OUTPUT, _ERRORS, _FEATURES = 1, 2, 3, 4
_FEATURE_FILE = b"SHFB\x03"
""":semihosting-features: SYS_EXIT_EXTENDED exists, and standard error is separate from standard output."""
_LONGEST_NAME = 256


class HostMemory(Protocol):
    """The machine's memory. Both methods raise ValueError for an address outside it."""

    def read(self, address: int, size: int) -> bytes:
        """Return ``size`` bytes from ``address`` on."""
        ...

    def write(self, address: int, data: bytes) -> None:
        """Write the bytes at ``address``."""
        ...


class _Guarded:
    """A memory that accepts addresses of any size. An address of more than 32 bits is outside."""

    def __init__(self, memory: HostMemory) -> None:
        self._memory = memory

    def read(self, address: int, size: int) -> bytes:
        if address + size > 1 << 32:
            raise ValueError(address)
        return self._memory.read(address, size) if size else b""

    def write(self, address: int, data: bytes) -> None:
        if address + len(data) > 1 << 32:
            raise ValueError(address)
        self._memory.write(address, data)


class Host:
    """The host of one run. ``free`` is the first address after the program, ``top`` the first after the RAM."""

    def __init__(
        self, memory: HostMemory, console: Console, *, arguments: Sequence[str] = (), free: int = RAM, top: int = RAM
    ) -> None:
        self._memory, self._console = _Guarded(memory), console
        self._command = " ".join(arguments).encode("utf-8", "surrogateescape")
        self._free, self._top = free, top
        self._errno = 0
        self._open = {_INPUT: False, _OUTPUT: False, _ERRORS: False, _FEATURES: False}
        self._position = 0
        self.exit_status: int | None = None
        """The program's exit status, from 0 to 2^32 - 1, once it has ended."""

    def state(self) -> tuple[object, ...]:
        """Return what the host remembers, for `set_state`. Its console is not a part of it."""
        return (self._errno, dict(self._open), self._position, self.exit_status)

    def set_state(self, state: tuple[Any, ...]) -> None:
        """Remember what the host remembered when `state` was called."""
        self._errno, opened, self._position, self.exit_status = state
        self._open = dict(opened)

    # --- HTIF ---

    def htif(self, tohost: int, fromhost: int | None) -> None:
        """Serve the request that the program wrote to its ``tohost``.

        Raises HeadwayError if the request makes no sense, because HTIF has no way to report an error to the program.
        """
        (value,) = struct.unpack("<Q", self._memory.read(tohost, 8))
        if value & 1:
            self.exit_status = (value >> 1) & 0xFFFF_FFFF
            return
        if not value:  # the other half of a 64-bit store
            return
        self._memory.write(tohost, bytes(8))
        try:
            call, fd, address, size = struct.unpack("<4Q", self._memory.read(value, 64)[:32])
        except ValueError:
            raise HeadwayError(
                f"the program wrote {value:#x} to tohost, which is neither an exit (odd) nor the address of a call"
            ) from None
        if call != _CALL_WRITE or fd not in (1, 2):
            raise HeadwayError(
                f"the program made the HTIF call {call} of {fd}: only {_CALL_WRITE} (write) to 1 and 2 is there"
            )
        result = size if self._write(address, size, error=fd == 2) else -_EFAULT
        self._memory.write(value, struct.pack("<q", result))
        if fromhost is not None:
            self._memory.write(fromhost, struct.pack("<Q", 1))

    # --- semihosting ---

    def semihost(self, operation: int, parameter: int, now: int) -> int:
        """Do a semihosting operation at tick ``now``; return what its caller finds in ``a0``, from 0 to 2^32 - 1."""
        serve = _OPERATIONS.get(operation)
        if serve is None:
            return self._fail(_ENOSYS)
        try:
            return serve(self, parameter, now) & 0xFFFF_FFFF
        except ValueError:  # an address outside the memory
            return self._fail(_EFAULT)

    def _fail(self, errno: int) -> int:
        self._errno = errno
        return _FAILED

    def _words(self, address: int, count: int) -> tuple[int, ...]:
        return struct.unpack(f"<{count}I", self._memory.read(address, 4 * count))

    def _write(self, address: int, size: int, *, error: bool) -> bool:
        """Write memory to the console in pieces. Return False, with nothing written, if a part of it is no memory."""
        try:
            for at in range(address, address + min(size, 1 << 32), _CHUNK):
                self._memory.read(at, min(_CHUNK, address + size - at))
        except ValueError:
            return False
        for at in range(address, address + size, _CHUNK):
            self._console.write(self._memory.read(at, min(_CHUNK, address + size - at)), error=error)
        return True

    def _sys_open(self, parameter: int, now: int) -> int:
        name, mode, length = self._words(parameter, 3)
        text = self._memory.read(name, min(length, _LONGEST_NAME))
        if text not in (b":tt", b":semihosting-features"):
            return self._fail(_ENOENT)
        if mode > 11 or (mode > 1 and text != b":tt"):
            return self._fail(_EINVAL)
        handle = (_INPUT, _OUTPUT, _ERRORS)[mode // 4] if text == b":tt" else _FEATURES
        self._position = 0
        self._open[handle] = True
        return handle

    def _sys_close(self, parameter: int, now: int) -> int:
        (handle,) = self._words(parameter, 1)
        if not self._open.get(handle):
            return self._fail(_EBADF)
        self._open[handle] = False
        return 0

    def _sys_writec(self, parameter: int, now: int) -> int:
        self._console.write(self._memory.read(parameter, 1))
        return 0

    def _sys_write0(self, parameter: int, now: int) -> int:
        at = parameter
        while True:
            size = 256 - at % 256  # the memory ends at a multiple of 256
            text, end, _ = self._memory.read(at, size).partition(b"\0")
            self._console.write(text)
            if end:
                return 0
            at += size

    def _sys_write(self, parameter: int, now: int) -> int:
        handle, address, size = self._words(parameter, 3)
        if handle not in (_OUTPUT, _ERRORS) or not self._open[handle]:
            self._errno = _EBADF
            return size
        if not self._write(address, size, error=handle == _ERRORS):
            self._errno = _EFAULT
            return size
        return 0

    def _sys_read(self, parameter: int, now: int) -> int:
        handle, address, size = self._words(parameter, 3)
        if handle not in (_INPUT, _FEATURES) or not self._open[handle]:
            self._errno = _EBADF
            return size
        if handle == _INPUT:
            found = self._console.read(min(size, _CHUNK))
        else:
            found = _FEATURE_FILE[self._position :][:size]
            self._position += len(found)
        if found:
            self._memory.write(address, found)
        return size - len(found)

    def _sys_readc(self, parameter: int, now: int) -> int:
        found = self._console.read(1)
        return found[0] if found else _FAILED

    def _sys_iserror(self, parameter: int, now: int) -> int:
        (status,) = self._words(parameter, 1)
        return int(status >= 1 << 31)

    def _sys_istty(self, parameter: int, now: int) -> int:
        (handle,) = self._words(parameter, 1)
        return int(handle != _FEATURES) if self._open.get(handle) else self._fail(_EBADF)

    def _sys_seek(self, parameter: int, now: int) -> int:
        handle, position = self._words(parameter, 2)
        if handle != _FEATURES or not self._open[handle]:
            return self._fail(_EBADF)
        if position > len(_FEATURE_FILE):
            return self._fail(_EINVAL)
        self._position = position
        return 0

    def _sys_flen(self, parameter: int, now: int) -> int:
        (handle,) = self._words(parameter, 1)
        if not self._open.get(handle):
            return self._fail(_EBADF)
        return len(_FEATURE_FILE) if handle == _FEATURES else 0

    def _sys_clock(self, parameter: int, now: int) -> int:
        return now * 100 // TICKS_PER_SECOND

    def _sys_time(self, parameter: int, now: int) -> int:
        return now // TICKS_PER_SECOND

    def _sys_elapsed(self, parameter: int, now: int) -> int:
        self._memory.write(parameter, struct.pack("<Q", now))
        return 0

    def _sys_tickfreq(self, parameter: int, now: int) -> int:
        return TICKS_PER_SECOND

    def _sys_errno(self, parameter: int, now: int) -> int:
        return self._errno

    def _sys_get_cmdline(self, parameter: int, now: int) -> int:
        address, room = self._words(parameter, 2)
        if len(self._command) + 1 > room:
            return self._fail(_EINVAL)
        self._memory.write(address, self._command + b"\0")
        self._memory.write(parameter, struct.pack("<2I", address, len(self._command)))
        return 0

    def _sys_heapinfo(self, parameter: int, now: int) -> int:
        (block,) = self._words(parameter, 1)
        base = (self._free + 15) // 16 * 16
        self._memory.write(block, struct.pack("<4I", base, self._top & 0xFFFF_FFFF, self._top & 0xFFFF_FFFF, base))
        return 0

    def _sys_exit(self, parameter: int, now: int) -> int:
        # With 32 bits the parameter is the reason itself. There is no status, so any other reason counts as failure.
        self.exit_status = int(parameter != _APPLICATION_EXIT)
        return 0

    def _sys_exit_extended(self, parameter: int, now: int) -> int:
        reason, status = self._words(parameter, 2)
        self.exit_status = status if reason == _APPLICATION_EXIT else 1
        return 0


_OPERATIONS: dict[int, Callable[[Host, int, int], int]] = {
    0x01: Host._sys_open,
    0x02: Host._sys_close,
    0x03: Host._sys_writec,
    0x04: Host._sys_write0,
    0x05: Host._sys_write,
    0x06: Host._sys_read,
    0x07: Host._sys_readc,
    0x08: Host._sys_iserror,
    0x09: Host._sys_istty,
    0x0A: Host._sys_seek,
    0x0C: Host._sys_flen,
    0x10: Host._sys_clock,
    0x11: Host._sys_time,
    0x13: Host._sys_errno,
    0x15: Host._sys_get_cmdline,
    0x16: Host._sys_heapinfo,
    0x18: Host._sys_exit,
    0x20: Host._sys_exit_extended,
    0x30: Host._sys_elapsed,
    0x31: Host._sys_tickfreq,
}
