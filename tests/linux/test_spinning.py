"""Spinning found in samples: which samples, and the ledger that is divided by them."""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ledgers import ledgers

from headway.linux.options import Selection
from headway.linux.procfs.maps import Mapping, mappings
from headway.linux.sources.profiler import ProfileSource
from headway.linux.sources.profiler.spinning import SPINNING, _runs, notes_on_spinning, with_spinning
from headway.linux.sources.source import LinuxSource
from headway.linux.symbols.code import UserCode
from headway.linux.symbols.modules import Modules
from headway.model import Kind, Ledger, Profile, Quality, violations
from headway.session.measure import observe

pytest.importorskip("capstone", reason="needs the extra spin")

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@given(st.lists(st.sampled_from(["a", "b", None]), max_size=30))
def test_two_in_a_row_in_the_same_loop_spin(loops: list[str | None]) -> None:
    found = set(_runs(range(len(loops)), lambda i: loops[i]))
    for i, loop in enumerate(loops):
        beside = [loops[j] for j in (i - 1, i + 1) if 0 <= j < len(loops)]
        assert (i in found) == (loop is not None and loop in beside)


counts = st.builds(lambda a, b: Counter({"user": a, SPINNING: b}), st.integers(0, 1000), st.integers(0, 1000))


@given(ledgers(), st.dictionaries(st.integers(0, 5), counts))
def test_a_divided_ledger_keeps_the_laws_and_only_user_code_is_divided(
    ledger: Ledger, samples: dict[int, Counter[str]]
) -> None:
    found = with_spinning(ledger, samples)
    assert violations(found) == violations(ledger)
    for before, after, number in zip(ledger.threads, found.threads, range(len(ledger.threads)), strict=True):
        told = samples.get(number, Counter())
        if not told[SPINNING] or "user" not in before.states or before.tasks:
            assert after == before
            continue
        both = [after.states[state].time for state in ("user", SPINNING) if state in after.states]
        had = before.states[SPINNING].time if SPINNING in before.states else 0
        assert sum(both) == before.states["user"].time + had
        for state in before.states.keys() - {"user", SPINNING}:
            assert after.states[state] == before.states[state]
        assert after.sampled[SPINNING].samples >= told[SPINNING]


def run(*command: str | Path, seconds: float | None = None) -> tuple[Profile, str]:
    sources: list[ProfileSource] = []

    def start(chosen: Selection) -> LinuxSource:
        sources.append(ProfileSource(chosen, prefer="bpf", spin=True))
        sources[0].begin()
        return sources[0]

    reading, writing = os.pipe()
    try:
        observe(Selection(), [str(word) for word in command], start=start, seconds=seconds, stdout=writing)
    finally:
        os.close(writing)
    with os.fdopen(reading) as said:
        return sources[0].profile(), said.read()


def compiled(name: str, folder: Path) -> Path:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    target = folder / name
    subprocess.run([compiler, "-O2", "-pthread", "-o", target, BENCHMARKS / f"{name}.c", "-lm"], check=True)
    return target


def test_code_is_read_from_the_file_or_from_what_was_kept() -> None:
    modules = Modules()
    space, code = modules.space(os.getpid()), UserCode()
    made = mmap.mmap(-1, 8192, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    made[:8192] = bytes(range(256)) * 32
    start = ctypes.addressof(ctypes.c_char.from_buffer(made))
    space.add(Mapping(start, start + 8192, "rwxp", 0, 0, "", False))
    assert code.read(space, start + 1000, 4) == b"", "it was not kept"
    code.keep(space, start + 1000)
    assert code.read(space, start + 1000, 4) == made[1000:1004]
    assert code.read(space, start + 900, 300) == made[900:1200]
    assert code.read(space, 16, 4) == b"", "nothing is there"
    here = next(one for one in mappings(os.getpid()) if one.path.endswith("libc.so.6") and "x" in one.permissions)
    assert len(code.read(space, here.start + 4096, 16)) == 16
    modules.close()


def test_what_could_not_be_looked_at_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headway.linux.symbols.code._MOST", 2)
    code, space = UserCode(), Modules().space(os.getpid())
    assert notes_on_spinning(code, "x86_64") == []
    space.add(Mapping(1 << 40, (1 << 40) + 8192, "rwxp", 0, 0, "", False))
    for address in range(1 << 40, (1 << 40) + 5 * 64, 64):
        code.keep(space, address)
    assert code.without_room == 3
    (note,) = notes_on_spinning(code, "x86_64")
    assert "in 3 samples of code made at run time" in note
    assert "the code of riscv64 is not known" in notes_on_spinning(UserCode(), "riscv64")[0]


KNOWN = pytest.mark.skipif(platform.machine() not in ("x86_64", "aarch64"), reason="knows x86-64 and arm64")


@KNOWN
@pytest.mark.root
@pytest.mark.kernel
@pytest.mark.parametrize("kind", ["pthread", "mutex", "ring", "flag"])
def test_a_thread_that_spins_is_found_without_a_mark(kind: str, tmp_path: Path) -> None:
    found, said = run(compiled("spins", tmp_path), kind, "0.5")
    tid = int(said.split()[2])
    (thread,) = [thread for thread in found.ledger.threads if thread.tid == tid]
    assert thread.states[SPINNING].time > 0
    assert thread.sampled[SPINNING].samples >= 2
    assert violations(found.ledger) == []
    indices = found.ledger.indices(thread)
    assert indices.iopi == thread.times()[Kind.POLL] > 0
    assert indices.quality["iopi"] is Quality.SAMPLED
    assert indices.quality["epi"] is not Quality.EXACT
    limits = indices.interval["iopi"]
    assert limits is not None
    assert limits[0] <= indices.iopi <= limits[1]
    assert any(state == SPINNING for _, state, _, _, _ in found.rows())


@KNOWN
@pytest.mark.root
@pytest.mark.kernel
@pytest.mark.parametrize("kind", ["strings", "chase", "counters", "exchange"])
def test_a_program_that_computes_does_not_spin(kind: str, tmp_path: Path) -> None:
    found, _ = run(compiled("computes", tmp_path), kind, "0.3")
    assert all(SPINNING not in thread.states for thread in found.ledger.threads)
