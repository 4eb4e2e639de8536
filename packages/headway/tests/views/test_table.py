from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.ledgers import HOSTILE_NAMES, any_state_names, ledgers

from headway.advice import advise
from headway.model import (
    Cell,
    Counted,
    GroupBy,
    KernelClock,
    Ledger,
    ModeCycles,
    Overhead,
    Precision,
    Processor,
    Quality,
    Thread,
    Window,
    divide,
    divide_by_mode,
)
from headway.views.console import Console
from headway.views.interval import heading
from headway.views.lines import show, text_of
from headway.views.listing import Listing
from headway.views.printable import width_of
from headway.views.table import print_table, table

HERE = Path(__file__).parent
WINDOW = 9_870_000_000


def thread(tid: int, name: str, **microseconds: tuple[int, int]) -> Thread:
    """A thread that was there all the time; ``__`` for a dot; the rest of the window it slept."""
    cells = {state.replace("__", "."): Cell(time * 1_000, count) for state, (time, count) in microseconds.items()}
    cells["wait.sleep"] = Cell(WINDOW - sum(cell.time for cell in cells.values()), 3)
    return Thread(tid, 4711, name, 0, 0, None, WINDOW, WINDOW, cells)


LEDGER = Ledger(
    source="bpf",
    window=Window(0, WINDOW),
    threads=(
        thread(
            4711,
            "xz",
            user=(13_000, 40),
            kernel__read=(6_000, 2_113),
            kernel__futex=(2_000, 30),
            ready=(1_000, 9),
            wait__futex=(9_830_000, 30),
        ),
        thread(
            4712,
            "xz-worker",
            user=(9_337_000, 1),
            kernel__fault=(60_000, 9_000),
            kernel__write=(13_000, 100),
            irq__timer=(2_000, 2_400),
            stolen=(11_000, 7),
            ready=(118_000, 312),
            wait__futex=(300_000, 12),
        ),
        thread(
            4713,
            "xz-worker",
            user=(5_300_000, 1),
            kernel__futex=(2_400_000, 812_345),
            kernel__fault=(60_000, 9_000),
            irq__timer=(2_000, 2_400),
            softirq__net_rx=(100, 1),
            stolen=(11_000, 7),
            ready=(1_518_000, 312),
            wait__futex=(300_000, 12),
        ),
        thread(4714, "日本語のスレッド", user=(412, 1), ready=(100, 1)),
        thread(4715, "\x1b[31m[red]evil", user=(412, 1), ready=(100, 1), wait__epoll=(4_200_000, 9), unknown=(5, 0)),
    ),
    processors=tuple(
        Processor(
            cpu,
            WINDOW,
            {
                "user": Cell(7_000_000_000, 1),
                "irq.timer": Cell(2_000_000, 2_400),
                "unknown.unmeasured": Cell(100_000_000, 9),
                "idle": Cell(2_768_000_000, 70),
            },
        )
        for cpu in range(2)
    ),
    precision=Precision(effective=Quality.BOUND, memory=Quality.UNAVAILABLE),
    reasons={"mpi": "no hardware counters in this virtual machine: headway doctor"},
    losses={"transitions": 0},
    overhead=Overhead(3_100_000, 41_233),
)


def printed(
    console_width: int,
    ledger: Ledger = LEDGER,
    verbose: bool = False,
    limit: int | None = 25,
    by: GroupBy | None = None,
) -> str:
    out = io.StringIO()
    console = Console(out, width=console_width)
    print_table(console, ledger, advice=advise(ledger), verbose=verbose, listing=Listing(limit, by=by))
    return out.getvalue()


@pytest.mark.parametrize(("width", "verbose"), [(80, False), (80, True), (120, False), (200, False)])
def test_the_table_looks_as_it_should(width: int, verbose: bool) -> None:
    expected = HERE / f"table-{width}{'-verbose' if verbose else ''}.txt"
    assert printed(width, verbose=verbose) == expected.read_text(encoding="utf-8")


