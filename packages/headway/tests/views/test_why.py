from __future__ import annotations

import io
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ledgers import HOSTILE_NAMES, any_state_names, ledgers

from headway.model import Behind, Cause, Cell, Kind, Ledger, Thread, Window
from headway.views.console import Console
from headway.views.lines import text_of
from headway.views.printable import width_of
from headway.views.table import print_table, table
from headway.views.why import PARTS, in_a_line, why

MS = 1_000_000
SPAN = 1_000 * MS


def thread(tid: int, name: str, states: dict[str, tuple[int, int]], *causes: Cause, pid: int = 70) -> Thread:
    """Times in ms; the rest it ran."""
    cells = {state: Cell(time * MS, count) for state, (time, count) in states.items()}
    cells["user"] = Cell(SPAN - sum(cell.time for cell in cells.values()), 1)
    return Thread(tid, pid, name, 0, 0, None, SPAN, SPAN, cells, causes)


def cause(state: str, behind: Behind, name: str, time: int, count: int = 1, tid: int | None = None) -> Cause:
    return Cause(state, behind, name, time * MS, count, tid)


OBJECT, WAKER, HOLDER = Behind.OBJECT, Behind.WAKER, Behind.HOLDER
WAITER = thread(
    71,
    "waiter",
    {"wait.futex": (300, 30), "wait.pipe": (100, 4), "ready": (200, 9), "kernel.read": (50, 100), "irq.device": (6, 3)},
    cause("wait.futex", OBJECT, "prog: lock", 240, 20),
    cause("wait.futex", WAKER, "holder", 270, 25, 72),
    cause("wait.futex", WAKER, "irq.timer", 30, 5),
    cause("wait.pipe", OBJECT, "pipe:[17]", 100, 4),
    cause("ready", HOLDER, "holder", 100, 5, 72),
    cause("ready", HOLDER, "other", 40, 3, 99),
    cause("ready", HOLDER, "cc1", 20, 3, 1234),
    cause("ready", HOLDER, "idle", 10, 2),
    cause("irq.device", OBJECT, "virtio0 (irq 7)", 6, 3),
)
HOLD = thread(72, "holder", {"wait.sleep": (500, 5), "stolen": (10, 2)}, cause("stolen", OBJECT, "user", 10, 2))
OTHER = thread(99, "other", {"poll.epoll_wait.epoll": (20, 400), "poll.parse": (5, 1)}, pid=98)
LEDGER = Ledger("bpf", Window(0, SPAN), (WAITER, HOLD, OTHER))


def lines(ledger: Ledger, *parts: str, width: int = 80, limit: int | None = 25, verbose: bool = False) -> list[str]:
    return [text_of(line) for line in why(ledger, parts, width=width, limit=limit, verbose=verbose)]


def words(found: list[str]) -> list[list[str]]:
    return [line.split() for line in found]


def test_waiting_is_told_by_reason_what_it_was_for_and_who_ended_it() -> None:
    assert words(lines(LEDGER, "wait")) == [
        ["why", "threads", "waited", "time", "share", "count", "mean"],
        ["holder", "72", "500", "ms", "50", "%", "5", "100", "ms"],
        ["wait.sleep", "500", "ms", "100", "%", "5", "100", "ms"],
        ["waiter", "71", "400", "ms", "40", "%", "34", "11.8", "ms"],
        ["wait.futex", "300", "ms", "75", "%", "30", "10.0", "ms"],
        ["for", "prog:", "lock", "240", "ms", "80", "%", "20", "12.0", "ms"],
        ["not", "known", "60.0", "ms", "20", "%"],
        ["woken", "by", "holder", "72", "270", "ms", "90", "%", "25", "10.8", "ms"],
        ["irq.timer", "30.0", "ms", "10", "%", "5", "6.00", "ms"],
        ["wait.pipe", "100", "ms", "25", "%", "4", "25.0", "ms"],
        ["for", "pipe:[17]", "100", "ms", "100", "%", "4", "25.0", "ms"],
    ]


