from __future__ import annotations

import io
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.errors import HeadwayError
from headway_machine.console import Console
from headway_machine.host import TICKS_PER_SECOND, Host

BASE, SIZE = 0x8000_0000, 4096
OPEN, CLOSE, WRITEC, WRITE0, WRITE, READ, READC, ISERROR, ISTTY = 1, 2, 3, 4, 5, 6, 7, 8, 9
FLEN, CLOCK, TIME, ERRNO, GET_CMDLINE, HEAPINFO, EXIT, EXIT_EXTENDED = 0x0C, 0x10, 0x11, 0x13, 0x15, 0x16, 0x18, 0x20
ELAPSED, TICKFREQ, SEEK = 0x30, 0x31, 0x0A
FAILED = 0xFFFF_FFFF
BLOCK, TEXT, TOHOST, FROMHOST = BASE + 0x100, BASE + 0x200, BASE, BASE + 8


class Memory:
    """RAM and nothing else."""

    def __init__(self) -> None:
        self.ram = bytearray(SIZE)

    def _at(self, address: int, size: int) -> int:
        if not BASE <= address <= address + size <= BASE + SIZE:
            raise ValueError(address)
        return address - BASE

    def read(self, address: int, size: int) -> bytes:
        at = self._at(address, size)
        return bytes(self.ram[at : at + size])

    def write(self, address: int, data: bytes) -> None:
        at = self._at(address, len(data))
        self.ram[at : at + len(data)] = data


class Guest:
    """A program that only calls its host."""

    def __init__(self, typed: bytes = b"", arguments: tuple[str, ...] = ("prog.elf", "-x", "1")) -> None:
        self.memory, self.out, self.err = Memory(), io.BytesIO(), io.BytesIO()
        console = Console(io.BytesIO(typed), self.out, self.err)
        self.host = Host(self.memory, console, arguments=arguments, free=BASE + 0x801, top=BASE + SIZE)
        self.now = 0

    def call(self, operation: int, *words: int) -> int:
        self.memory.write(BLOCK, struct.pack(f"<{len(words)}I", *words))
        return self.host.semihost(operation, BLOCK, self.now)

    def open(self, mode: int, name: bytes = b":tt") -> int:
        self.memory.write(TEXT, name)
        return self.call(OPEN, TEXT, mode, len(name))

    def htif(self, *words: int) -> int:
        self.memory.write(BLOCK, struct.pack(f"<{len(words)}Q", *words))
        self.memory.write(TOHOST, struct.pack("<Q", BLOCK))
        self.host.htif(TOHOST, FROMHOST)
        (result,) = struct.unpack("<q", self.memory.read(BLOCK, 8))
        return int(result)


# --- semihosting ---


def test_what_is_written_comes_out_where_it_belongs() -> None:
    guest = Guest()
    output, errors = guest.open(4), guest.open(8)
    guest.memory.write(TEXT, b"hello\0more")
    assert guest.call(WRITE, output, TEXT, 5) == 0
    assert guest.call(WRITE, errors, TEXT + 6, 4) == 0
    assert guest.host.semihost(WRITE0, TEXT, 0) == 0
    guest.host.semihost(WRITEC, TEXT + 1, 0)
    assert guest.out.getvalue() == b"hellohelloe"
    assert guest.err.getvalue() == b"more"


def test_what_is_read_comes_from_the_input_until_its_end() -> None:
    guest = Guest(b"abcdef")
    handle = guest.open(0)
    assert guest.call(READ, handle, TEXT, 4) == 0
    assert guest.memory.read(TEXT, 4) == b"abcd"
    assert guest.host.semihost(READC, 0, 0) == ord("e")
    assert guest.call(READ, handle, TEXT, 4) == 3
    assert guest.memory.read(TEXT, 1) == b"f"
    assert guest.call(READ, handle, TEXT, 4) == 4
    assert guest.host.semihost(READC, 0, 0) == FAILED


def test_a_program_can_open_only_the_console() -> None:
    guest = Guest()
    assert guest.open(0, b"/etc/passwd") == FAILED
    assert guest.call(ERRNO) == 2
    assert guest.open(12) == FAILED
    assert guest.call(ERRNO) == 22


