"""Programs that are taken from libbpf: types are found as they are, and nothing is left when one is refused."""

from __future__ import annotations

import contextlib
import errno
import os
import re
from importlib import resources
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.linux.bpf.programs import _btf, kernel_types, loading, relocated
from headway.linux.bpf.programs.libbpf import BpfError, Library, Object
from headway.linux.bpf.programs.loading import SHAPES, Features

from .bpf_building import build_text
from .btf import FUNC, FUNC_PROTO, PTR, STRUCT, TYPEDEF, UNION, Type, Types

VMLINUX = Path("/sys/kernel/btf/vmlinux")
C = Path(__file__).parents[2] / "src" / "headway" / "linux" / "bpf"
LOOP = 'SEC("raw_tp/sys_enter") int endless(u64 *ctx) { for (;;) { if (!*(volatile u64 *)ctx) return 0; } }\n'
LOAD_64 = 0x18
"""BPF_LD | BPF_IMM | BPF_DW, whose second register says whether the number is a map's."""
FINE = 'SEC("tp_btf/sys_exit") int fine(u64 *ctx) { return ctx[0] == 1; }\n'


def object_of() -> bytes:
    return (resources.files("headway.linux") / "bpf" / "plain.bpf.o").read_bytes()


# ---- types ----


def types_in(image: bytes) -> bytes:
    """The type information of an object: it begins with its magic number and says how long it is."""
    at = image.index(b"\x9f\xeb\x01\x00\x18\x00\x00\x00")
    return image[at:]


@pytest.mark.parametrize(("kind", "first"), [(TYPEDEF, b""), (FUNC, b"handle_"), (STRUCT, b"task_"), (FUNC, b"none")])
def test_types_are_found_as_another_reader_finds_them(kind: int, first: bytes) -> None:
    image = types_in(object_of())
    expected = {
        one.name.removeprefix(first.decode()): number
        for number, one in enumerate(Types(image).all)
        if one.kind == kind and one.name.startswith(first.decode())
    }
    assert _btf.find(image, kind, first) == expected


@pytest.mark.skipif(not VMLINUX.exists(), reason="this kernel has no BTF")
def test_tracepoints_of_the_kernel_are_found() -> None:
    found = relocated.learn_hooks(VMLINUX.read_bytes())
    assert {"sched_switch", "sys_enter", "sched_wakeup"} <= found.keys()
    assert len(set(found.values())) == len(found)


@pytest.mark.parametrize("mapped", [True, False])
def test_names_are_found_where_the_types_are_mapped_and_where_they_are_read(
    mapped: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = types_in(object_of())
    file = tmp_path / "vmlinux"
    file.write_bytes(image)
    monkeypatch.setattr(kernel_types, "BTF", file)
    if not mapped:  # as before Linux 6.16
        monkeypatch.setattr("mmap.mmap", refuse)
    types = kernel_types.types_of_kernel()
    assert isinstance(types, bytes) is not mapped
    assert types[:] == image
    names = {one.name for one in Types(image).all[1:] if one.name}
    assert all(kernel_types.has_name(types, name) for name in names)
    assert not kernel_types.has_name(types, "task_struc")
    assert _btf.find(types, STRUCT, b"task_") == _btf.find(image, STRUCT, b"task_")
    assert _btf.reduced(types, image) == _btf.reduced(image, image)


def refuse(*_: object) -> None:
    raise OSError(errno.EINVAL, "this file cannot be mapped")


@given(st.binary(max_size=200))
def test_what_is_no_type_information_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match="BTF"):
        _btf.find(content, TYPEDEF, b"")


@given(st.data())
def test_damaged_type_information_is_read_or_refused(data: st.DataObject) -> None:
    image = bytearray(types_in(object_of()))
    for _ in range(data.draw(st.integers(1, 8))):
        image[data.draw(st.integers(0, 6000))] = data.draw(st.integers(0, 255))
    try:
        found = _btf.find(bytes(image), TYPEDEF, b"")
    except ValueError:
        return
    assert all(number > 0 for number in found.values())


def described(types: Types, structure: Type, deep: int = 3) -> list[object]:
    """The members of a structure, with what is in them."""
    found: list[object] = []
    for name, number, place in structure.items:
        member = types.bare(number)
        inside = described(types, member, deep - 1) if member.kind in (STRUCT, UNION) and deep else []
        what = "" if member.kind in (PTR, FUNC_PROTO) else member.name
        found.append((types.text(name), place, PTR if member.kind == FUNC_PROTO else member.kind, what, inside))
    return found


