"""Spinning found in samples: which samples, and the ledger that is divided by them, in profiles and while measuring."""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from tests.ledgers import ledgers

import headway
from headway.commands import at as at_moment
from headway.commands import critical_path, diff, what_if
from headway.linux.bpf.samples.code_samples import CodeSample, Polled
from headway.linux.options import MeasureOptions, Selection
from headway.linux.procfs.maps import Mapping, mappings
from headway.linux.sources.ebpf.returns import RETURNS, Stretch
from headway.linux.sources.ebpf.spinning import SpinFinder
from headway.linux.sources.profiler import ProfileSource
from headway.linux.sources.profiler.spinning import _runs, notes_on_spinning
from headway.linux.sources.source import LinuxSource
from headway.linux.sources.spinning import Place, with_spinning
from headway.linux.symbols.code import UserCode
from headway.linux.symbols.modules import Modules
from headway.model import SPINNING, Behind, Cell, Kind, Ledger, Profile, Quality, Thread, Window, violations
from headway.session.measure import observe

pytest.importorskip("capstone", reason="needs the extra spin")

BENCHMARKS = Path(__file__).parents[4] / "benchmarks"


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
    divided = [a for a, b in zip(found.threads, ledger.threads, strict=True) if a != b]
    said = "the spinning that samples found" in found.reasons.get("durations", "")
    assert said == any("user" in (thread.durations or ()) for thread in divided)


@given(ledgers(), st.dictionaries(st.integers(0, 5), counts), st.dictionaries(st.text(max_size=3), st.integers(1, 50)))
def test_where_a_thread_spun_is_the_cause_of_the_time_in_which_it_did(
    ledger: Ledger, samples: dict[int, Counter[str]], spins: dict[str, int]
) -> None:
    places = {i: {name: Place(number, 1) for name, number in spins.items()} for i in samples}
    found = with_spinning(ledger, samples, places)
    assert violations(found) == violations(ledger)
    for thread, before in zip(found.threads, ledger.threads, strict=True):
        causes = [cause for cause in thread.causes if cause.state == SPINNING and cause.name in spins]
        if thread != before and spins:
            assert {cause.name for cause in causes} <= set(spins)
            mine = sum(cause.time for cause in causes) - sum(c.time for c in before.causes if c.state == SPINNING)
            assert 0 <= mine <= thread.sampled[SPINNING].time


# ---- while measuring ----

CODE = {"a": b"\xf3\x90\xeb\xfc", "b": b"\xf3\x90\x90\xeb\xfb", None: b"\x90\x90\x90\xc3"}
"""Two loops with PAUSE, and code that is no loop."""


def sample(at: int, where: str | None, *, since: int = 0, tid: int = 7) -> CodeSample:
    address = 0x1000 + 16 * list(CODE).index(where)
    return CodeSample(at, since, tid, 1, 100, address, at, address, CODE[where])


class Told:
    """What the kernel tells of samples."""

    def __init__(self) -> None:
        self.waiting: list[CodeSample | Polled] = []

    def take(self) -> list[CodeSample | Polled]:
        told, self.waiting = self.waiting, []
        return told


def ledger_of(tid: int = 7, user: int = 1000) -> Ledger:
    thread = Thread(tid, 1, "t", 100, 100, None, 100 + user, user, {"user": Cell(user, 1)})
    return Ledger("bpf", Window(100, 100 + user), threads=(thread,))


def found_in(ledger: Ledger) -> tuple[int, int]:
    """Return the samples of user code and of spinning of the only thread."""
    (thread,) = ledger.threads
    sampled = thread.sampled
    return (sampled["user"].samples if "user" in sampled else 0, sampled[SPINNING].samples if sampled else 0)


