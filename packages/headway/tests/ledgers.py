"""Ledgers to test with: any that keep the law, and some with names that mean harm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TypeVar

from hypothesis import strategies as st

from headway.model import (
    READY,
    READY_PARTS,
    RUNNING,
    Behind,
    Cause,
    CauseKey,
    Cell,
    Counted,
    Durations,
    Estimate,
    KernelClock,
    Ledger,
    Longest,
    Overhead,
    Precision,
    Processor,
    Quality,
    StateDurations,
    Thread,
    Window,
    bucket_of,
    count_of_durations,
    kind_of,
    list_causes,
)

STATES = (
    "user",
    "running",
    "memory",
    "kernel.read",
    "kernel.fault",
    "kernel.futex",
    "irq.timer",
    "softirq.net_rx",
    "noneffective.parse",
    "poll",
    "stall",
    "stolen",
    "overhead",
    "ready",
    "ready.throttled",
    "ready.own",
    "ready.neighbour",
    "ready.interrupt",
    "ready.stolen",
    "ready.wakeup",
    "wait.futex",
    "wait.disk",
    "stopped",
    "idle",
    "unknown",
    "unknown.elsewhere",
)
HOSTILE_NAMES = (
    "",
    "[red]bold[/red]",
    "\x1b[31mred\x1b[0m",
    "a\nb\tc\r",
    "\x9b2J",
    "\x7f",
    "日本語のスレッド",
    "e\u0301" * 20,
    "\u0301\u0301",
    "z" + "\u0300" * 500,
    "\u05e9\u05dc\u05d5\u05dd 123",
    "\u202eevil",
    "a\u200db",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "\U0001f1e9\U0001f1ea",
    "\udc80\udcff",
    "\ud800",
    "x" * 10_000,
    "\u00a0\u3000",
    ":smile:",
    "\ufeff",
    "\u2028",
)

T = TypeVar("T")


def chosen(of: Sequence[T], number: int) -> list[T]:
    """Those of these whose bits the number has."""
    return [one for place, one in enumerate(of) if number >> place & 1]


def some(of: Sequence[T]) -> st.SearchStrategy[list[T]]:
    """Any of these, in their order. One draw, where a list of them has two for each: tests of ledgers draw for most of
    their time.
    """
    return st.integers(0, (1 << len(of)) - 1).map(lambda number: chosen(of, number))


qualities = st.sampled_from(Quality)
precisions = st.builds(
    Precision, qualities, qualities, qualities, qualities, qualities, st.sampled_from([None, *Quality])
)
figures = st.none() | st.integers(0, 10**12)
events = st.none() | st.builds(
    lambda names, numbers: dict(zip(names, numbers, strict=False)),
    some(("page-faults", "r1a3", "cycles:u")),
    st.tuples(figures, figures, figures),
)
cells = st.builds(Cell, st.integers(0, 10**15), figures, figures, figures, figures, figures, figures, events)
counts = st.builds(lambda enabled, lost: Counted(enabled + lost, enabled), st.integers(0, 10**12), st.integers(0, 9))
names = st.sampled_from(HOSTILE_NAMES) | st.text(max_size=40) | st.sampled_from(["xz", "xz-worker", "kworker/0:1"])
state_names = st.sampled_from(STATES)
any_state_names = state_names | names.map("noneffective.{}".format) | names


def states(keys: st.SearchStrategy[str] = state_names) -> st.SearchStrategy[Mapping[str, Cell]]:
    return st.dictionaries(keys, cells, max_size=8)


_behind = some(list(Behind))
_wakers = st.integers(0, 99).map(lambda tid: tid or None)
_times = st.integers(1, 1000)


@st.composite
def causes(draw: st.DrawFn, found: Mapping[str, Cell]) -> tuple[Cause, ...]:
    """What is behind these states: of each and each `Behind` no more than its time."""
    kept: dict[CauseKey, tuple[int, int]] = {}
    for state, cell in found.items():
        for behind in draw(_behind):
            cuts = sorted(draw(st.lists(st.integers(0, cell.time), max_size=3)))
            for time in (b - a for a, b in pairwise([0, *cuts])):
                tid = None if behind is Behind.OBJECT else draw(_wakers)
                key = state, behind, draw(names), tid
                old = kept.get(key, (0, 0))
                kept[key] = old[0] + time, old[1] + draw(_times)
    return list_causes(kept)


_samples = st.integers(0, 10**6)


@st.composite
def sampled(draw: st.DrawFn, found: Mapping[str, Cell]) -> Mapping[str, Estimate]:
    """Of some of these states, parts that were divided by samples and by mode; often of none."""
    there = [state for state in found if kind_of(state).in_rpi and state != RUNNING]
    parts = {}
    for state in draw(some(there)):
        time = draw(st.integers(0, found[state].time))
        by_mode = draw(st.integers(0, found[state].time - time)) if draw(st.booleans()) else 0
        parts[state] = Estimate(time, draw(_samples), by_mode, draw(_samples) if by_mode else 0)
    return parts


_longest = st.none() | st.builds(Longest, st.integers(0, 10**12), st.none() | st.integers(0, 10**12))
histograms = st.builds(
    lambda times, parts, opened, longest: Durations(
        tuple(sorted({bucket_of(time, parts): number for time, number in times.items()}.items())),
        parts,
        0,
        opened,
        longest,
    ),
    st.dictionaries(st.sampled_from([0, 1, 2, 3, 1000, 10**6, 10**6 + 1, 1 << 50]), st.integers(1, 10**4), max_size=3),
    st.sampled_from([1, 4]),
    st.integers(-1, 3),
    _longest,
)


@st.composite
def durations(draw: st.DrawFn, found: Mapping[str, Cell]) -> StateDurations | None:
    """How long occurrences of some of these states lasted, as many as there were; often it was not kept."""
    known = [state for state, cell in found.items() if cell.count is not None]
    if not known or draw(st.booleans()):
        return None
    kept = {}
    for state in draw(some(known))[:3]:
        one = draw(histograms)
        kept[READY if state in READY_PARTS else state] = one
    for state, one in kept.items():
        kept[state] = replace(one, unplaced=(count_of_durations(found, state) or 0) - one.count)
    return kept


kernel_clocks = st.none() | st.one_of(
    st.just(KernelClock(None, Quality.UNAVAILABLE)),
    st.builds(KernelClock, st.integers(0, 10**9), st.sampled_from([Quality.EXACT, Quality.BOUND])),
)


_pod = "/kubepods.slice/kubepods-pod0a1b2c3d_0a1b_0a1b_0a1b_0a1b2c3d4e5f.slice"
cgroups = (
    st.none()
    | names.map(lambda name: f"/{name[:255]}")
    | st.sampled_from(
        [
            "/",
            "/system.slice/nginx.service",
            f"/system.slice/docker-{'5a' * 32}.scope",
            f"{_pod}/cri-containerd-{'5a' * 32}.scope",
            f"{_pod}/crio-{'5b' * 32}.scope",
        ]
    )
)
"""Control groups: of services, containers and pods, and names that no runtime gives."""


_one = st.integers(1, 10**6)
_pieces = st.tuples(_one, _one, _one, _one, _one, _one, events)


@st.composite
def threads(draw: st.DrawFn, window: Window, tid: int, keys: st.SearchStrategy[str] = state_names) -> Thread:
    """A thread that keeps the law: its states fill the time from its start to its end or the window's."""
    start = draw(st.integers(window.start, window.end))
    end = draw(st.integers(start, window.end)) if draw(st.booleans()) else None
    until = window.end if end is None else end
    cuts = sorted(draw(st.lists(st.integers(start, until), max_size=6)))
    parts = [b - a for a, b in zip([start, *cuts], [*cuts, until], strict=True)]
    found: dict[str, Cell] = {}
    for part in parts:
        state = draw(keys)
        piece = Cell(part, *draw(_pieces))
        found[state] = found[state] + piece if state in found else piece
    pid = draw(st.integers(1, tid))
    birth = draw(st.integers(0, start))
    clock = draw(kernel_clocks)
    behind, parts_by_samples = draw(causes(found)), draw(sampled(found))
    name = draw(names)
    lasted = draw(durations(found))
    return Thread(
        tid,
        pid,
        name,
        birth,
        start,
        end,
        until,
        until - start,
        found,
        causes=behind,
        kernel_clock=clock,
        sampled=parts_by_samples,
        durations=lasted,
        cgroup=draw(cgroups),
    )


