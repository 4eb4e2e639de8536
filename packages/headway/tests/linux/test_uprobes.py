"""Probes at functions' entries and returns: each hit arrives, with the number that its probe was given."""

from __future__ import annotations

import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.compiling import PROGRAMS, Compile
from tests.linux.measuring import until_asleep

from headway.linux.bpf.programs import libbpf
from headway.linux.bpf.programs.compile import compile_bpf
from headway.linux.bpf.programs.libbpf import UPROBES, BpfError, Library, Object
from headway.linux.options import MarkedFunctions
from headway.linux.procfs.maps import mappings
from headway.linux.regions import functions
from headway.linux.regions.functions import Probe

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.root,
    pytest.mark.skipif(not UPROBES.exists(), reason="needs a kernel with uprobes (CONFIG_UPROBE_EVENTS)"),
]
PLACES = 16


def resolve(words: list[str], **known: Any) -> tuple[Probe, ...]:
    return functions.resolve([MarkedFunctions(each) for each in words], **known)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The eBPF object that counts."""
    folder = tmp_path_factory.mktemp("ebpf")
    if shutil.which("clang") is None:
        pytest.importorskip("ziglang", reason="needs clang, or the one in the ziglang wheel")
    compile_bpf(Path(__file__).with_name("uprobes.bpf.c"), folder / "uprobes.bpf.o", folder)
    return (folder / "uprobes.bpf.o").read_bytes()


@pytest.fixture
def probes(image: bytes) -> Iterator[Object]:
    with Object(Library(), image) as loaded:
        loaded.load()
        yield loaded


@pytest.fixture(scope="module")
def compiler() -> str:
    found = shutil.which("cc")
    if found is None:
        pytest.skip("needs a C compiler")
    return found


@pytest.fixture(scope="module")
def library(compiler: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("library") / "libtwice.so.1"
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", target, PROGRAMS / "twice_library.c"], check=True)
    return target


def attach(probes: Object, places: list[Probe], pid: int = -1) -> None:
    for cookie, place in enumerate(places):
        entry, back = probes.programs["at_entry"], probes.programs["at_return"]
        probes.attach_uprobe(entry, place.path, place.offset, ret=False, cookie=cookie, pid=pid)
        probes.attach_uprobe(back, place.path, place.offset, ret=True, cookie=cookie, pid=pid)


def counts(probes: Object, places: list[Probe]) -> dict[str, tuple[int, int]]:
    memory = probes.map(".bss.counts").map_memory()
    numbers = struct.unpack(f"{2 * PLACES}Q", memory[: 16 * PLACES])
    memory.close()
    return {place.name: (numbers[at], numbers[PLACES + at]) for at, place in enumerate(places)}


def start(caller: Path, library: Path, calls: int) -> subprocess.Popen[bytes]:
    """The program, waiting before its first call."""
    command = [str(caller), str(library), str(calls)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process


def finish(process: subprocess.Popen[bytes]) -> None:
    process.communicate(b"\n")
    assert process.returncode == 0


def test_every_call_is_seen_to_begin_and_to_end_in_a_library_opened_later_too(
    compile_c: Compile, library: Path, probes: Object
) -> None:
    caller = compile_c("caller")
    places = [*resolve([f"{library}:twice", f"{library}:deep"])]
    attach(probes, places)
    finish(start(caller, library, 1234))
    assert counts(probes, places) == {"twice": (1234, 1234), "deep": (10, 10)}


def test_a_process_that_runs_already_is_seen_from_then_on(compile_c: Compile, library: Path, probes: Object) -> None:
    caller = compile_c("caller")
    process = start(caller, library, 5)
    places = [*resolve(["caller:leave"], pids=[process.pid])]
    attach(probes, places)
    finish(process)
    assert counts(probes, places) == {"leave": (6, 3)}, "what is left by a long jump does not return"


def test_a_program_that_was_deleted_while_it_runs_can_still_be_probed(
    compile_c: Compile, library: Path, probes: Object, tmp_path: Path
) -> None:
    copy = tmp_path / "gone"
    shutil.copy(compile_c("caller"), copy)
    process = start(copy, library, 5)
    copy.unlink()
    places = [*resolve(["gone:leave"], pids=[process.pid])]
    attach(probes, places)
    finish(process)
    assert counts(probes, places) == {"leave": (6, 3)}


def test_a_process_in_a_file_system_of_its_own_is_probed_in_its_own_files(
    probes: Object, compiler: str, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    root.mkdir()
    source = PROGRAMS / "inside.c"
    built = subprocess.run([compiler, "-w", "-O1", "-static", "-o", root / "inside", source], capture_output=True)
    if built.returncode:
        pytest.skip("needs a static C library")
    inside = [
        sys.executable,
        "-c",
        "import os, sys; os.chroot(sys.argv[1]); os.execv('/inside', ['inside'])",
        str(root),
    ]
    process = subprocess.Popen(inside, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    places = [*resolve(["inside:step"], pids=[process.pid])]
    attach(probes, places)
    finish(process)
    assert counts(probes, places) == {"step": (8, 8)}


def test_a_probe_in_one_process_is_not_hit_by_another(compile_c: Compile, library: Path, probes: Object) -> None:
    caller = compile_c("caller")
    one, other = start(caller, library, 7), start(caller, library, 100)
    places = [*resolve([f"{library}:twice"])]
    attach(probes, places, pid=one.pid)
    finish(one)
    finish(other)
    assert counts(probes, places) == {"twice": (7, 7)}


def test_the_ready_made_set_sees_each_allocation(compile_c: Compile, probes: Object) -> None:
    program = compile_c("allocating")
    places = [*resolve(["malloc"], command=[str(program)])]
    process = subprocess.Popen(["sh", "-c", 'read x; exec "$1"', "sh", program], stdin=subprocess.PIPE)
    until_asleep(process.pid)  # it reads: what a start allocates is not in the midst of it then
    attach(probes, places, pid=process.pid)
    process.communicate(b"\n")
    assert process.returncode == 0
    seen = counts(probes, places)
    assert 5000 <= seen["malloc"][0] <= 5400, "the shell and the dynamic linker allocate a little too"
    assert 5000 <= seen["realloc"][0] <= 5100
    assert 300 <= seen["calloc"][0] <= 400
    assert 300 <= sum(seen.get(name, (0, 0))[0] for name in ("aligned_alloc", "memalign")) <= 320
    assert all(entries == returns for entries, returns in seen.values())


def test_when_the_object_is_closed_the_code_is_as_it_was(compile_c: Compile, library: Path, image: bytes) -> None:
    caller = compile_c("caller")
    process = start(caller, library, 3)
    (place,) = resolve(["caller:leave"], pids=[process.pid])
    text = next(m for m in mappings(process.pid) if m.path == str(caller) and "x" in m.permissions)

    def code() -> bytes:
        with open(f"/proc/{process.pid}/mem", "rb") as memory:
            memory.seek(text.start + place.offset - text.offset)
            return memory.read(16)

    before = code()
    with Object(Library(), image) as loaded:
        loaded.load()
        attach(loaded, [place])
        assert code() != before
    assert code() == before
    finish(process)


@pytest.mark.parametrize(("path", "words"), [("/no/such/file", "No such file"), ("/proc/self/status", "probing")])
def test_a_file_that_cannot_be_probed_is_refused_in_one_sentence(probes: Object, path: str, words: str) -> None:
    with pytest.raises(BpfError, match=words) as caught:
        probes.attach_uprobe(probes.programs["at_entry"], path, 64, ret=False, cookie=0)
    assert "\n" not in str(caught.value)


def test_a_kernel_without_uprobes_is_said_to_have_none(probes: Object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libbpf, "UPROBES", Path("/nowhere"))
    with pytest.raises(BpfError, match="no uprobes"):
        probes.attach_uprobe(probes.programs["at_entry"], "/bin/true", 64, ret=False, cookie=0)
