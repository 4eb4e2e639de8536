"""A refusal of eBPF is one sentence: what was tried, what refused it, and what to do."""

from __future__ import annotations

import errno
import os
import pickle
import resource
import subprocess
import sys
from collections.abc import Iterator
from importlib.resources import files
from io import BytesIO
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection
from hypothesis import given
from hypothesis import strategies as st

from headway.errors import HeadwayError
from headway.linux.bpf.programs import refusals
from headway.linux.bpf.programs.libbpf import BpfError, Library, Object
from headway.linux.bpf.programs.refusals import RefusedError, explain
from headway.linux.bpf.programs.unavailable import UnavailableError
from headway.linux.options import Selection
from headway.linux.privileges import LinuxCapability
from headway.linux.sources import choose
from headway.linux.sources.choose import begun_exact, start_source

REASON = "R9 unbounded memory access, make sure to bounds check any such access"
LOG = (
    "libbpf: prog 'handle_sys_enter': BPF program load failed: Permission denied\n"
    "libbpf: prog 'handle_sys_enter': -- BEGIN PROG LOAD LOG --\n"
    f"{{trace}}{REASON}\nprocessed 4997 insns (limit 1000000)\n"
    "-- END PROG LOAD LOG --\nlibbpf: prog 'handle_sys_enter': failed to load: -13\n"
)
ROOTS = frozenset(LinuxCapability)


class Refused:
    """A source that cannot begin."""

    def __init__(self, error: HeadwayError) -> None:
        self._error = error

    def begin(self) -> None:
        raise self._error


def fallback(error: HeadwayError, monkeypatch: pytest.MonkeyPatch) -> str:
    """What is said where the source is chosen, and this keeps it from being eBPF."""
    monkeypatch.setattr(choose, "may_use_bpf", lambda: True)
    exact, why = begun_exact(lambda: Refused(error), None)
    assert exact is None
    assert "--source proc" not in why, "that is being done"
    assert why.count("\n") == 0
    return why


@pytest.fixture
def as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headway.linux.privileges.effective", lambda: ROOTS)
    monkeypatch.setattr(refusals, "in_user_namespace", lambda: False)
    monkeypatch.setattr(refusals, "LOCKDOWN", Path("/no/such/file"))


# ---- each kind of reason ----


def test_a_want_of_memory_is_named_with_what_needs_it(as_root: None, monkeypatch: pytest.MonkeyPatch) -> None:
    log = "libbpf: map 'spans': failed to create: Cannot allocate memory(-12)\n"
    for log_, why in ((log, "map 'spans': failed to create: Cannot allocate memory(-12)"), ("", "loading: Cannot ")):
        said = fallback(explain(BpfError("loading", errno.ENOMEM, log_)), monkeypatch)
        assert said.startswith(f"eBPF needs more memory than there is ({why}")
        assert said.endswith("): free some, or raise its limit")


@pytest.mark.parametrize("trace", ["", "0: (79) r6 = *(u64 *)(r1 +8)\n" * 10])
def test_the_verifier_is_named_with_the_kernel_the_program_and_its_last_words(
    monkeypatch: pytest.MonkeyPatch, trace: str
) -> None:
    error = explain(BpfError("loading", errno.EACCES, LOG.format(trace=trace)))
    assert isinstance(error, RefusedError)
    assert (error.program, error.reason) == ("handle_sys_enter", REASON)
    assert fallback(error, monkeypatch) == (
        f"the verifier of Linux {os.uname().release} refuses headway's eBPF program handle_sys_enter ({REASON}): "
        "report what sudo headway doctor shows"
    )


@given(st.text())
def test_whatever_the_log_says_the_sentence_is_short_printable_and_one_line(log: str) -> None:
    for text in (log, LOG.format(trace=log), LOG.replace(REASON, "{trace}").format(trace=log)):
        error = explain(BpfError("loading", errno.EINVAL, text))
        assert str(error).isprintable()
        assert len(str(error)) < 500


@pytest.mark.parametrize(
    ("has", "lacks"),
    [
        ({LinuxCapability.BPF}, "CAP_PERFMON"),
        ({LinuxCapability.PERFMON}, "CAP_BPF"),
        ({LinuxCapability.KILL}, "both"),
        (set(), "both"),
    ],
)
def test_the_capability_that_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch, as_root: None, has: set[LinuxCapability], lacks: str
) -> None:
    monkeypatch.setattr("headway.linux.privileges.effective", lambda: frozenset(has))
    words = fallback(explain(BpfError("loading", errno.EPERM)), monkeypatch)
    assert words.startswith(f"eBPF needs CAP_BPF and CAP_PERFMON, and this process lacks {lacks}: run as root (sudo ")


def test_who_has_the_capabilities_is_not_told_to_get_them(monkeypatch: pytest.MonkeyPatch, as_root: None) -> None:
    words = fallback(explain(BpfError("loading", errno.EPERM)), monkeypatch)
    assert words.startswith("bpf(2) is not permitted, in spite of CAP_BPF and CAP_PERFMON: a seccomp filter or")
    assert "run as root" not in words


def test_a_user_namespace_is_named(monkeypatch: pytest.MonkeyPatch, as_root: None) -> None:
    monkeypatch.setattr(refusals, "in_user_namespace", lambda: True)
    words = fallback(explain(BpfError("loading", errno.EPERM)), monkeypatch)
    assert "outside this user namespace: run headway as root of the machine" in words