@given(ledgers(keys=any_state_names, time_unit=None), st.integers(2, 220), st.booleans(), st.none() | st.integers(0, 3))
def test_no_line_is_wider_than_there_is_room(ledger: Ledger, width: int, verbose: bool, limit: int | None) -> None:
    for line in table(ledger, advice=advise(ledger), width=width, listing=Listing(limit), verbose=verbose):
        assert width_of(text_of(line)) <= width
        assert text_of(line).isprintable()


def test_a_table_without_lines_of_threads_has_the_counts_of_the_rest() -> None:
    one = Thread(1, 1, "", 0, 0, None, 100, 100, {"user": Cell(100, 1, events={"page-faults": 7})})
    ledger = Ledger("bpf", Window(0, 100), (one,), events=("page-faults",))
    lines = [text_of(line) for line in table(ledger, width=80, listing=Listing(0))]
    assert any("1 more" in line and line.rstrip().endswith("7") for line in lines)


@given(st.lists(st.sampled_from(HOSTILE_NAMES), min_size=1), st.sampled_from([80, 100, 120, 140, 200]))
def test_no_name_moves_the_columns(names: list[str], width: int) -> None:
    threads = tuple(thread(1000 + i, name, user=(i + 1, 1)) for i, name in enumerate(names))
    lines = [
        text_of(line) for line in table(Ledger("bpf", Window(0, WINDOW), threads), width=width, listing=Listing(None))
    ]
    bars = {width_of(line.partition("│")[0]) for line in lines[: len(names) + 1]}
    assert len(bars) == 1


@pytest.mark.parametrize("width", [20, 40, 60, 80, 120])
def test_the_thread_with_the_most_processor_time_comes_first(width: int) -> None:
    lines = [text_of(line) for line in table(LEDGER, width=width)]
    assert lines[1].startswith("xz-worker")
    assert lines[3].startswith("xz ")


def test_threads_that_are_not_shown_are_summed_up() -> None:
    many = tuple(thread(1000 + i, "worker", user=(1_000 * (i + 1), 1), irq__timer=(10, 1)) for i in range(2_000))
    lines = printed(80, Ledger("bpf", Window(0, WINDOW), many), limit=3, by=GroupBy.THREAD).splitlines()
    assert [line.split()[1] for line in lines[1:4]] == ["2999", "2998", "2997"]
    assert lines[4].startswith("… 1,997 more threads 1995s 1995s")
    assert lines[5].startswith("all 2,000 threads    2001s 2001s")
    assert "20ms" in lines[4]


def compiling(number: int = 312) -> Ledger:
    """A compile: as many short processes as are asked for, of two names, and make."""

    def short(tid: int, name: str) -> Thread:
        start = tid * 1_000
        states = {"user": Cell(5_000 + tid, 1), "kernel.execve": Cell(1_000, 1), "wait.disk": Cell(tid, 1)}
        span = sum(cell.time for cell in states.values())
        return Thread(tid, tid, name, start, start, start + span, start + span, span, states)

    threads = [thread(1, "make", user=(1, 1)), *(short(2 + n, ("cc1", "as")[n % 2]) for n in range(2 * number))]
    return Ledger("bpf", Window(0, WINDOW), tuple(threads))


def test_threads_of_one_name_are_a_line_where_they_are_more_than_lines() -> None:
    lines = printed(80, compiling()).splitlines()
    assert lines[1].startswith("as × 312 ")
    assert lines[2].startswith("cc1 × 312 ")
    assert lines[3].split()[:3] == ["make", "1", "1.0µs"]
    assert lines[4].startswith("all 625 threads ")
    assert lines[1].split()[-1] == "disk"
    assert "× n: n threads of one name, added up; --by thread lists each" in lines


def test_as_many_threads_as_lines_are_shown_one_by_one() -> None:
    lines = printed(80, compiling(12)).splitlines()
    assert len([line for line in lines if line.startswith(("cc1 ", "as "))]) == 24
    assert not any("×" in line for line in lines)
    assert any(" × 12 " in line for line in printed(80, compiling(12), limit=24).splitlines())


def test_names_keep_their_lines_until_the_threads_take_half_of_them() -> None:
    def lines(number: int, before: GroupBy | None) -> str:
        out = io.StringIO()
        by = print_table(Console(out, width=80), compiling(number), listing=Listing(25, before=before))
        assert (" × " in out.getvalue()) == (by is GroupBy.NAME)
        return by.value

    assert lines(12, None) == "thread"  # 25 threads
    assert lines(13, None) == "name"
    assert lines(12, GroupBy.NAME) == "name"
    assert lines(5, GroupBy.NAME) == "thread"