def test_being_ready_is_told_by_who_held_the_processor_and_whose_thread_that_is() -> None:
    assert words(lines(LEDGER, "ready")[1:]) == [
        ["waiter", "71", "200", "ms", "20", "%", "9", "22.2", "ms"],
        ["held", "by", "its", "own", "process", "100", "ms", "50", "%", "5", "20.0", "ms"],
        ["holder", "72", "100", "ms", "100", "%", "5", "20.0", "ms"],
        ["held", "by", "other", "processes", "40.0", "ms", "20", "%", "3", "13.3", "ms"],
        ["other", "99", "40.0", "ms", "100", "%", "3", "13.3", "ms"],
        ["held", "by", "threads", "that", "are", "not", "measured", "20.0", "ms", "10", "%", "3", "6.67", "ms"],
        ["cc1", "1234", "20.0", "ms", "100", "%", "3", "6.67", "ms"],
        ["nobody:", "the", "processor", "was", "idle", "10.0", "ms", "5", "%", "2", "5.00", "ms"],
        ["not", "known", "30.0", "ms", "15", "%"],
    ]


def test_what_had_the_processor_is_told_by_what_it_was() -> None:
    """A thread that has the name of something else is told from it by its id, or by the words after its name."""
    behind = (
        cause("ready", HOLDER, "irq.timer", 30, 3),
        cause("ready", HOLDER, "softirq.net_rx", 10, 1),
        cause("ready", HOLDER, "agent (hidden from tracing)", 20, 1, 68),
        cause("ready", HOLDER, "idle", 9, 1),
        cause("ready", HOLDER, "still ready at the end", 8, 1),
        cause("ready", HOLDER, "forgotten", 7, 1),
        cause("ready", HOLDER, "not known", 6, 0),
        cause("ready", HOLDER, "idle", 5, 1, 4711),
        cause("ready", HOLDER, "irq.timer (not visible here)", 5, 1),
    )
    ledger = replace(LEDGER, threads=(thread(71, "a", {"ready": (100, 9)}, *behind),))
    assert [re.split(r" +[0-9.]+ ms", row)[0].strip() for row in lines(ledger, "ready", width=120)[2:]] == [
        "held by interrupts",
        "irq.timer",
        "softirq.net_rx",
        "held by threads hidden from tracing",
        "agent (hidden from tracing) 68",
        "held by threads that are not measured",
        "idle 4711",
        "irq.timer (not visible here)",
        "nobody: the processor was idle",
        "not known: many had the processor later",
        "not known",
        "not known: still ready at the end",
    ]


def test_the_kernel_is_told_by_call_and_interrupt_and_that_by_its_line() -> None:
    assert words(lines(LEDGER, "kernel")[2:]) == [
        ["kernel.read", "50.0", "ms", "89", "%", "100", "500", "µs"],
        ["irq.device", "6.00", "ms", "11", "%", "3", "2.00", "ms"],
        ["for", "virtio0", "(irq", "7)", "6.00", "ms", "100", "%", "3", "2.00", "ms"],
    ]


def test_polling_is_told_by_call_and_file_and_what_was_stolen_by_where_from() -> None:
    assert [line[0] for line in words(lines(LEDGER, "poll"))[2:]] == ["poll.epoll_wait.epoll", "poll.parse"]
    assert words(lines(LEDGER, "stolen"))[2] == ["user", "10.0", "ms", "100", "%", "2", "5.00", "ms"]


def test_parts_come_in_the_order_asked_for_each_once() -> None:
    found = lines(LEDGER, "stolen", "wait", "stolen")
    titles = [line for line in found if line.startswith(("why", "what"))]
    assert [title.split("  ")[0] for title in titles] == ["what time was stolen from", "why threads waited"]


def test_what_never_happened_is_a_sentence() -> None:
    alone = replace(LEDGER, threads=(HOLD,))
    assert lines(alone, "poll", "ready") == ["no thread polled", "", "no thread had to wait for a processor"]
    unseen = replace(alone, reasons={"iopi": "/proc does not tell"})
    assert lines(unseen, "poll") == ["no thread polled, as far as is known: /proc does not tell"]