def test_lockdown_is_named(monkeypatch: pytest.MonkeyPatch, as_root: None, tmp_path: Path) -> None:
    lockdown = tmp_path / "lockdown"
    lockdown.write_text("none integrity [confidentiality]\n")
    monkeypatch.setattr(refusals, "LOCKDOWN", lockdown)
    words = fallback(explain(BpfError("loading", errno.EPERM)), monkeypatch)
    assert words.startswith("the kernel is locked down (confidentiality)")
    assert words.endswith(": boot with lockdown=integrity")


def test_a_refusal_of_something_else_than_a_program_has_libbpfs_words(monkeypatch: pytest.MonkeyPatch) -> None:
    log = "libbpf: map 'spans': failed to create: Argument list too long(-7)\n"
    words = fallback(explain(BpfError("loading", errno.E2BIG, log)), monkeypatch)
    assert "(map 'spans': failed to create: Argument list too long(-7)): sudo headway doctor" in words


@pytest.mark.parametrize(("limit", "words"), [(32, "raise the limit"), (1 << 20, "refuses")])
def test_a_map_that_could_not_be_opened_is_no_fault_of_the_kernels(
    monkeypatch: pytest.MonkeyPatch, limit: int, words: str
) -> None:
    log = "libbpf: prog 'handle_sys_enter': BPF map '.bss' is referenced but wasn't created\n"
    monkeypatch.setattr(resource, "getrlimit", lambda which: (limit, limit))
    assert words in fallback(explain(BpfError("loading", errno.EINVAL, log)), monkeypatch)


def test_too_few_open_files_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    words = fallback(explain(BpfError("attaching", errno.EMFILE)), monkeypatch)
    assert words.endswith("open files, more than are allowed: raise the limit (ulimit -n)")


def test_an_error_that_is_not_of_ebpf_is_said_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert fallback(HeadwayError("cs cannot be counted", "lower the limit"), monkeypatch) == (
        "cs cannot be counted: lower the limit"
    )


@pytest.mark.parametrize(
    "error", [RefusedError("handle_sys_enter", REASON), UnavailableError("no BTF", "build it"), HeadwayError("a", "b")]
)
def test_an_error_keeps_its_parts_on_the_way_to_another_process(error: HeadwayError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), copy.cause, copy.advice) == (type(error), str(error), error.cause, error.advice)


# ---- real refusals ----


READS_ABOVE_THE_STACK = b"\x79\xa0\x08\0\0\0\0\0"  # r0 = *(u64 *)(r10 + 8)
LOOPS = (
    b"\xb7\0\0\0\0\0\0\0"  # r0 = 0
    b"\x07\0\0\0\1\0\0\0"  # r0 += 1
    b"\xa5\0\xfe\xff\xb8\x0b\0\0"  # if r0 < 3000 goto -2
)


def refused(program: str, instructions: bytes) -> BpfError:
    """The error of loading one program of the eBPF object, which begins with these instructions instead of its own."""
    image = bytearray(files("headway.linux").joinpath("bpf", "progress.bpf.o").read_bytes())
    elf = ELFFile(BytesIO(bytes(image)))
    symbols = elf.get_section_by_name(".symtab")
    assert isinstance(symbols, SymbolTableSection)
    (symbol,) = symbols.get_symbol_by_name(program) or []
    start = elf.get_section(symbol["st_shndx"])["sh_offset"] + symbol["st_value"]
    image[start : start + len(instructions)] = instructions
    with Object(Library(), bytes(image)) as programs:
        for one in programs.programs.values():
            if one.name != program:
                one.leave_out()
        with pytest.raises(BpfError) as caught:
            programs.load()
    return caught.value


@pytest.mark.root
@pytest.mark.parametrize(("before", "length"), [(b"", 0), (LOOPS, 1 << 16)])
def test_the_verifiers_last_words_are_told_after_a_log_of_any_length(before: bytes, length: int) -> None:
    error = refused("handle_sys_exit", before + READS_ABOVE_THE_STACK)
    assert len(error.log) > length
    found = explain(error)
    assert isinstance(found, RefusedError)
    assert (found.program, found.reason) == ("handle_sys_exit", "invalid read from stack R10 off=8 size=8")


def as_nobody(code: str) -> Iterator[str]:
    """What Python code says whose process has given up being root, line by line.

    The process reads what it needs before: an ordinary user may not be allowed to read this installation.
    """
    prefix = "import encodings.ascii, os, headway.linux.sources.ebpf, headway.linux.sources.proc\n"
    prefix += "from headway.linux.bpf.polling import checks; checks.ready_made(); os.setgroups([])\n"
    prefix += "os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)\n"
    done = subprocess.run([sys.executable, "-c", prefix + code], capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr
    yield from done.stdout.splitlines()


@pytest.mark.root
def test_an_ordinary_user_is_told_what_is_missing_where_loading_is_refused() -> None:
    code = (
        "from headway.errors import HeadwayError; from headway.linux.options import Selection\n"
        "from headway.linux.sources import choose\n"
        "choose.may_use_bpf = lambda: {tried}\n"
        "source, why = choose.start_source(Selection(pids=(os.getpid(),)))\n"
        "print(source.name); source.close(); print(why)"
    )
    for tried in (False, True):  # True: the kernel is asked, and it is the kernel that refuses
        name, why = as_nobody(code.format(tried=tried))
        assert name == "proc"
        assert why.startswith("eBPF needs CAP_BPF and CAP_PERFMON, and this process lacks both: run as root (sudo ")


def test_who_asks_for_ebpf_alone_is_told_of_the_other_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headway.linux.sources.ebpf.BpfSource", lambda *_, **__: Refused(RefusedError("p", "r")))
    with pytest.raises(UnavailableError, match=r"program p \(r\): .*, or use --source proc$"):
        start_source(Selection(pids=(os.getpid(),)), "bpf")