def expected_spins(loops: list[str | None]) -> int:
    """Return how many of these samples spin: those in a loop from when two in a row were in it."""
    proven, found = set(), 0
    for i, loop in enumerate(loops):
        if loop is not None and loops[i - 1 : i] == [loop] and loop not in proven:
            proven.add(loop)
            found += 1  # the one before, too
        found += loop in proven
    return found


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the code is that of x86-64")
@given(st.lists(st.sampled_from(["a", "b", None]), max_size=30), st.sets(st.integers(0, 30)))
def test_samples_that_come_in_parts_tell_the_same(loops: list[str | None], looks: set[int]) -> None:
    told = Told()
    finder = SpinFinder(told, forget=False)
    for i, loop in enumerate(loops):
        told.waiting.append(sample(i + 1, loop))
        if i in looks:
            finder.look()
    finder.look()
    spins = expected_spins(loops)
    expected = (len(loops) - spins, spins) if spins else (0, 0)
    assert found_in(finder.told(ledger_of(), interval=False)) == expected
    assert found_in(finder.told(ledger_of(), interval=False)) == expected, "reading changes nothing"


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the code is that of x86-64")
@given(st.lists(st.sampled_from(["a", "b", None]), max_size=30), st.sets(st.integers(0, 31)))
def test_intervals_have_each_sample_once(loops: list[str | None], reads: set[int]) -> None:
    told = Told()
    finder = SpinFinder(told, forget=False)
    told.waiting = [sample(i + 1, loop) for i, loop in enumerate(loops)]
    spins = times = 0
    for at in [*sorted(reads), len(loops) + 1]:
        finder.look(at)
        (thread,) = finder.told(ledger_of(), interval=True).threads
        spins += thread.sampled[SPINNING].samples if thread.sampled else 0
        times += sum(cause.count for cause in thread.causes)
    whole = finder.told(ledger_of(), interval=False)
    assert found_in(whole)[1] == spins, "no interval takes back what an earlier one told"
    assert sum(cause.count for cause in whole.threads[0].causes) == times
    assert spins <= expected_spins(loops)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the code is that of x86-64")
def test_user_code_that_turns_out_to_be_polling_is_no_sample_of_user_code() -> None:
    told = Told()
    finder = SpinFinder(told, forget=False)
    told.waiting = [sample(1, "a"), sample(2, "a"), sample(3, None, since=50), Polled(7, 50), sample(4, None)]
    finder.look()
    assert found_in(finder.told(ledger_of(), interval=False)) == (1, 2)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the code is that of x86-64")
def test_a_serving_finder_forgets_threads_that_have_ended() -> None:
    told = Told()
    finder = SpinFinder(told, forget=True)
    told.waiting = [sample(1, "a"), sample(2, "a")]
    finder.look()
    ledger = ledger_of()
    ended = replace(ledger, threads=tuple(replace(thread, end=thread.until) for thread in ledger.threads))
    assert found_in(finder.told(ended, interval=True)) == (0, 2)
    assert not finder._threads
    assert not finder._by_tid


visits = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1)), max_size=60)
"""Instructions, and what is seen of a thread there."""


def at_instruction(number: int, visible: int, time: int = 1) -> CodeSample:
    address = 0x1000 + 4096 * number
    return CodeSample(time, 0, 7, 1, 100, address, visible, address, b"\xc3")


@given(visits)
def test_a_stretch_has_each_sample_to_which_the_thread_returned_once(seen: list[tuple[int, int]]) -> None:
    stretch, told = Stretch(), 0
    for i, (number, visible) in enumerate(seen):
        found = stretch.add(at_instruction(number, visible), lambda sample: False)
        here = seen[: i + 1]
        if found is None:
            assert any(other == number and state != visible for other, state in here[:-1])
            return
        told += sum(found.values())
        times = Counter(other for other, _ in here)
        returned = sum(n for n in times.values() if n > 1)
        assert told == (returned if sum(n - 1 for n in times.values()) >= RETURNS else 0)


@given(visits, st.sampled_from(range(4)))
def test_nothing_is_told_of_code_that_may_change_what_is_not_seen(seen: list[tuple[int, int]], hiding: int) -> None:
    stretch = Stretch()
    for number, visible in seen:
        found = stretch.add(at_instruction(number, visible), lambda sample: sample.address == 0x1000 + 4096 * hiding)
        if found is None:
            return
        assert not (found and 0x1000 + 4096 * hiding in stretch.states)