def test_a_source_that_records_nothing_says_why_in_one_sentence() -> None:
    bare = replace(LEDGER, source="proc", threads=(replace(WAITER, causes=()),))
    found = lines(bare, "wait", width=100)
    assert [line for line in found if "/proc" in line] == [
        "/proc does not show the causes; headway doctor says what the eBPF source needs"
    ]
    assert "not known" not in " ".join(found)
    assert not [line for line in lines(LEDGER, "wait") if "/proc" in line]


def test_the_rest_is_summed_up() -> None:
    many = tuple(thread(100 + i, "sleeper", {"wait.sleep": (10 + i, 1)}) for i in range(5))
    found = words(lines(replace(LEDGER, threads=(*many, WAITER)), "wait", limit=3))
    assert found[-1] == ["…", "3", "more", "threads", "33.0", "ms"]
    objects = tuple(cause("wait.futex", OBJECT, f"lock {i}", 20 - i) for i in range(9))
    found = words(lines(replace(LEDGER, threads=(thread(1, "a", {"wait.futex": (200, 9)}, *objects),)), "wait"))
    assert found[8] == ["…", "4", "more", "54.0", "ms", "27", "%", "4", "13.5", "ms"]
    assert found[9] == ["not", "known", "56.0", "ms", "28", "%"]


def test_small_things_that_differ_only_in_their_place_are_one_line_and_large_ones_are_not() -> None:
    small = [cause("wait.futex", OBJECT, f"prog: table+{i:#x}", 1) for i in range(1, 300)]
    pipes = [cause("wait.futex", OBJECT, f"pipe:[{i}]", 1) for i in range(100)]
    large = cause("wait.futex", OBJECT, "prog: table+0x8000", 400)
    ledger = replace(LEDGER, threads=(thread(1, "a", {"wait.futex": (900, 900)}, large, *small, *pipes),))
    found = words(lines(ledger, "wait"))
    assert found[3][:3] == ["for", "prog:", "table+0x8000"]
    assert found[4][:5] == ["prog:", "table+…", "(299", "of", "them)"]
    assert found[5][:4] == ["pipe:…", "(100", "of", "them)"]


def pool(size: int) -> tuple[Thread, ...]:
    return tuple(
        thread(
            1000 + i,
            f"worker-{i}",
            {"wait.futex": (100 + i % 7, 10), "ready": (10, 1)},
            cause("wait.futex", OBJECT, "prog: queue", 100, 10),
            cause("wait.futex", WAKER, f"worker-{(i + 1) % size}", 100, 10, 1000 + (i + 1) % size),
        )
        for i in range(size)
    )


def test_many_threads_are_explained_by_name_and_then_have_a_line_each() -> None:
    found = lines(Ledger("bpf", Window(0, SPAN), (*pool(480), WAITER)), "wait", width=120, limit=3)
    assert found[1].startswith("worker-* (480 threads, process 70)")
    assert found[3].split()[:3] == ["for", "prog:", "queue"]
    assert found[5].split()[:5] == ["woken", "by", "worker-*", "(480", "threads)"]
    at = found.index("of these")
    assert found[at + 1].split()[:2] == ["waiter", "71"]
    assert "futex prog: queue woken by worker-" in found[at + 2]
    assert found[at + 4].split()[:4] == ["…", "478", "more", "threads"]
    assert len(found) < 25


def test_with_verbose_each_thread_is_explained_however_many_they_are() -> None:
    found = lines(Ledger("bpf", Window(0, SPAN), pool(20)), "wait", verbose=True, limit=None)
    assert sum(line.startswith("worker-") for line in found) == 20
    assert "of these" not in found


def test_threads_of_several_processes_say_so() -> None:
    threads = tuple(replace(t, pid=t.tid) for t in pool(9))
    assert "worker-* (9 threads, 9 processes)" in lines(Ledger("bpf", Window(0, SPAN), threads), "wait")[1]