@pytest.mark.skipif(not VMLINUX.exists(), reason="this kernel has no BTF")
def test_reduced_types_have_what_was_wanted_as_it_was() -> None:
    kernel = VMLINUX.read_bytes()
    whole, reduced = Types(kernel), Types(_btf.reduced(kernel, types_in(object_of())))
    tasks = [one for one in reduced.all if one.name == "task_struct" and one.kind == STRUCT]
    assert [described(reduced, one) for one in tasks] == [
        described(whole, one) for one in whole.all if one.name == "task_struct" and one.kind == STRUCT
    ]
    assert len(reduced.all) * 20 < len(whole.all)


@given(st.data())
def test_damaged_type_information_is_reduced_or_refused(data: st.DataObject) -> None:
    image = bytearray(types_in(object_of())[:60_000])
    for _ in range(data.draw(st.integers(1, 8))):
        image[data.draw(st.integers(0, 6000))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(ValueError):
        reduced = _btf.reduced(bytes(image), types_in(object_of()))
        assert _btf.reduced(reduced, types_in(object_of())) is not None


# ---- objects ----


@pytest.mark.root
@pytest.mark.parametrize("name", ["plain.bpf.o", "progress.bpf.o", "calls.bpf.o", "locks.bpf.o"])
def test_programs_are_the_same_whether_libbpf_sees_all_types_of_the_kernel_or_those_it_needs(name: str) -> None:
    image = (resources.files("headway.linux") / "bpf" / name).read_bytes()
    assert instructions_of(image, VMLINUX.read_bytes()) == instructions_of(image, None)


def instructions_of(image: bytes, kernel_types: bytes | None) -> dict[str, list[bytes]]:
    """The instructions of an object's programs as the kernel would get them, without the numbers of maps."""
    with Object(Library(), image, kernel_types) as programs:
        for each in ("exits", "thread_records", "free_thread_records"):
            with contextlib.suppress(BpfError):  # not every object has them
                programs.map(each).max_entries = 4096
        ours = dict(program.identity for program in programs.programs.values() if program.is_relocated)
        with relocated.taking(programs.library, ours) as taken:
            programs.library.check("loading", "bpf_object__load", programs._handle)
    found = {}
    for program in taken:
        code = program.instructions
        words = [code[i : i + 8] for i in range(0, len(code), 8)]
        found[program.name] = [word[:4] if word[0] == LOAD_64 and word[1] >> 4 else word for word in words]
    return found


def test_the_smaller_object_is_taken_where_nothing_is_asked_for_that_it_lacks() -> None:
    asked = {name for file in C.glob("*.[hc]") for name in re.findall(r"\bOPTION\((\w+)\)", file.read_text())}
    assert asked - {"name", "other_accounts"} == set(loading._NOT_PLAIN)


@pytest.mark.root
def test_loading_leaves_no_descriptor_open() -> None:
    library, features = Library(), Features.probe(Library())
    loading.trial(library, SHAPES["stat -p"], features)
    before = len(os.listdir("/proc/self/fd"))
    loading.trial(library, SHAPES["stat -p"], features)
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.root
def test_a_program_that_is_refused_is_named_with_its_log_and_nothing_is_left_loaded(tmp_path: Path) -> None:
    machine = os.uname().machine
    build_text(FINE + LOOP, tmp_path, machine)
    image = (tmp_path / f"made.bpf.{machine}.o").read_bytes()
    before = len(os.listdir("/proc/self/fd"))
    with Object(Library(), image) as programs, pytest.raises(BpfError) as refused:
        programs.load()
    assert "prog 'endless'" in refused.value.log
    assert "BEGIN PROG LOAD LOG" in refused.value.log
    assert len(os.listdir("/proc/self/fd")) == before


def test_without_room_for_the_types_libbpf_takes_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> int:
        raise OSError(errno.EMFILE, "too many")

    monkeypatch.setattr(os, "memfd_create", refused)
    assert relocated.types_for(object_of(), types_in(object_of())) == -1


def test_a_program_without_types_is_refused_at_once_and_not_verified_for_minutes() -> None:
    untyped = relocated.RelocatedProgram("fine", "raw_tp/sys_enter", b"", -1, (b"", 8), (b"", 16))

    class Unasked:
        def call(self, function: str, *arguments: object) -> int:
            raise AssertionError(function)

    with pytest.raises(relocated.RefusedProgramError) as refused:
        relocated.load(Unasked(), [untyped])
    assert refused.value.number == errno.ENOMEM
