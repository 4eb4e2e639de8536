"""Made-up transitions like those of real programs, for what must be measured at a chosen rate.

Each processor runs a few threads in turn. A thread calls the kernel in a loop, whose spans vary as measured ones do (a
floor, noise, a long tail). The timer interrupts it every 4 ms, and then it waits until another thread wakes it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from headway.model import NO_STATE, Batch, OpenState, ThreadSeen, Transitions

__all__ = ["STATES", "batches"]

STATES = (
    "",
    "user",
    "kernel.getppid",
    "kernel.futex",
    "irq.timer",
    "wait.futex",
    "ready",
    "kernel.read",
    "idle",
    *(f"kernel.call{n}" for n in range(391)),
)
_USER, _CALL, _FUTEX, _TIMER, _WAIT, _READY = 1, 2, 3, 4, 5, 6
_TICK = 4_000_000
_PRICE = 38
"""The observer's overhead in a span, ns."""

Numbers = NDArray[np.int64]


def batches(
    rows: int, *, cpus: int = 2, threads: int = 3, calls: int = 400, batch: int = 1 << 16, seed: int = 0
) -> Iterator[Batch]:
    """Yield about ``rows`` rows: ``threads`` for each processor, which make about ``calls`` calls before they wait."""
    random = np.random.default_rng(seed)
    start = 5_000_000_000_000
    clocks = np.full(cpus, start)
    waits = dict.fromkeys(range(cpus * threads), (start, 0))
    seen = [ThreadSeen(n, 5000 + n, 5000, f"worker-{n}", start, start, None) for n in range(cpus * threads)]
    turn, done, since = 0, 0, start
    while done < rows:
        columns = []
        for cpu in range(cpus):
            made = 0
            while made < batch // cpus:
                thread = cpu * threads + turn % threads
                turn += 1
                part = _run(random, thread, cpu, int(clocks[cpu]), calls, waits, cpus * threads)
                clocks[cpu] = part[0][-1] + part[1][-1]
                columns.append(part)
                made += len(part[0])
        table = [np.concatenate([part[at] for part in columns]) for at in range(10)]
        done += len(table[0])
        until = int(clocks.max())
        yield Batch(
            since,
            until,
            Transitions(
                table[0],
                table[1],
                table[2].astype(np.int32),
                table[3].astype(np.int16),
                table[4].astype(np.int32),
                table[5].astype(np.uint16),
                table[6].astype(np.int32),
                table[7].astype(np.int32),
                table[8].astype(np.int32),
                table[9].astype(np.uint16),
                STATES,
            ),
            seen,
            [OpenState(thread, -1, "wait.futex", begun) for thread, (begun, _) in waits.items()],
            {"handlers_skipped": 0},
        )
        since, seen = until, []


def _run(
    random: np.random.Generator,
    thread: int,
    cpu: int,
    now: int,
    calls: int,
    waits: dict[int, tuple[int, int]],
    all_threads: int,
) -> list[Numbers]:
    """Return one turn of a thread: the wait before it, its calls, and the call in which it begins to wait."""
    n = int(random.geometric(1 / calls))
    begun, waker = waits[thread]
    woken = max(begun, now - int(random.gamma(2.0, 3000.0)))
    spans = 58 + random.gamma(2.0, 4.0, 2 * n).astype(np.int64)
    spans[1::2] += 34 + random.gamma(1.5, 5.0, n).astype(np.int64)
    tail = random.random(2 * n) < 0.01
    spans[tail] += random.lognormal(7.0, 1.0, int(tail.sum())).astype(np.int64)
    states = np.tile(np.array([_USER, _CALL]), n)
    states[-1] = _FUTEX
    times = now + np.concatenate([[0], np.cumsum(spans)[:-1]])
    counts = np.ones(2 * n, np.int64)
    ends = times + spans
    ticks = np.arange(-(-now // _TICK) * _TICK, ends[-1], _TICK)
    where = np.searchsorted(ends, ticks, side="right")
    if len(ticks):  # an interrupted span is divided in two, with the interrupt between them
        length = 1500 + random.gamma(2.0, 300.0, len(ticks)).astype(np.int64)
        first = ticks - times[where]
        rest = ends[where] - ticks
        shift = np.zeros(2 * n, np.int64)
        np.add.at(shift, where, length)
        shift = np.cumsum(shift)
        before = shift - np.bincount(where, length, 2 * n).astype(np.int64)
        times, ends = times + before, ends + shift
        spans[where] = first
        counts[where] = 0
        at = where + 1
        begin = times[where] + first
        times = np.insert(times, np.repeat(at, 2), np.stack([begin, begin + length], 1).ravel())
        spans = np.insert(spans, np.repeat(at, 2), np.stack([length, rest], 1).ravel())
        states = np.insert(states, np.repeat(at, 2), np.stack([np.full(len(at), _TIMER), states[where]], 1).ravel())
        counts = np.insert(counts, np.repeat(at, 2), 1)
    rows = len(times)
    none = np.full(rows, -1)
    waits[thread] = int(times[-1] + spans[-1]), int(random.integers(all_threads))
    columns = [
        np.concatenate([[begun, woken], times]),
        np.concatenate([[woken - begun, now - woken], spans]),
        np.concatenate([[0, 0], np.minimum(_PRICE, spans)]),
        np.concatenate([[-1, -1], np.full(rows, cpu)]),
        np.full(rows + 2, thread),
        np.concatenate([[_WAIT, _READY], states]),
        np.concatenate([[1, 1], counts]),
        np.concatenate([[waker, -1], none]),
        np.zeros(rows + 2, np.int64),
        np.full(rows + 2, NO_STATE),
    ]
    return [np.asarray(column, np.int64) for column in columns]