def test_each_process_can_have_a_line() -> None:
    lines = printed(80, LEDGER, by=GroupBy.PROCESS).splitlines()
    assert lines[0].split()[:2] == ["process", "pid"]
    assert lines[1].startswith("xz × 5")
    assert lines[1].split()[3:5] == ["4711", "17.2s"]
    assert lines[2].split()[3:4] == ["17.2s"]


@settings(max_examples=30)  # an example is a whole ledger
@given(ledgers(time_unit=None), st.none() | st.integers(1, 3))
def test_there_is_one_line_of_sums_however_threads_are_grouped(ledger: Ledger, limit: int | None) -> None:
    for by in GroupBy:
        lines = [text_of(line) for line in table(ledger, width=80, listing=Listing(limit, by=by))]
        sums = [line for line in lines[: lines.index("")] if re.match(r"all [0-9]+ threads ", line)]
        assert len(sums) == (len(ledger.threads) > 1)


@given(
    st.lists(st.tuples(st.sampled_from(["cc1", "as", "ld", "sh"]), st.integers(0, 10**6)), max_size=60),
    st.integers(1, 70),
    st.none() | st.sampled_from(GroupBy),
    st.sampled_from([60, 80, 200]),
)
def test_no_thread_is_lost_and_no_table_is_longer_than_the_terminal(
    found: list[tuple[str, int]], height: int, by: GroupBy | None, width: int
) -> None:
    threads = [
        Thread(n, n, name, 0, 0, None, used, used, {"user": Cell(used, 1)}) for n, (name, used) in enumerate(found, 1)
    ]
    ledger = Ledger("bpf", Window(0, 10**6), tuple(threads))
    lines = [text_of(line) for line in table(ledger, width=width, listing=Listing(height=height, by=by))]
    notes = len(lines) - lines.index("") - 1
    assert len(lines) <= max(height, notes + 3 + 3)
    number = 0
    for line in lines[1 : lines.index("")]:
        if line.startswith(("all ", "no thread")):
            break
        told = re.match(r"… ([0-9]+) more|[a-z0-9 ]+(?:…[a-z0-9 ]*)? × ([0-9]+)", line)
        number += int(next(filter(None, told.groups()))) if told else 1
    assert number == len(found)


def test_what_is_not_exact_carries_a_mark_and_a_reason() -> None:
    sampled = replace(
        LEDGER,
        source="proc",
        precision=Precision(
            effective=Quality.SAMPLED, kernel=Quality.SAMPLED, memory=Quality.UNAVAILABLE, poll=Quality.UNAVAILABLE
        ),
        reasons={**dict.fromkeys(("kpi", "epi"), "the kernel samples it at 250 Hz"), "stolen": "per CPU"},
    )
    text = printed(80, sampled)
    assert "~9.34s" in text
    assert "~75ms" in text
    assert "EPI, kernel: sampled (the kernel samples it at 250 Hz)" in text
    assert "memory, poll: unavailable" not in text, "no mark above stands for that"
    assert "stolen: per CPU" not in text
    everything = printed(80, sampled, verbose=True)
    assert "memory, poll: unavailable" in everything
    assert "stolen: per CPU" in everything
    long = replace(sampled, reasons=dict.fromkeys(("kpi", "epi"), "the kernel samples it " * 9))
    (line,) = (line for line in printed(80, long).splitlines() if "sampled (" in line)
    assert line.endswith("…"), "a mark has one line"
    assert " ".join(printed(80, long, verbose=True).split()).count("the kernel samples it") == 9
    asked = replace(sampled, reasons={"budget": "1 % of it", "overhead": "calibrated"})
    assert "budget: 1 % of it" in printed(80, asked)
    assert "overhead: calibrated" not in printed(80, asked)


def test_what_cannot_be_had_is_not_zero() -> None:
    nothing = replace(LEDGER, precision=Precision(total=Quality.UNAVAILABLE, effective=Quality.UNAVAILABLE))
    line = printed(80, nothing).splitlines()[1]
    assert line.split()[2:5] == ["–", "–", "–"]