def test_what_the_host_can_do_beyond_the_first_version_is_in_a_file() -> None:
    guest = Guest()
    assert guest.open(4, b":semihosting-features") == FAILED
    handle = guest.open(0, b":semihosting-features")
    assert guest.call(FLEN, handle) == 5
    assert guest.call(READ, handle, TEXT, 4) == 0
    assert guest.memory.read(TEXT, 4) == b"SHFB"
    assert guest.call(READ, handle, TEXT, 4) == 3
    assert guest.memory.read(TEXT, 1) == b"\x03"
    assert guest.call(SEEK, handle, 0) == 0
    assert guest.call(READ, handle, TEXT, 5) == 0
    assert guest.call(SEEK, handle, 6) == FAILED
    assert guest.call(SEEK, guest.open(0), 0) == FAILED
    assert guest.call(ISTTY, handle) == 0


def test_a_handle_is_one_only_while_it_is_open() -> None:
    guest = Guest()
    handle = guest.open(4)
    assert guest.call(ISTTY, handle) == 1
    assert guest.call(FLEN, handle) == 0
    assert guest.call(CLOSE, handle) == 0
    assert guest.call(CLOSE, handle) == FAILED
    assert guest.call(ERRNO) == 9
    assert guest.call(WRITE, handle, TEXT, 5) == 5
    assert guest.call(READ, 7, TEXT, 5) == 5
    assert guest.call(ISTTY, handle) == FAILED
    assert guest.call(FLEN, 99) == FAILED


def test_time_is_the_machines() -> None:
    guest = Guest()
    guest.now = 7 * TICKS_PER_SECOND + TICKS_PER_SECOND // 2
    assert guest.call(CLOCK) == 750
    assert guest.call(TIME) == 7
    assert guest.call(TICKFREQ) == TICKS_PER_SECOND
    assert guest.call(ELAPSED, 0, 0) == 0
    assert struct.unpack("<Q", guest.memory.read(BLOCK, 8)) == (guest.now,)


def test_the_command_line_is_given_if_there_is_room() -> None:
    guest = Guest()
    assert guest.call(GET_CMDLINE, TEXT, 13) == FAILED
    assert guest.call(GET_CMDLINE, TEXT, 14) == 0
    assert struct.unpack("<2I", guest.memory.read(BLOCK, 8)) == (TEXT, 13)
    assert guest.memory.read(TEXT, 15) == b"prog.elf -x 1\0\0"


def test_the_heap_is_what_is_free_above_the_program() -> None:
    guest = Guest()
    assert guest.call(HEAPINFO, TEXT) == 0
    found = struct.unpack("<4I", guest.memory.read(TEXT, 16))
    assert found == (BASE + 0x810, BASE + SIZE, BASE + SIZE, BASE + 0x810)


@pytest.mark.parametrize(("status", "negative"), [(0, 0), (1, 0), (0x7FFF_FFFF, 0), (0x8000_0000, 1), (FAILED, 1)])
def test_a_status_is_an_error_if_it_is_negative(status: int, negative: int) -> None:
    assert Guest().call(ISERROR, status) == negative


@pytest.mark.parametrize(("reason", "status"), [(0x20026, 0), (0x20023, 1), (7, 1)])
def test_exit_has_the_reason_for_a_status(reason: int, status: int) -> None:
    guest = Guest()
    guest.host.semihost(EXIT, reason, 0)
    assert guest.host.exit_status == status


@pytest.mark.parametrize(("reason", "given_status", "status"), [(0x20026, 0, 0), (0x20026, 42, 42), (7, 0, 1)])
def test_extended_exit_has_a_status(reason: int, given_status: int, status: int) -> None:
    guest = Guest()
    guest.call(EXIT_EXTENDED, reason, given_status)
    assert guest.host.exit_status == status


@pytest.mark.parametrize("operation", [0, 0x0B, 0x0D, 0x0E, 0x0F, 0x12, 0x19, 0x32, 0x101, FAILED])
def test_other_operations_are_not_there(operation: int) -> None:
    guest = Guest()
    assert guest.call(operation, 1, 2, 3) == FAILED
    assert guest.call(ERRNO) == 88
    assert guest.host.exit_status is None