windows = st.builds(lambda start, length: Window(start, start + length), st.integers(0, 10**12), st.integers(0, 10**11))


_units = st.sampled_from(["ns", "cycles"])
_sources = st.sampled_from(["bpf", "proc", "machine", "recording"])
_INDICES = ("rpi", "epi", "mpi", "kpi", "iopi", "stolen")
_reasons = st.builds(
    lambda names, words: dict(zip(names, words, strict=False)), some(_INDICES), st.text("abc", min_size=6, max_size=6)
)
_losses = st.dictionaries(st.sampled_from(["transitions", "threads"]), st.integers(0, 1000))
_counted: st.SearchStrategy[dict[str, Counted]] = st.just({}) | st.dictionaries(
    st.sampled_from(["cycles", "page-faults"]), counts
)
_asked = st.sampled_from([(), ("page-faults",), ("r1a3", "page-faults")])


@st.composite
def ledgers(
    draw: st.DrawFn,
    tids: Sequence[int] = (1, 4711, 4712, 4_194_304),
    window: Window | None = None,
    keys: st.SearchStrategy[str] = state_names,
    time_unit: str | None = "ns",
    precision: st.SearchStrategy[Precision] = precisions,
) -> Ledger:
    """A ledger that keeps the law of conservation."""
    span = draw(windows) if window is None else window
    unit = draw(_units) if time_unit is None else time_unit
    processors = []
    for cpu in range(draw(st.integers(0, 3))):
        busy = draw(st.integers(0, span.duration))
        cells_there = {draw(keys): Cell(busy, 1), "idle": Cell(span.duration - busy, 1)}
        whole = sum(c.time for c in cells_there.values())
        processors.append(Processor(cpu, whole, cells_there, draw(sampled(cells_there))))
    return Ledger(
        source=draw(_sources),
        window=span,
        threads=tuple(draw(threads(span, tid, keys)) for tid in sorted(draw(some(tids)))),
        processors=tuple(processors),
        precision=draw(precision),
        reasons=draw(_reasons),
        losses=draw(_losses),
        overhead=Overhead(draw(figures), draw(figures)),
        unit=unit,
        time_unit=unit,
        counted=draw(_counted),
        events=draw(_asked),
    )