def test_a_state_says_in_a_line_what_is_behind_it() -> None:
    assert in_a_line(WAITER, "wait.futex", 80) == "for prog: lock 80 %; woken by holder 72 90 %, irq.timer 10 %"
    assert in_a_line(WAITER, "wait.futex", 45) == "for prog: lock 80 %; woken by holder 72 90 %"
    assert in_a_line(WAITER, "ready", 60) == "held by holder 72 50 %, other 99 20 %, cc1 1234 10 %"
    assert in_a_line(WAITER, "user", 80) == ""
    text = "\n".join(text_of(line) for line in table(LEDGER, verbose=True))
    assert "              for prog: lock 80 %; woken by holder 72 90 %, irq.timer 10 %\n" in text


@pytest.mark.parametrize("width", [80, 120, 160])
def test_figures_stand_below_their_titles(width: int) -> None:
    found = [line for line in lines(LEDGER, *PARTS, width=width) if "ms" in line or line.endswith("mean")]
    assert max(map(width_of, found)) <= width
    ends = {width_of(line[: line.rindex(" ms", 0, line.index("%")) + 3]) for line in found if "%" in line}
    (end,) = ends
    assert {line.rindex("time") + 4 for line in found if line.endswith("mean")} == {end}


@given(ledgers(keys=any_state_names, time_unit=None), st.integers(1, 220), st.booleans(), st.none() | st.integers(1, 3))
def test_no_line_is_wider_than_there_is_room(ledger: Ledger, width: int, verbose: bool, limit: int | None) -> None:
    for line in lines(ledger, *PARTS, width=width, limit=limit, verbose=verbose):
        assert width_of(line) <= width
        assert line.isprintable()


@given(st.lists(st.sampled_from(HOSTILE_NAMES), min_size=1, max_size=12), st.sampled_from([80, 120, 160]))
def test_names_that_mean_harm_do_none(names: list[str], width: int) -> None:
    threads = tuple(
        thread(
            100 + i,
            name,
            {"wait.futex": (10, 1), "ready": (10, 1)},
            *(cause("wait.futex", behind, other, 1) for behind in (OBJECT, WAKER) for other in set(names[:9])),
            cause("ready", HOLDER, name, 5, 1, i),
        )
        for i, name in enumerate(names)
    )
    for line in lines(Ledger("bpf", Window(0, SPAN), threads), "wait", "ready", width=width):
        assert width_of(line) <= width
        assert line.isprintable()


@given(ledgers(keys=any_state_names), st.sampled_from(PARTS))
def test_all_the_time_asked_about_is_in_some_line(ledger: Ledger, part: str) -> None:
    rows = lines(ledger, part, limit=1, verbose=True)
    had = [t for t in ledger.threads if t.times()[Kind(part)]]
    rest = [row for row in rows if row.startswith("… ") and "more thread" in row]
    assert len(rest) == (len(had) > 1)
    assert rows[0].startswith(("why", "what")) == bool(had)


@pytest.mark.parametrize("terminal", [True, False])
def test_no_colour_means_no_escape_byte(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setenv("NO_COLOR", "1")
    print_table(Console(out, width=80, terminal=terminal), LEDGER, verbose=True, parts=PARTS)
    assert "\x1b" not in out.getvalue()
    assert "why threads waited" in out.getvalue()


def test_a_place_is_followed_by_the_places_of_those_who_ended_its_waits() -> None:
    parse, load = "parse() at load.c:88", "load() at load.c:10"
    waiter = thread(
        71,
        "waiter",
        {"wait.futex": (300, 30)},
        cause("wait.futex", Behind.PLACE, f"{parse}, woken by fill() at queue.py:31", 150, 10),
        cause("wait.futex", Behind.PLACE, f"{parse}, woken by main() at a.c:5", 50, 5),
        cause("wait.futex", Behind.PLACE, load, 60, 5),
    )
    found = words(lines(Ledger("bpf", Window(0, SPAN), (waiter,)), "wait", width=100))
    assert [" ".join(line) for line in found[3:]] == [
        "in parse() at load.c:88 200 ms 67 % 15 13.3 ms",
        "woken by fill() at queue.py:31 150 ms 75 % 10 15.0 ms",
        "main() at a.c:5 50.0 ms 25 % 5 10.0 ms",
        "load() at load.c:10 60.0 ms 20 % 5 12.0 ms",
        "not known 40.0 ms 13 %",
    ]
