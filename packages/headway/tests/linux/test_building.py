"""What the build makes for an architecture that may not be this machine's: system calls, and the eBPF object."""

from __future__ import annotations

import importlib.util
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.linux.bpf.programs.compile import compile_bpf
from headway.linux.syscalls import list_calls

from .bpf_building import HEAD

pytestmark = pytest.mark.end_to_end

ZIG = importlib.util.find_spec("ziglang") is not None
SOURCE = Path(list_calls.__file__)
EBPF = SOURCE.parents[1] / "bpf" / "progress.bpf.c"

needs_zig = pytest.mark.skipif(not ZIG, reason="needs the ziglang package")
needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")


def listed(folder: Path, *compiler: str) -> ModuleType:
    """The module that the build makes."""
    output = folder / "calls.py"
    subprocess.run([sys.executable, SOURCE, output, *compiler], check=True)
    spec = importlib.util.spec_from_file_location("calls", output)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


calls = st.dictionaries(
    st.integers(0, 400), st.from_regex(r"[a-z][a-z0-9_]{0,12}", fullmatch=True), min_size=1, max_size=12
).filter(lambda numbers: len(set(numbers.values())) == len(numbers))


@needs_cc
@given(calls, st.randoms(use_true_random=False))
def test_calls_are_found_however_a_header_defines_them(numbers: dict[int, str], draw: random.Random) -> None:
    ways = (
        lambda number, name: f"#define __NR_{name} {number}",
        lambda number, name: f"#define __NR3264_{name} {number}\n#define __NR_{name} __NR3264_{name}",
        lambda number, name: f"#define __NR_{name} (__NR_SYSCALL_BASE + {number})",
        lambda number, name: f"#define __NR_{name} ({hex(number)})",
    )
    lines = [draw.choice(ways)(number, name) for number, name in numbers.items()]
    with tempfile.TemporaryDirectory() as folder:
        header = Path(folder) / "asm" / "unistd_64.h"
        header.parent.mkdir()
        header.write_text("\n".join(["#define __NR_SYSCALL_BASE 0", *lines, "#define __NR_syscalls 999", ""]))
        assert list_calls._numbers(["cc", "-I", folder], "asm/unistd_64.h") == numbers


@needs_cc
def test_the_first_header_that_has_calls_is_taken() -> None:
    assert list_calls._numbers(["cc"], "asm/no_such_header.h", "asm/unistd.h")
    assert list_calls._numbers(["cc"], "asm/no_such_header.h") == {}


@needs_cc
def test_without_the_kernels_headers_the_build_ends_with_a_sentence(tmp_path: Path) -> None:
    command = [sys.executable, str(SOURCE), str(tmp_path / "calls.py"), "cc", "-nostdinc"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert "install the kernel's headers" in run.stderr
    assert "Traceback" not in run.stderr


@needs_zig
def test_a_cross_compiler_gives_the_calls_of_its_target(tmp_path: Path) -> None:
    zig = [sys.executable, "-m", "ziglang", "cc", "-target"]
    arm = listed(tmp_path, *zig, "aarch64-linux-gnu.2.17", "--", *zig, "arm-linux-gnueabi.2.17")
    # Linux, include/uapi/asm-generic/unistd.h and arch/arm/tools/syscall.tbl.
    assert {arm.NATIVE[number] for number in (46, 62, 80, 98, 222)} == {"ftruncate", "lseek", "fstat", "futex", "mmap"}
    assert [arm.COMPAT[number] for number in (0, 3, 5, 240)] == ["restart_syscall", "read", "open", "futex"]
    x86 = listed(tmp_path, *zig, "x86_64-linux-gnu.2.17")
    assert [x86.NATIVE[number] for number in (0, 9, 202)] == ["read", "mmap", "futex"]
    assert [x86.COMPAT[number] for number in (0, 3, 5, 240)] == ["restart_syscall", "read", "open", "futex"]


SMALL = HEAD + 'SEC("iter/task") int program(void *ctx) { return CALL_IN_PROGRESS((struct pt_regs *)ctx) > 7; }'


@needs_zig
@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.exhaustive)], ids=["small", "whole"])
@pytest.mark.parametrize(
    ("machine", "own", "other"), [("x86_64", b"orig_ax", b"syscallno"), ("aarch64", b"syscallno", b"orig_ax")]
)
def test_the_ebpf_object_is_compiled_for_the_architecture_that_will_load_it(
    tmp_path: Path, machine: str, own: bytes, other: bytes, whole: bool
) -> None:
    source, target = tmp_path / "small.bpf.c", tmp_path / "made.bpf.o"
    source.write_text(SMALL)
    compile_bpf(EBPF if whole else source, target, tmp_path / "cache", machine, "zig")
    image = target.read_bytes()
    assert image[:4] == b"\x7fELF"
    assert int.from_bytes(image[18:20], "little") == 247  # EM_BPF
    assert own in image
    assert other not in image


@needs_zig
def test_an_architecture_without_ebpf_programs_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        compile_bpf(EBPF, tmp_path / "x.o", tmp_path / "cache", "riscv64", "zig")
    assert "x86-64 and arm64" in capfd.readouterr().err


def test_a_compiler_that_is_asked_for_and_missing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(SystemExit, match="-Dbpf_compiler=zig"):
        compile_bpf(tmp_path / "x.c", tmp_path / "x.o", tmp_path, "x86_64", "clang")
