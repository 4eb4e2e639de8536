"""Process contexts, and where the dynamic linker puts a thread-local variable: what is hostile is nothing."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.binary.elf import ThreadLocal, ThreadLocalKind, ThreadLocalSlot
from headway.linux.bpf.shared.layout import STATES
from headway.linux.contexts.access import MAX_NAMES, NAMING, ContextAccess, naming_keys, resolve
from headway.linux.contexts.process_context import ProcessContext, parse_process_context, read_process_context
from headway.linux.procfs.maps import Mapping

pytestmark = pytest.mark.unit

MACHINES = ("x86_64", "aarch64")


# ---- protobuf, written on its own ----


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out) + bytes([value])


def field(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data


def text(value: str) -> bytes:
    return field(1, value.encode())


def attribute(key: str, value: bytes) -> bytes:
    return field(2, text(key) + field(2, value))


def message(schema: str, keys: Sequence[str]) -> bytes:
    resource = field(1, field(1, text("service.name") + field(2, text("shop"))))
    array = field(5, b"".join(field(1, text(key)) for key in keys))
    return (
        resource
        + attribute("threadlocal.schema_version", text(schema))
        + attribute("something.else", varint(3 << 3) + varint(7))
        + attribute("threadlocal.attribute_key_map", array)
    )


WORDS = st.text(st.characters(codec="utf-8"), max_size=200)


@given(WORDS, st.lists(WORDS, max_size=256))
def test_what_a_process_says_is_read(schema: str, keys: list[str]) -> None:
    assert parse_process_context(message(schema, keys)) == ProcessContext(schema, tuple(keys))


@given(
    st.binary(max_size=300)
    | st.builds(lambda data, at: data[:at], st.just(message("tls_v1", NAMING)), st.integers(0, 300))
)
def test_any_bytes_are_a_context_or_none(data: bytes) -> None:
    found = parse_process_context(data)
    assert found is None or len(found.keys) <= 256


@given(st.data())
def test_a_changed_byte_is_no_error(data: st.DataObject) -> None:
    whole = bytearray(message("tls_v1", NAMING))
    whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    parse_process_context(bytes(whole))


def mapping(start: int, path: str = "/memfd:OTEL_CTX") -> Mapping:
    return Mapping(start, start + 4096, "rw-p", 0, 1, path, True)


def header(payload: bytes, *, published: int = 5, version: int = 2, address: int = 0x9000) -> bytes:
    return struct.pack("=8sIIQQ", b"OTEL_CTX", version, len(payload), published, address)


def test_the_context_is_found_by_the_name_of_its_mapping() -> None:
    payload = message("tls_v1", ["a"])
    memory = {0x5000: header(payload), 0x9000: payload}

    def read(address: int, size: int) -> bytes:
        return memory.get(address, b"")[:size]

    for path in ("/memfd:OTEL_CTX", "[anon_shmem:OTEL_CTX]", "[anon:OTEL_CTX]"):
        assert read_process_context([mapping(0x5000, path)], read) == ProcessContext("tls_v1", ("a",))
    assert read_process_context([mapping(0x5000, "/memfd:other")], read) is None
    assert read_process_context([mapping(0x6000)], read) is None


@pytest.mark.parametrize("change", [{"published": 0}, {"version": 3}, {"address": 1 << 63}, {"address": 0x8000}])
def test_a_context_that_is_not_ready_or_not_readable_is_none(change: dict[str, int]) -> None:
    payload = message("tls_v1", ["a"])
    memory = {0x5000: header(payload, **change), 0x9000: payload}
    assert read_process_context([mapping(0x5000)], lambda at, size: memory.get(at, b"")[:size]) is None


def test_a_context_that_changes_while_it_is_read_is_read_again() -> None:
    payload = message("tls_v1", ["a"])
    heads = iter([header(payload), header(payload, published=6), *[header(payload, published=7)] * 2])

    def read(address: int, size: int) -> bytes:
        return next(heads) if address == 0x5000 else payload[:size]

    assert read_process_context([mapping(0x5000)], read) == ProcessContext("tls_v1", ("a",))


def test_names_come_from_the_attributes_with_few_values() -> None:
    assert naming_keys(None) == b""
    assert naming_keys(ProcessContext("tls_v1", ("user_id",))) == b""
    assert naming_keys(ProcessContext("tls_v1", ("rpc.method", "user_id", "http.route"))) == bytes([2, 0])
    about = ProcessContext("tls_v1", ("user_id", "http.route"))
    assert naming_keys(about, ("tenant", "user_id", *NAMING)) == bytes([0, 1])
    assert len(naming_keys(ProcessContext("tls_v1", NAMING))) == MAX_NAMES == STATES["N_CONTEXT_NAMES"]


# ---- slots of the dynamic linker ----

LIBRARY = Mapping(0x7000_0000, 0x7000_9000, "rw-p", 0, 5, "/lib/x.so", False)


def found(
    slots: Sequence[ThreadLocalSlot], words: dict[int, tuple[int, int]], *, address: int | None = 8, musl: bool = False
) -> dict[str, ContextAccess | None]:
    def read(at: int, size: int) -> bytes:
        return struct.pack("=QQ", *(word % (1 << 64) for word in words[at])) if at in words else b""

    return {
        machine: resolve(
            ThreadLocal(address, None, tuple(slots)), 0x7000_0000, read, [LIBRARY], musl=musl, machine=machine
        )
        for machine in MACHINES
    }


def test_general_dynamic_is_a_module_and_an_offset() -> None:
    slot = ThreadLocalSlot(ThreadLocalKind.MODULE, 0x100, True, 0)
    words = {0x7000_0100: (3, 24)}
    assert found([slot], words) == {"x86_64": ContextAccess(24, 3, 8, 4), "aarch64": ContextAccess(24, 3, 0, 4)}
    assert found([slot], words, musl=True) == {
        "x86_64": ContextAccess(24, 3, 8, 3),
        "aarch64": ContextAccess(24, 3, -8, 3),
    }
    assert found([ThreadLocalSlot(ThreadLocalKind.MODULE, 0x100, False, 0)], words)["x86_64"] == ContextAccess(
        8, 3, 8, 4
    )


def test_initial_exec_is_a_distance_from_the_thread_pointer() -> None:
    slot = ThreadLocalSlot(ThreadLocalKind.OFFSET, 0x100, True, 0)
    assert found([slot], {0x7000_0100: (-64, 0)}) == {"x86_64": ContextAccess(-64), "aarch64": None}
    assert found([slot], {0x7000_0100: (64, 0)}) == {"x86_64": None, "aarch64": ContextAccess(64)}
    own = ThreadLocalSlot(ThreadLocalKind.OFFSET, 0x100, False, 16)
    assert found([own], {0x7000_0100: (-64, 0)})["x86_64"] == ContextAccess(-72)


def test_a_descriptor_has_a_distance_or_the_address_of_both() -> None:
    slot = ThreadLocalSlot(ThreadLocalKind.DESCRIPTOR, 0x100, True, 0)
    assert found([slot], {0x7000_0100: (0x1234, -64)})["x86_64"] == ContextAccess(-64)
    dynamic = {0x7000_0100: (0x1234, 0x7000_0800), 0x7000_0800: (4, 32)}
    assert found([slot], dynamic)["x86_64"] == ContextAccess(32, 4, 8, 4)
    assert found([slot], {0x7000_0100: (0, 0)})["x86_64"] is None, "it is not there yet"


slots = st.builds(
    ThreadLocalSlot, st.sampled_from(ThreadLocalKind), st.just(0x100), st.booleans(), st.integers(-(2**63), 2**63 - 1)
)
words = st.sampled_from([0, 1, 3, 16, -8, 0x7000_0800, 2**63 - 1, -(2**63)]) | st.integers(-(2**63), 2**63 - 1)


@given(
    st.lists(slots, max_size=3), st.tuples(words, words), st.tuples(words, words), st.none() | st.integers(0, 2**64 - 1)
)
def test_no_slot_leads_astray(
    several: list[ThreadLocalSlot], first: tuple[int, int], second: tuple[int, int], address: int | None
) -> None:
    for access in found(several, {0x7000_0100: first, 0x7000_0800: second}, address=address).values():
        assert access is None or (0 <= access.module < 1 << 20 and abs(access.vector) <= 8 and access.entry in (0, 4))