def test_every_loss_is_named() -> None:
    text = printed(80, replace(LEDGER, losses={"ring_full": 1_200, "threads": 0, "skipped handlers": 3}))
    assert "lost: ring full 1,200, skipped handlers 3" in text


@given(st.integers(0, 9_000), st.sampled_from(["", "level", "budget"]))
def test_what_measuring_took_is_said_above_five_per_cent(overhead: int, reason: str) -> None:
    one = thread(1, "server", user=(10_000, 9), overhead=(overhead, 9))
    ledger = Ledger("bpf", Window(0, WINDOW), (one,), reasons={reason: "chosen"} if reason else {})
    text = " ".join(printed(80, ledger).split())
    share_taken = overhead / (10_000 + overhead)
    assert ("measuring took" in text) == (share_taken > 0.05)
    if share_taken > 0.05:
        assert f"measuring took {share_taken * 100:.0f} % of the threads' processor time" in text
        assert ("--budget 1% or --level switches takes less" in text) == (not reason)


def test_a_cost_that_was_not_measured_is_not_nothing() -> None:
    assert "cost not known, lost 0" in printed(80, replace(LEDGER, overhead=Overhead()))


def test_a_ledger_in_cycles_is_printed_in_cycles() -> None:
    ledger = replace(LEDGER, source="machine", unit="cycles", time_unit="cycles")
    line = printed(140, ledger).splitlines()[1]
    assert "9.412G" in line
    assert "cost 3.100M" in printed(80, ledger)


def test_a_machine_shows_every_part_of_its_time() -> None:
    cells = {
        "user": Cell(1_000, 1, 1_000, 700, 300, 200, 150),
        "kernel.nap": Cell(400, 9, 400, 100, 0, 0, 0),
        "poll.uart_rx": Cell(250, 3, 250, 100, 0, 0, 0),
        "wait.mutex": Cell(350, 2, 0, 0, 0, 0, 0),
    }
    counted = dict.fromkeys(("cycles", "stall_cycles", "memory_stall_cycles"), Counted(9, 9))
    one = Thread(1, 1, "worker", 0, 0, None, 2_000, 2_000, cells)
    ledger = Ledger("machine", Window(0, 2_000), (one,), unit="cycles", time_unit="cycles", counted=counted)
    lines = [line.replace(" %", "%").replace("│", "").split() for line in printed(160, ledger).splitlines()]
    titles, figures, *_ = lines
    shown = dict(zip(titles, figures, strict=False))
    assert [shown[title] for title in ("RPI", "EPI", "memory", "extern", "kernel", "poll", "stall")] == [
        *("1,650", "700", "200", "150", "400", "250", "100")
    ]
    assert [shown[title] for title in ("TE", "ME", "KE", "IOE")] == ["42%", "79%", "58%", "74%"]
    assert "in cycles, of 2,000" in printed(80, ledger)
    narrow = printed(80, ledger).splitlines()[0].split()
    assert narrow[1:8] == ["RPI", "EPI", "TE", "memory", "extern", "kernel", "poll"]


def test_a_ledger_of_nothing_measured_has_a_table() -> None:
    assert printed(80, Ledger("proc", Window(0, 1))).startswith("no thread was measured\n")


@pytest.mark.parametrize("terminal", [True, False])
def test_no_colour_means_no_escape_byte(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setenv("NO_COLOR", "1")
    print_table(Console(out, width=80, terminal=terminal), LEDGER, advice=advise(LEDGER), verbose=True)
    assert "\x1b" not in out.getvalue()
    assert "│" in out.getvalue()


def test_a_file_gets_no_escape_byte_and_a_terminal_the_same_text_in_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    out = io.StringIO()
    print_table(Console(out, width=80, terminal=True), LEDGER, advice=advise(LEDGER))
    assert "\x1b[1;32m" in out.getvalue()
    plain = [line.rstrip() for line in re.sub(r"\x1b\[[\d;]*m", "", out.getvalue()).splitlines()]
    assert plain == printed(80).splitlines()
    assert "\x1b" not in printed(80)


def test_a_terminal_that_knows_only_ascii() -> None:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding="ascii", write_through=True)
    print_table(Console(file, width=80), LEDGER, verbose=True)
    lines = raw.getvalue().decode("ascii").splitlines()
    assert "<9.34s" in lines[1]
    assert max(map(len, lines)) <= 80