@given(visits, st.sets(st.integers(0, 60)))
def test_a_thread_that_comes_back_to_the_same_states_spins(seen: list[tuple[int, int]], reads: set[int]) -> None:
    told = Told()
    finder = SpinFinder(told, forget=False)
    parts = 0
    for i, (number, visible) in enumerate(seen):
        told.waiting.append(at_instruction(number, visible, i + 1))
        if i in reads:
            finder.look()
            user, spins = found_in(finder.told(ledger_of(), interval=True))
            assert min(user, spins) >= 0
            parts += spins
    finder.look()
    parts += found_in(finder.told(ledger_of(), interval=True))[1]
    user, spins = found_in(finder.told(ledger_of(), interval=False))
    assert spins == parts
    assert user + spins == (len(seen) if spins else 0)
    if len(set(seen)) == len({number for number, _ in seen}) and not reads:  # each instruction in one state
        times = Counter(seen).values()
        assert spins == (sum(n for n in times if n > 1) if sum(n - 1 for n in times) >= RETURNS else 0)
    if len(seen) == len(set(seen)):
        assert not spins, "it never came back"


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


KINDS = ("pthread", "mutex", "ring", "flag")
SECONDS = "1"
COMPUTES = ("strings", "chase", "integrate", "counters", "exchange")


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the compiled programs of the benchmarks are."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    folder = tmp_path_factory.mktemp("spinning")
    for name in ("spins", "computes"):
        options = ["-O2", "-pthread", "-o", str(folder / name), str(BENCHMARKS / f"{name}.c"), "-lm"]
        subprocess.run([compiler, *options], check=True)
    return folder


def together(program: Path, kinds: Sequence[str], seconds: str) -> list[str]:
    """The words of a command that runs a program in all these ways at once. Each says its kind, and what it says."""
    each = f'(said=$({program} "$kind" {seconds}); echo "$kind $said") & '
    return ["sh", "-c", f"for kind in {' '.join(kinds)}; do {each} done; wait"]


def spinners(said: str) -> dict[str, int]:
    """The threads that spun for long enough to be found, by kind. Processor time counts: they may get little of it."""
    found = [(words[0], int(words[1]), int(words[3])) for words in map(str.split, said.splitlines())]
    assert {kind for kind, _, _ in found} == set(KINDS)
    return {kind: tid for kind, spun, tid in found if spun >= 200_000_000}


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
def test_threads_that_spin_are_found_without_a_mark(programs: Path) -> None:
    found, said = run(*together(programs / "spins", KINDS, SECONDS))
    assert violations(found.ledger) == []
    for kind, tid in spinners(said).items():
        (thread,) = [thread for thread in found.ledger.threads if thread.tid == tid]
        assert SPINNING in thread.states, kind
        assert thread.states[SPINNING].time > 0
        assert thread.sampled[SPINNING].samples >= 2
        indices = found.ledger.indices(thread)
        assert indices.iopi == thread.times()[Kind.POLL] > 0
        assert indices.quality["iopi"] is Quality.SAMPLED
        assert indices.quality["epi"] is not Quality.EXACT
        limits = indices.interval["iopi"]
        assert limits is not None
        assert limits[0] <= indices.iopi <= limits[1]
        assert any(state == SPINNING and found.ledger.threads[of] == thread for of, state, _, _, _ in found.rows())


@KNOWN
@pytest.mark.root
@pytest.mark.kernel
def test_programs_that_compute_do_not_spin(programs: Path) -> None:
    found, _ = run(*together(programs / "computes", COMPUTES, "0.5"))
    assert [thread.name for thread in found.ledger.threads].count("computes") >= len(COMPUTES)
    assert all(SPINNING not in thread.states for thread in found.ledger.threads)


