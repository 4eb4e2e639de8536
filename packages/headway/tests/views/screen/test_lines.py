"""The lines of the screen, without the screen: bars, rows, panel, help, for any ledger and any width."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.advice import advise
from headway.model import (
    Behind,
    Cause,
    Cell,
    Counted,
    Estimate,
    GroupBy,
    Kind,
    Ledger,
    Precision,
    Quality,
    Thread,
    Window,
)
from headway.views.lines import Line, text_of
from headway.views.palette import ORDER, PALETTE
from headway.views.printable import clean, width_of
from headway.views.screen.bar import NEVER, bar, cells_of, divided, spark
from headway.views.screen.columns import ColumnLayout, line_of, per_cent, titles
from headway.views.screen.help import help_lines
from headway.views.screen.panel import panel
from headway.views.screen.roster import KEPT, ORDERS, GroupRow, Key, Order, Picture, Roster, group_key, in_places
from headway.views.screen.summary import HEIGHT, summary

from ...ledgers import HOSTILE_NAMES, any_state_names, ledgers

amounts = st.dictionaries(st.sampled_from(ORDER), st.integers(0, 10**15))
widths = st.integers(1, 250)
few = settings(max_examples=12)
"""An example is a whole ledger."""
pictures = ledgers(keys=any_state_names).map(lambda ledger: Roster().take(ledger))


def wide(line: Line) -> int:
    return sum(width_of(text) for text, _ in line)


def harmless(lines: list[Line]) -> bool:
    return all(clean(text, 10**6) == text for line in lines for text, _ in line)


# --- bars and histories -----------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 10**15), max_size=12), st.integers(0, 300))
def test_cells_are_divided_to_less_than_one_and_none_is_lost(parts: list[int], cells: int) -> None:
    found = divided(parts, cells)
    whole = sum(parts)
    assert sum(found) == (cells if whole else 0)
    for part, got in zip(parts, found, strict=True):
        assert abs(got * whole - part * cells) < max(whole, 1)
        assert part or not got


@given(amounts, widths, st.booleans())
def test_a_bar_is_as_wide_as_asked_and_shows_every_kind_that_has_a_cell(
    times: dict[Kind, int], width: int, letters: bool
) -> None:
    line = bar(times, width, letters=letters)
    assert wide(line) == width
    cells = cells_of(times, width - 1)
    if not any(cells.values()):
        assert text_of(line) == ""
        return
    assert "".join(text for text, _ in line).count("│") == 1
    shown = [style.removeprefix("on ") for text, style in line if text != "│"]
    assert shown == [kind.value for kind in ORDER if cells[kind]]
    for text, style in line:
        if text != "│":  # the colour is not the only sign
            assert text[0] == PALETTE[Kind(style.removeprefix("on "))].letter


def test_without_colour_the_bar_is_of_letters() -> None:
    times = {Kind.EFFECTIVE: 5, Kind.KERNEL: 2, Kind.READY: 1, Kind.WAIT: 2}
    assert text_of(bar(times, 11, letters=True)) == "EEEEEKK│RW."
    assert text_of(bar(times, 11)) == "E    K │RW"


@given(st.lists(st.integers(0, 100) | st.just(NEVER), max_size=90).map(bytes), st.integers(0, 99))
def test_a_history_has_its_newest_value_at_the_right(history: bytes, width: int) -> None:
    text = spark(history, width)
    assert len(text) == width
    for sign, value in zip(reversed(text), reversed(history), strict=False):
        assert (sign == "·") == (value == 0)
        assert (sign == " ") == (value == NEVER)


def test_a_history_tells_little_from_much() -> None:
    assert spark(bytes([NEVER, 0, 1, 13, 50, 88, 100]), 9) == "   ·▁▁▄▇█"


@pytest.mark.parametrize(
    ("part", "text"),
    [
        *((0.0, "·"), (1e-9, "<.1%"), (0.0005, "0.1%"), (0.0994, "9.9%"), (0.0995, "10%"), (0.996, "100%")),
        *((1.0, "100%"), (2.5, "250%"), (38.61, "3861%"), (99.99, "9999%"), (99.996, "10k%"), (20_000.0, "2M%")),
    ],
)
def test_shares_are_printed_in_few_columns(part: float, text: str) -> None:
    assert per_cent(part) == text


# --- the roster -------------------------------------------------------------------------------------------------------


@few
@given(pictures, st.sampled_from(sorted(ORDERS)), st.booleans(), st.none() | st.sampled_from(GroupBy), st.booleans())
def test_every_order_has_the_same_rows(
    picture: Picture, column: str, backwards: bool, by: GroupBy | None, busy: bool
) -> None:
    rows = picture.rows(Order(column, backwards=backwards, by=by, busy=busy, turned=folded(picture, by)))
    expected = {row.key for row in picture.every if not busy or row.rpi}
    assert {row.key for row in rows if not isinstance(row, GroupRow)} == expected
    heads = [row for row in rows if not row.inside]
    assert sum(row.members for row in heads) == len(expected)
    assert {thread.key for row in heads for thread in row.threads} == expected
    key, falling = ORDERS[column]
    values = [key(row) for row in heads]
    assert values == sorted(values, reverse=falling is not backwards)
    if busy:
        assert len(expected) == picture.busy


def folded(picture: Picture, by: GroupBy | None) -> frozenset[Key]:
    """The keys that unfold all groups. The threads of a process are shown unless its key is among them."""
    if by is None or by is GroupBy.PROCESS:
        return frozenset()
    return frozenset(group_key(row.thread, by) for row in picture.every)


@few
@given(pictures, pictures, st.sampled_from(GroupBy), st.sampled_from(sorted(ORDERS)))
def test_rows_keep_their_places_and_threads_their_group(
    before: Picture, after: Picture, by: GroupBy, column: str
) -> None:
    places = {row.key: place for place, row in enumerate(before.rows(Order(by=by)))}
    rows = after.rows(Order(column, by=by))
    found = in_places(rows, places)
    assert sorted(map(id, found)) == sorted(map(id, rows))
    heads = [places.get(row.key, len(places)) for row in found if not row.inside]
    assert heads == sorted(heads)
    for row in rows:
        if row.inside:
            above = next(one for one in found[found.index(row) :: -1] if not one.inside)
            assert isinstance(above, GroupRow)
            assert row.thread in above.threads


@given(pictures, st.sampled_from([by for by in GroupBy if by is not GroupBy.THREAD]))
def test_a_group_has_the_sum_of_its_threads_and_never_less_than_one_of_them(picture: Picture, by: GroupBy) -> None:
    rows = picture.rows(Order(by=by, turned=folded(picture, by)))
    for at, head in enumerate(rows):
        if not isinstance(head, GroupRow):
            continue
        threads = rows[at + 1 : at + 1 + head.members]
        assert {row.key for row in threads} == {thread.key for thread in head.threads}
        assert all(row.inside for row in threads)
        assert head.span == sum(row.span for row in threads) == sum(head.times.values())
        for kind in Kind:
            assert head.times[kind] == sum(row.times[kind] for row in threads)
            assert all(head.share(head.times[kind]) >= row.share(row.times[kind]) for row in threads)
        assert head.history[-1] >= max(row.history[-1] for row in threads) or head.history[-1] == NEVER
    everything = picture.ledger.share(sum(row.span for row in picture.every))
    assert sum(row.share(row.span) for row in rows if not row.inside) == pytest.approx(everything)


@few
@given(pictures)
def test_folded_groups_show_no_threads_of_theirs(picture: Picture) -> None:
    processes = frozenset((row.thread.pid, -1) for row in picture.every)
    assert not any(row.inside for row in picture.rows(Order(by=GroupBy.PROCESS, turned=processes)))
    names = picture.rows(Order(by=GroupBy.NAME))
    assert len(names) == len({row.name for row in picture.every})
    assert not any(row.inside for row in names)


def test_a_thread_of_a_part_of_the_interval_has_a_share_of_all_of_it() -> None:
    short = Thread(7, 7, "cc1", 40, 40, 60, 60, 20, {"user": Cell(20, 1)})
    picture = Roster().take(made(0, short))
    assert picture.every[0].share(picture.every[0].rpi) == 0.2
    assert "20%" in text_of(line_of(picture.every[0], ColumnLayout.of(picture.ledger, 200), 200))


def test_the_history_of_a_name_has_the_threads_that_have_ended() -> None:
    def process(tid: int, at: int, used: int) -> Thread:
        return Thread(
            tid,
            tid,
            "cc1",
            at + 10,
            at + 10,
            at + 90,
            at + 90,
            80,
            {"user": Cell(used, 1), "ready": Cell(80 - used, 1)},
        )

    roster = Roster()
    roster.take(made(0, process(1, 0, 30), process(2, 0, 30)))
    roster.take(made(100))
    roster.take(made(200, process(3, 200, 10), process(4, 200, 10)))
    picture = roster.take(made(300, process(5, 300, 80), process(6, 300, 80)))
    row = picture.rows(Order(by=GroupBy.NAME))[0]
    assert list(row.history) == [60, 0, 20, 100]
    assert [list(one.history) for one in picture.every] == [[80], [80]]


def test_a_group_s_figure_is_as_good_as_the_worst_of_its_threads() -> None:
    counted = Cell(50, 1, 500, 500, 100, 100, 0)
    known = Thread(1, 1, "a", 0, 0, None, 100, 100, {"user": counted, "wait.futex": Cell(50, 1)})
    unknown = replace(known, tid=2, states={"user": Cell(50, 1), "wait.futex": Cell(50, 1)})
    ledger = Ledger("bpf", Window(0, 100), (known, unknown), counted={"cycles": Counted(9, 9)})
    picture = Roster().take(ledger)
    layout = ColumnLayout.of(ledger, 240)
    shown = {
        name: [text_of(line_of(row, layout, 240)).split() for row in picture.rows(Order(by=by))]
        for name, by in (("thread", GroupBy.THREAD), ("name", GroupBy.NAME))
    }
    assert [row[4] for row in shown["thread"]] == ["≤50%", "40%"]
    assert "≤90%" in shown["name"][0]
    assert "10%" in shown["thread"][1]
    assert "10%" not in shown["name"][0]


@few
@given(ledgers(), st.text(max_size=5))
def test_words_keep_those_that_have_them(ledger: Ledger, words: str) -> None:
    picture = Roster().take(ledger)
    kept = {row.key for row in picture.rows(Order(words=words))}
    for row in picture.every:
        wanted = all(
            word in row.name.casefold() or str(row.tid).startswith(word) or str(row.pid).startswith(word)
            for word in words.casefold().split()
        )
        assert (row.key in kept) == wanted


def one(tid: int, at: int, effective: int, birth: int = 0, pid: int = 1) -> Thread:
    states = {"user": Cell(effective, 1), "wait.futex": Cell(100 - effective, 1)}
    return Thread(tid, pid, f"worker-{tid}", birth, at, None, at + 100, 100, states)


def made(at: int, *threads: Thread) -> Ledger:
    return Ledger("bpf", Window(at, at + 100), threads)


def test_a_thread_s_history_is_its_own_and_ends_with_it() -> None:
    roster = Roster()
    roster.take(made(0, one(1, 0, 10), one(2, 0, 90)))
    roster.take(made(100, one(1, 100, 20)))
    # Thread 2 is another one now, with the same id.
    picture = roster.take(made(200, one(1, 200, 0), one(2, 200, 50, birth=150)))
    assert [(row.tid, list(row.history)) for row in picture.every] == [(1, [10, 20, 0]), (2, [50])]


def test_no_more_is_remembered_than_is_shown() -> None:
    roster = Roster()
    for at in range(0, 100 * (KEPT + 20), 100):
        picture = roster.take(made(at, one(1, at, 7)))
    assert list(picture.every[0].history) == [7] * KEPT


def test_recalling_is_as_having_seen() -> None:
    many = [made(at, one(1, at, at // 100)) for at in range(0, 500, 100)]
    picture = Roster().recall(many)
    assert picture is not None
    assert list(picture.every[0].history) == [0, 1, 2, 3, 4]
    assert picture.ledger is many[-1]


# --- rows and titles --------------------------------------------------------------------------------------------------


@few
@given(pictures, st.integers(20, 250), st.booleans(), st.sampled_from(GroupBy))
def test_rows_and_titles_fit_any_width(picture: Picture, width: int, letters: bool, by: GroupBy) -> None:
    layout = ColumnLayout.of(picture.ledger, width, letters=letters)
    assert sum(column.width + 1 for column in layout.columns) - 1 == width
    order = Order(by=by)
    for row in picture.rows(order):
        line = line_of(row, layout, width)
        assert harmless([line])
        assert sum(width_of(text) for text, _ in line[:-1]) == width
    assert text_of(titles(layout, order, width)).startswith("thread")


def test_a_wider_screen_never_has_fewer_columns() -> None:
    ledger = made(0, one(1, 0, 5))
    number = 0
    for width in range(20, 260):
        layout = ColumnLayout.of(ledger, width)
        assert len(layout.columns) >= number
        number = len(layout.columns)
        assert layout.at(0) == "name"
    assert {column.name for column in layout.columns} == set(ORDERS)


def test_time_divided_by_samples_is_marked_thread_by_thread() -> None:
    cells = {"user": Cell(60, 1), "kernel.read": Cell(40, 1)}
    by_samples = {"user": Estimate(30, 20), "kernel.read": Estimate(40, 20)}
    exact, part = (Thread(tid, tid, "a", 0, 0, None, 100, 100, cells) for tid in (1, 2))
    part = replace(part, sampled=by_samples)
    undivided = Thread(3, 3, "b", 0, 0, None, 100, 100, {"running": Cell(100, 0)})
    picture = Roster().take(Ledger("bpf", Window(0, 100), (exact, part, undivided)))
    layout = ColumnLayout.of(picture.ledger, 240)
    one, two, three = (text_of(line_of(row, layout, 240)) for row in picture.every)
    assert "~" not in one
    assert "~60%" in two
    assert "~40%" in two
    assert "≤100%" in three
    assert "–" in three
    shown = "\n".join(map(text_of, panel(picture, picture.every[1], 80)))
    assert "TE ~60 ±" in shown
    assert "processor time: 30 % counted exactly, the rest divided by 40 samples" in " ".join(shown.split())
    assert "~40ns" in shown
    assert "exact, rest sampled (~), bpf" in "\n".join(map(text_of, summary(picture, "x", "", 120)))


def test_a_bound_and_what_was_sampled_are_marked_and_what_is_not_known_has_no_figure() -> None:
    bound = replace(made(0, one(1, 0, 40)), precision=Precision(effective=Quality.BOUND, memory=Quality.UNAVAILABLE))
    picture = Roster().take(bound)
    layout = ColumnLayout.of(bound, 240)
    text = text_of(line_of(picture.every[0], layout, 240))
    assert "≤40%" in text
    assert "memory" not in layout.hidden or all(column.name != "memory" for column in layout.columns)
    assert "mem" not in text_of(titles(layout, Order(), 240)).split()
    sampled = replace(bound, precision=Precision(effective=Quality.SAMPLED))
    assert "~40%" in text_of(line_of(picture.every[0], ColumnLayout.of(sampled, 240), 240))
    nothing = replace(bound, precision=Precision(effective=Quality.UNAVAILABLE))
    assert "–" in text_of(line_of(picture.every[0], ColumnLayout.of(nothing, 240), 240))


# --- around the list --------------------------------------------------------------------------------------------------


@few
@given(pictures, st.integers(20, 250), st.sampled_from(HOSTILE_NAMES))
def test_the_summary_fits_and_says_what_was_lost(picture: Picture, width: int, title: str) -> None:
    lines = summary(picture, title, "after 1 s", width)
    assert len(lines) == HEIGHT
    assert harmless(lines)
    assert all(wide(line) <= width for line in lines)
    if width > 150 and any(picture.ledger.losses.values()):
        assert any(style == "bad" for _, style in lines[1])
    first = clean(picture.verdict[0].text, 400) if picture.verdict else "nothing stands out"
    assert text_of(lines[-1]).startswith(first[: width - 1].rstrip() if first.isascii() else "")
    lines = summary(picture, title, "after 1 s", width, work="work: 20 % of 30 s EPI is done")
    assert text_of(lines[-1]).startswith("work: 20 % of 30 s EPI is done"[: width - 1])
    assert all(wide(line) <= width for line in lines)


@few
@given(pictures, st.integers(30, 200), st.sampled_from(GroupBy))
def test_the_panel_of_any_row_fits_and_is_harmless(picture: Picture, width: int, by: GroupBy) -> None:
    for row in picture.rows(Order(by=by)):
        advice = advise(replace(picture.ledger, threads=row.threads))
        lines = panel(picture, row, width, advice=advice)
        assert harmless(lines)
        assert all(wide(line) <= width for line in lines)
        text = "\n".join(map(text_of, lines))
        assert "all states" in text


def test_the_panel_says_what_is_behind_the_waits() -> None:
    cause = Cause("wait.futex", Behind.WAKER, "other", 60, 1, tid=7)
    thread = replace(one(1, 0, 40), causes=(cause,))
    picture = Roster().take(made(0, thread))
    text = "\n".join(map(text_of, panel(picture, picture.every[0], 70)))
    assert "why threads waited" in text
    assert "woken by other 7" in text
    bare = Roster().take(made(0, one(1, 0, 40)))
    text = "\n".join(map(text_of, panel(bare, bare.every[0], 70)))
    assert "is recorded with --why wait" in " ".join(text.split())


def test_the_panel_counts_system_calls() -> None:
    states = {
        "user": Cell(50, 1),
        "kernel.read": Cell(30, 10),
        "kernel.write": Cell(15, 3),
        "kernel.close": Cell(0, 0),
        "wait.pipe": Cell(5, 1),
    }
    thread = replace(one(1, 0, 0), states=states)
    picture = Roster().take(made(0, thread))
    lines = list(map(text_of, panel(picture, picture.every[0], 60)))
    at = next(n for n, line in enumerate(lines) if line.startswith("top system calls"))
    assert [line.split() for line in lines[at + 1 : at + 4]] == [
        ["read", "30%", "30ns", "10", "3ns"],
        ["write", "15%", "15ns", "3", "5ns"],
        [],
    ]


@pytest.mark.parametrize("time", [False, True])
@pytest.mark.parametrize("width", [30, 60, 100])
def test_help_names_every_kind_and_fits(width: int, time: bool) -> None:
    lines = help_lines(made(0), width, time=time)
    assert all(wide(line) <= width for line in lines)
    text = "\n".join(map(text_of, lines))
    for kind in Kind:
        assert kind.value in text
    assert ("half as long" in " ".join(text.split())) == time