@given(st.integers(0, 10**15), st.integers(0, 10**15), st.integers(1, 100))
def test_the_heading_of_an_interval_fits(start: int, length: int, width: int) -> None:
    line = text_of(heading(Ledger("bpf", Window(start, start + length)), 0, width))
    assert width_of(line) <= width


def test_the_heading_of_an_interval_says_when_it_was() -> None:
    out = io.StringIO()
    show(Console(out, width=60), [heading(Ledger("bpf", Window(7 * 10**9, 8 * 10**9)), 5 * 10**9, 60)])
    assert out.getvalue().startswith("after 3.000 s, an interval of 1.000 s ────")


EVENTS = ("page-faults", "context-switches", "cpu/event=0xa3,umask=0x4,cmask=4/u")


def counting() -> Ledger:
    """The ledger with events in some of its cells."""

    def counted(t: Thread) -> Thread:
        cells = dict(t.states)
        cells["user"] = replace(cells["user"], events={EVENTS[0]: t.tid, EVENTS[1]: 0, EVENTS[2]: 12_345_678_901})
        return replace(t, states=cells)

    threads = tuple(counted(t) for t in LEDGER.threads)
    return replace(LEDGER, threads=threads, events=EVENTS, counted={name: Counted(9, 9) for name in EVENTS})


@pytest.mark.parametrize("width", [1, 20, 40, 80, 160])
@pytest.mark.parametrize("verbose", [False, True])
def test_events_fit_the_width_and_none_is_left_out(width: int, verbose: bool) -> None:
    lines = [text_of(line) for line in table(counting(), width=width, verbose=verbose)]
    assert all(width_of(line) <= width for line in lines)
    if width >= 40:
        text = "\n".join(lines)
        assert "page-faults" in text
        assert "12,345,678,901" in text
        assert f"{sum(t.tid for t in LEDGER.threads):,}" in text


def test_with_more_threads_than_are_shown_the_events_still_add_up() -> None:
    text = "\n".join(text_of(line) for line in table(counting(), width=160, listing=Listing(2, by=GroupBy.THREAD)))
    assert "… 3 more" in text
    assert f"{sum(t.tid for t in LEDGER.threads):,}" in text


@given(ledgers(keys=any_state_names), st.integers(1, 200), st.booleans())
def test_any_counted_ledger_fits(ledger: Ledger, width: int, verbose: bool) -> None:
    for line in table(ledger, width=width, verbose=verbose, listing=Listing(2)):
        assert width_of(text_of(line)) <= width


def test_counters_that_were_shared_are_said_with_their_share() -> None:
    ledger = counting()
    ledger = replace(ledger, counted={**ledger.counted, "stall_cycles": Counted(100, 62)})
    text = " ".join(text_of(line).strip() for line in table(ledger, width=80))
    assert "counters were shared: stall_cycles 62 %" in text


def test_with_cycles_the_indices_are_cycles_and_waiting_is_time() -> None:
    cells = {"user": Cell(500, 1, 8_000_000, 1, 5_000_000, 3_000_000, 1_000_000), "wait.disk": Cell(500_000_000, 1)}
    one = Thread(7, 7, "a", 0, 0, None, 500_000_500, 500_000_500, cells)
    counted = dict.fromkeys(("cycles", "stall_cycles", "memory_stall_cycles"), Counted(9, 9))
    ledger = Ledger("bpf", Window(0, 500_000_500), (one,), unit="cycles", counted=counted)
    text = "\n".join(text_of(line) for line in table(ledger, width=120, verbose=True))
    row = next(line for line in text.splitlines() if line.startswith("a "))
    assert row.count("3.000M") == 2
    assert "8.000M" in row
    assert "500 ms" in row
    assert "8.000M cycles · 0.00 instructions each · stalled 62 % · for memory 38 % · for DRAM 12 %" in text
    narrow = text_of(table(ledger, width=80)[0])
    assert "memory" in narrow