def measured(*command: str | Path, interval: float | None = None) -> tuple[list[Ledger], str]:
    """Measure a command as headway stat --spin does. Return its ledgers, the last one last, and what it printed."""
    each: list[Ledger] = []
    reading, writing = os.pipe()
    try:
        last = observe(
            Selection(),
            [str(word) for word in command],
            options=MeasureOptions(spin=True),
            prefer="bpf",
            interval=interval,
            each=each.append,
            stdout=writing,
        )
    finally:
        os.close(writing)
    with os.fdopen(reading) as said:
        return [*each, last.ledger], said.read()


@KNOWN
@pytest.mark.root
@pytest.mark.kernel
@pytest.mark.parametrize("interval", [pytest.param(None, marks=pytest.mark.exhaustive), 0.1])
def test_spinning_is_found_while_threads_are_measured(interval: float | None, programs: Path) -> None:
    found, said = measured(*together(programs / "spins", KINDS, SECONDS), interval=interval)
    assert [violations(ledger) for ledger in found] == [[]] * len(found)
    for kind, tid in spinners(said).items():
        threads = [(ledger, thread) for ledger in found for thread in ledger.threads if thread.tid == tid]
        spinning = [(ledger, thread) for ledger, thread in threads if SPINNING in thread.states]
        assert sum(thread.states[SPINNING].time for _, thread in spinning) > 0, kind
        assert all(thread.states[SPINNING].time == thread.sampled[SPINNING].time for _, thread in spinning)
        names = {cause.name for _, thread in spinning for cause in thread.causes if cause.state == SPINNING}
        assert all(cause.behind is Behind.OBJECT for _, thread in spinning for cause in thread.causes)
        function = "pthread_spin_lock (libc" if kind == "pthread" else "(spins)"
        # Where its process has ended before the place is looked up, that has no name.
        assert any(function in name or name.startswith("0x") for name in names), names
        for ledger, thread in spinning:
            indices = ledger.indices(thread)
            assert indices.quality["iopi"] is Quality.SAMPLED
            assert indices.quality["epi"] is not Quality.EXACT


@KNOWN
@pytest.mark.root
@pytest.mark.kernel
def test_programs_that_compute_do_not_spin_while_they_are_measured(programs: Path) -> None:
    found, _ = measured(*together(programs / "computes", COMPUTES, "0.5"))
    assert [thread.name for thread in found[-1].threads].count("computes") >= len(COMPUTES)
    assert all(SPINNING not in thread.states for thread in found[-1].threads)


@KNOWN
@pytest.mark.root
@pytest.mark.kernel
def test_a_recording_keeps_what_spun_and_its_transitions_stay_exact(programs: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="needs the extra recording")
    run = tmp_path / "run.hw"
    record = [sys.executable, "-m", "headway", "record", "--spin", "-q", "-o", str(run), "--"]
    subprocess.run([*record, str(programs / "spins"), "flag", "0.5"], check=True, stdout=subprocess.DEVNULL)
    with headway.open(run) as recording:
        kept, counted = recording.kept_ledger(), recording.ledger()
    assert kept is not None
    assert violations(kept) == violations(counted) == []
    exact = {thread.key: thread for thread in counted.threads}
    spinning = [thread for thread in kept.threads if SPINNING in thread.states]
    assert spinning
    for thread in spinning:
        both = thread.states["user"].time + thread.states[SPINNING].time
        assert both == exact[thread.key].states["user"].time
        assert thread.sampled[SPINNING].samples >= 2
        assert SPINNING not in exact[thread.key].states
    # Other programs may have decided when threads ran. what-if then predicts only if it is told to.
    predicts = (what_if, [run, "--anyway"])
    for command, words in ((at_moment, [run, "0.2s"]), (diff, [run, run]), predicts, (critical_path, [run])):
        answer = CliRunner().invoke(command.command, [str(word) for word in words])
        assert answer.exit_code == 0, answer.output
        assert "user code spinning" in answer.stderr, command
