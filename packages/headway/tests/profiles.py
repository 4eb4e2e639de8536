"""Profiles to show, to write and to read: any that keep the rules, and a small one that is known."""

from __future__ import annotations

from hypothesis import strategies as st

from headway.model import Cell, Collection, Frame, Ledger, Processor, Profile, SampleColumns, Thread, Window, is_exact

COLLECTION = Collection(
    policy="watermark",
    capacity=131072,
    looks=12,
    drains=10,
    useful=8,
    last_drains=3,
    clock_reads=0,
    wakeups=21,
    collecting_ns=1_200_000,
    stacks_ns=3_000_000,
)
numbers = st.integers(0, 1 << 50)
collections = st.builds(
    Collection, st.sampled_from(["watermark", "cpu-time", "fixed"]), st.integers(1, 1 << 40), *[numbers] * 8
)

STATES = ("user", "kernel.read", "poll.read.pipe", "wait.futex", "ready", "stolen", "overhead", "softirq.net_rx")
WORDS = st.text(min_size=1, max_size=12) | st.sampled_from(
    [
        "a;b",
        "two\nlines",
        "tab\there",
        "1 2 3",
        "\x1b[31mred",
        "\udc80",
        "name 99",
        "[user]",
        "λ",
        "operator()",
        "x" * 2000,
    ]
)


@st.composite
def profiles(draw: st.DrawFn) -> Profile:
    """Any profile whose ledger keeps the law of conservation."""
    frames = tuple(
        Frame(*row)
        for row in draw(
            st.lists(
                st.tuples(
                    st.none() | WORDS,
                    st.none() | WORDS,
                    st.none() | st.integers(1, 1 << 20),
                    st.none() | WORDS,
                    st.none() | st.integers(0, (1 << 64) - 1),
                    st.sampled_from(["user", "kernel", "python", "none"]),
                ),
                max_size=6,
            )
        )
    )
    some = st.lists(st.integers(0, len(frames) - 1), max_size=8) if frames else st.just([])
    stacks = tuple(tuple(stack) for stack in draw(st.lists(some, max_size=5)))
    threads = []
    for tid in range(1, draw(st.integers(0, 3)) + 1):
        cells = {state: Cell(draw(st.integers(0, 10**9)), draw(st.integers(0, 99))) for state in draw(_some_states())}
        span = sum(cell.time for cell in cells.values())
        threads.append(Thread(tid, 1, draw(WORDS), 5, 5, None, 10**10, span, cells))
    rows = draw(
        st.lists(
            st.tuples(
                st.integers(5, 10**10),
                st.integers(-1, len(threads) - 1),
                st.integers(-1, 7),
                st.integers(0, len(STATES) - 1),
                st.integers(0, 10**12),
                st.integers(1, 1000),
                st.integers(-1, len(stacks) - 1),
            ),
            max_size=20,
        )
    )
    machine = (Processor(0, 10**10 - 5, {"idle": Cell(10**10 - 5, 1)}),)
    ledger = Ledger("bpf", Window(5, 10**10), tuple(threads), machine)
    notes = tuple(draw(st.lists(WORDS, max_size=2)))
    collection = draw(st.none() | collections)
    columns = SampleColumns.of(rows)
    return Profile(ledger, columns, STATES, stacks, frames, 1_003_009, {"samples_lost": 3}, notes, collection)


def _some_states() -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(STATES), unique=True)


def small() -> Profile:
    """One thread: 600 samples in main;work;inner, 300 in main;work, 100 in main;work;work;inner; and two waits."""
    main, work, inner = (Frame(name, "a.c", line, "/bin/app", line, "user") for line, name in
                         enumerate(("main", "work", "inner"), 1))  # fmt: skip
    sleep = Frame("nanosleep", None, None, "/lib/libc.so.6", 9, "user")
    kernel = Frame("schedule", None, None, "[kernel]", 8, "kernel")
    frames = (main, work, inner, sleep, kernel)
    stacks = ((2, 1, 0), (1, 0), (2, 1, 1, 0), (4, 3, 0))
    states = ("user", "wait.sleep")
    rows = [(10 + i, 0, 0, 0, 1_000_000, 1, 0 if i < 600 else 1 if i < 900 else 2) for i in range(1000)]
    rows.append((10**9, 0, -1, 1, 700_000_000, 40, 3))
    rows.append((10**9, 0, -1, 1, 300_000_000, 2, -1))
    cells = {"user": Cell(999_000_000, 42), "wait.sleep": Cell(1_000_000_000, 42)}
    thread = Thread(7, 7, "app", 0, 0, None, 1_999_000_000, 1_999_000_000, cells)
    ledger = Ledger("bpf", Window(0, 1_999_000_000), (thread,), (Processor(0, 1, {"idle": Cell(1, 1)}),))
    profile = Profile(ledger, SampleColumns.of(rows), states, stacks, frames, 1_000_000, collection=COLLECTION)
    assert all(not is_exact(state) for state in states[:1])
    return profile