def test_with_v_the_kernels_clock_stands_beside_the_figure_to_compare_it_with() -> None:
    thread = Thread(
        7, 7, "a", 0, 0, None, 100, 100, {"user": Cell(60, 1), "overhead": Cell(5, 0), "ready": Cell(35, 1)}
    )
    expected = {
        KernelClock(66, Quality.EXACT): "by the kernel's clock 66 ns RPI and overhead 65 ns",
        KernelClock(70, Quality.BOUND): "by the kernel's clock ≤70 ns RPI and overhead 65 ns",
        KernelClock(
            None, Quality.UNAVAILABLE
        ): "by the kernel's clock: not known, it ran when the window began or ended",
    }
    for clock, words in expected.items():
        ledger = Ledger("bpf", Window(0, 100), (replace(thread, kernel_clock=clock),))
        lines = [" ".join(text_of(line).split()) for line in table(ledger, verbose=True)]
        assert words in lines
        assert not [line for line in map(text_of, table(ledger)) if "kernel's clock" in line]


def _divided(tid: int, name: str, exact: dict[str, tuple[int, int]], time: int, samples: dict[str, int]) -> Thread:
    """A thread with time that was divided by samples. ``exact``: time and occurrences of states."""
    parts = divide(time, samples)
    cells = {state: Cell(had, count) for state, (had, count) in exact.items()}
    for state, part in parts.items():
        cells[state] = cells.get(state, Cell(0, 0)) + Cell(part.time, 0)
    span = sum(cell.time for cell in cells.values())
    sampled = {state: part for state, part in parts.items() if part.samples}
    return Thread(tid, 7000, name, 0, 0, None, span, span, cells, sampled=sampled)


_SAMPLED = Ledger(
    "bpf",
    Window(0, 10 * 10**9),
    (
        _divided(
            7001,
            "redis-server",
            {"user": (10**9, 3), "kernel.read": (5 * 10**8, 20000), "wait.epoll": (10**9, 9)},
            4 * 10**9,
            {"user": 1500, "kernel.read": 1200, "kernel.write": 1000, "softirq.net_rx": 290},
        ),
        _divided(7002, "bio_close_file", {"wait.futex": (9 * 10**9, 3)}, 10**6, {}),
        _divided(7003, "jemalloc_bg_thd", {}, 9 * 10**7, {"user": 9}),
    ),
    precision=Precision(memory=Quality.UNAVAILABLE),
)


def test_time_divided_by_samples_has_its_sampling_error_and_says_so() -> None:
    text = "\n".join(text_of(line) for line in table(_SAMPLED, width=80))
    assert max(map(len, text.splitlines())) <= 80
    redis, jemalloc, bio, whole, *notes = text.splitlines()[1:]
    assert "~2.50s  ~46 ±2 %" in redis
    assert "~3.00s ~291ms" in redis
    assert "~100 ±30 %" not in jemalloc
    assert "~100 %" in jemalloc  # too wide with its error
    assert "~0" in jemalloc  # not zero: no sample fell into the kernel
    assert "≤1.0ms" in bio
    assert "~" in whole
    assert "waiting for" in text
    words = " ".join(" ".join(notes).split())
    assert "processor time: 27 % counted exactly, 73 % divided by 3,999 samples, < 1 % not divided (no" in words
    assert "poll: at least" not in words
    everything = " ".join(" ".join(text_of(line) for line in table(_SAMPLED, width=80, verbose=True)).split())
    assert "poll: at least (samples do not tell it)" in everything


def test_a_state_says_how_much_of_it_was_counted() -> None:
    text = "\n".join(text_of(line) for line in table(_SAMPLED, width=80, verbose=True))
    assert "~2.504 s" in text
    assert "40 % exact, 1,500 samples" in text
    assert "by 290 samples" in text
    assert "running" in text


def test_without_samples_nothing_is_said_of_them() -> None:
    plain = replace(_SAMPLED, threads=tuple([replace(t, sampled={}) for t in _SAMPLED.threads[:1]]))
    text = "\n".join(text_of(line) for line in table(plain, width=80, verbose=True))
    assert "±" not in text
    assert "sample" not in text
    assert "processor time" not in text