word = st.sampled_from([0, 1, 2, 3, 4, BLOCK, TEXT, BASE + SIZE - 1, BASE + SIZE - 4, BASE - 1, 0xFFFF_FFFF, 0x20026])
words = word | st.integers(0, FAILED)


@given(
    st.binary(max_size=64),
    st.lists(st.tuples(st.integers(0, 0x40) | words, words, st.lists(words, max_size=4)), max_size=12),
)
def test_whatever_a_program_asks_its_answer_has_32_bits(ram: bytes, calls: list[tuple[int, int, list[int]]]) -> None:
    guest = Guest(b"typed")
    guest.memory.write(BASE, ram)
    for operation, parameter, block in calls:
        guest.memory.write(BLOCK, struct.pack(f"<{len(block)}I", *block))
        assert 0 <= guest.host.semihost(operation, parameter, 5) <= FAILED
    assert len(guest.memory.ram) == SIZE
    assert len(guest.out.getvalue()) <= 12 * SIZE


# --- HTIF ---


@pytest.mark.parametrize(("value", "status"), [(1, 0), (3, 1), (85, 42), (0x1_0000_0001, 0x8000_0000)])
def test_an_odd_value_ends_the_program(value: int, status: int) -> None:
    guest = Guest()
    guest.memory.write(TOHOST, struct.pack("<Q", value))
    guest.host.htif(TOHOST, None)
    assert guest.host.exit_status == status


def test_half_of_a_store_is_no_call() -> None:
    guest = Guest()
    guest.host.htif(TOHOST, FROMHOST)
    assert guest.host.exit_status is None
    assert guest.memory.read(FROMHOST, 8) == bytes(8)


def test_a_write_is_done_and_answered() -> None:
    guest = Guest()
    guest.memory.write(TEXT, b"hello")
    assert guest.htif(64, 1, TEXT, 5, 0, 0, 0, 0) == 5
    assert guest.htif(64, 2, TEXT, 4, 0, 0, 0, 0) == 4
    assert (guest.out.getvalue(), guest.err.getvalue()) == (b"hello", b"hell")
    assert guest.memory.read(TOHOST, 16) == struct.pack("<2Q", 0, 1)


@pytest.mark.parametrize(("address", "size"), [(0, 1), (BASE + SIZE - 2, 3), (2**63, 4), (TEXT, 2**63), (2**64 - 1, 1)])
def test_a_write_from_where_no_memory_is_writes_nothing(address: int, size: int) -> None:
    guest = Guest()
    assert guest.htif(64, 1, address, size, 0, 0, 0, 0) == -14
    assert guest.out.getvalue() == b""


@pytest.mark.parametrize("call", [(63, 0, TEXT, 4), (64, 3, TEXT, 4), (2**63, 1, 0, 0)])
def test_other_calls_are_one_sentence(call: tuple[int, ...]) -> None:
    with pytest.raises(HeadwayError, match="the program made the HTIF call"):
        Guest().htif(*call, 0, 0, 0, 0)


@pytest.mark.parametrize("value", [0x48, BASE + SIZE - 8, 1 << 63, 0x0101_0000_0000_0048])
def test_a_call_from_nowhere_is_one_sentence(value: int) -> None:
    guest = Guest()
    guest.memory.write(TOHOST, struct.pack("<Q", value))
    with pytest.raises(HeadwayError, match="neither an exit"):
        guest.host.htif(TOHOST, FROMHOST)


# --- console ---


def test_without_streams_output_is_kept_and_there_is_no_input() -> None:
    console = Console()
    console.write(b"a")
    console.write(b"b", error=True)
    assert console.written == b"ab"
    assert console.read(4) == b""
    assert console.keeps


def test_what_is_kept_has_a_limit() -> None:
    console = Console()
    console.write(bytes(64 << 20))
    with pytest.raises(HeadwayError, match="more than 64 MiB"):
        console.write(b"x")


def test_an_output_that_is_full_is_one_sentence() -> None:
    with open("/dev/full", "wb", buffering=0) as full, pytest.raises(HeadwayError, match="No space left"):
        Console(output=full).write(b"x")