def test_all_of_it_by_samples() -> None:
    text = "\n".join(text_of(line) for line in table(replace(_SAMPLED, threads=_SAMPLED.threads[2:]), width=100))
    assert "processor time: all divided by 9 samples" in text
    nothing = "\n".join(text_of(line) for line in table(replace(_SAMPLED, threads=_SAMPLED.threads[1:2]), width=100))
    assert "processor time: all not divided (no sample fell into it)" in nothing
    assert "kernel: unavailable (part of the time is not divided)" in nothing


def test_the_kernels_clock_has_a_line_that_fits_where_there_is_something_to_say() -> None:
    unknown = KernelClock(None, Quality.UNAVAILABLE)
    ran = Thread(7, 7, "a", 0, 0, None, 100, 100, {"user": Cell(100, 1)}, kernel_clock=unknown)
    slept = replace(ran, tid=8, states={"wait.futex": Cell(100, 1)}, kernel_clock=KernelClock(0, Quality.EXACT))
    by_name = Listing(by=GroupBy.NAME)
    text = "\n".join(map(text_of, table(Ledger("bpf", Window(0, 100), (ran, slept)), verbose=True, listing=by_name)))
    assert "one of them ran when the window began or ended" in " ".join(text.split())
    text = "\n".join(map(text_of, table(Ledger("bpf", Window(0, 100), (slept,)), verbose=True)))
    assert "kernel's clock" not in text


def _by_mode(tid: int, time: int, cycles: ModeCycles, samples: dict[str, int]) -> Thread:
    """A thread with time that was divided by the cycles of both modes."""
    parts = divide_by_mode(time, cycles, samples)
    cells = {state: Cell(part.whole, None) for state, part in parts.items()}
    return Thread(tid, 7000, "nginx", 0, 0, None, time, time, cells, sampled=parts)


def test_time_divided_by_cycles_is_marked_and_has_no_error() -> None:
    one = _by_mode(7001, 4 * 10**9, ModeCycles(3, 1), {"kernel.read": 30, "irq": 10})
    ledger = replace(_SAMPLED, threads=(one,), precision=Precision(Quality.EXACT, memory=Quality.UNAVAILABLE))
    text = "\n".join(text_of(line) for line in table(ledger, width=80, verbose=True))
    assert max(map(len, text.splitlines())) <= 80
    row = text.splitlines()[1]
    assert "≈3.00s ≈75 %" in " ".join(row.split())
    assert "≈1.00s" in row
    assert "~250ms" in row, "samples tell interrupts"
    assert "±" not in text
    assert "by cycles" in text
    assert "by 30 samples and cycles" in text
    words = " ".join(text.split())
    assert "processor time: all divided by the cycles of user and kernel mode" in words


def test_time_divided_by_cycles_and_by_samples_says_both() -> None:
    threads = (*_SAMPLED.threads[2:], _by_mode(7009, 9 * 10**7, ModeCycles(1, 1), {}))
    text = " ".join(" ".join(text_of(line).split()) for line in table(replace(_SAMPLED, threads=threads), width=100))
    assert "50 % divided by the cycles of user and kernel mode, the rest divided by 9 samples" in text


def test_verbose_explains_the_cost_by_the_kinds_of_events() -> None:
    cells = {
        "user": Cell(500, 40),
        "kernel.read": Cell(200, 30),
        "kernel.fault.minor": Cell(100, 10),
        "irq.timer": Cell(50, 6),
        "ready": Cell(50, 4),
        "poll.read.pipe": Cell(50, 40),
        "wait.pipe": Cell(50, 10),
    }
    one = Thread(1, 1, "a", 0, 0, None, 1000, 1000, cells)
    found = Ledger("bpf", Window(0, 1000), (one,), overhead=Overhead(70, 140))
    words = (
        "status checks 40 (40 %), system calls 30 (30 %), page faults 10 (10 %), waits 10 (10 %), interrupts 6 (6 %), "
        "times ready 4 (4 %)"
    )
    assert words in "\n".join(map(text_of, table(found, width=200, verbose=True)))
    assert words not in "\n".join(map(text_of, table(found, width=200)))
