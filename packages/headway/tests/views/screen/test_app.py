"""The screen as its users have it: keys and mouse in, text out, on a terminal of any size."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace

import pytest
import textual.app
import textual.pilot
from rich.segment import Segment
from textual.geometry import Offset
from textual.pilot import Pilot

import headway.views.screen.app
from headway.advice import advise
from headway.errors import HeadwayError
from headway.model import Cell, GroupBy, Ledger, Overhead, Precision, Processor, Quality, Thread, Window
from headway.views.screen.app import MIN_SIZE, TopApp
from headway.views.screen.roster import Order

from ...ledgers import HOSTILE_NAMES

pytestmark = pytest.mark.end_to_end

SECOND = 10**9
PRECISION = Precision(effective=Quality.BOUND, memory=Quality.UNAVAILABLE)
NAMES = ("busy", "kernel", "waiting", "polling")
ROUNDS = 6
"""More than a message leads to others, one after the other."""


@pytest.fixture(autouse=True)
def messages_and_not_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Textual would wait after each key until this process has used no processor for a while."""

    async def at_once(min_sleep: float = 0, max_sleep: float = 0) -> None:
        await asyncio.sleep(0)

    monkeypatch.setattr(textual.app, "wait_for_idle", at_once)
    monkeypatch.setattr(textual.pilot, "wait_for_idle", at_once)


def thread(tid: int, at: int, name: str, pid: int | None = None, **parts: int) -> Thread:
    """Parts in per cent, by state with _ for a dot; the rest waits."""
    states = {state.replace("_", "."): Cell(part * SECOND // 100, part) for state, part in parts.items()}
    states["wait.futex"] = Cell(SECOND - sum(cell.time for cell in states.values()), 7)
    start = at * SECOND
    return Thread(tid, pid or 100 + tid % 2, name, 0, start, None, start + SECOND, SECOND, states)


def ledger(at: int, number: int = 4, names: Sequence[str] = NAMES, **more: object) -> Ledger:
    """Thread n of two processes; the busiest is another one each second."""
    threads = tuple(
        thread(n, at, names[(n - 1) % len(names)], user=max(60 - 10 * abs(n - at % 3 - 1), 1), kernel_read=n % 9)
        for n in range(1, number + 1)
    )
    cpus = tuple(
        Processor(cpu, SECOND, {"user": Cell(SECOND // 2, 1), "idle": Cell(SECOND - SECOND // 2, 1)}) for cpu in (0, 1)
    )
    window = Window(at * SECOND, (at + 1) * SECOND)
    reasons = {"epi": "waiting for memory is in it"}
    made = Ledger("bpf", window, threads, cpus, PRECISION, reasons, {"exits_lost": 0}, Overhead(10**6, 10))
    return replace(made, **more)  # type: ignore[arg-type]


class Given:
    """A live feed of ledgers that are put into it; None ends it."""

    title = "-p 100,101"

    def __init__(self, *ledgers: Ledger | None) -> None:
        self.queue: asyncio.Queue[Ledger | Exception | None] = asyncio.Queue()
        for one in ledgers:
            self.queue.put_nowait(one)

    async def ledgers(self) -> AsyncIterator[Ledger]:
        while (found := await self.queue.get()) is not None:
            if isinstance(found, Exception):
                raise found
            yield found

    def last_words(self) -> str:
        return "all that was chosen has ended"


class Before:
    """A timeline."""

    title = "run.hw"
    began = 0

    def __init__(self, number: int) -> None:
        self.number = number
        self.asked: list[int] = []

    def ledgers(self, last: int, most: int) -> list[Ledger]:
        self.asked.append(last)
        return [ledger(at) for at in range(max(last - most + 1, 0), last + 1)]

    def rescaled(self, halve: bool, at: int) -> int | None:
        if not halve:
            return None
        self.number *= 2
        return 2 * at


def shown(app: TopApp) -> list[str]:
    """The text of the screen, line by line."""
    return [strip.text for strip in app.screen._compositor.render_strips()]


def segments(app: TopApp) -> list[Segment]:
    """What goes to the terminal, after all filters."""
    found = []
    for strip in app.screen._compositor.render_strips():
        for one in app.get_line_filters():
            strip = strip.apply_filter(one, app.screen.background_colors[1])
        found += list(strip)
    return found


def rows(app: TopApp) -> list[str]:
    """The first word of every line of the list."""
    lines = shown(app)
    return [words[0] for line in lines[5:-1] if (words := line.split()) and words[0] != "│"]


def see(
    feed: Given | Before,
    look: Callable[[TopApp, Pilot[None]], Awaitable[None]],
    size: tuple[int, int] = (80, 24),
    **more: object,
) -> TopApp:
    """Run the screen on a terminal of this size, and look at it; it ends well, unless a test says otherwise."""
    app = TopApp(feed, advise=advise, **more)  # type: ignore[arg-type]
    app.animation_level = "none"

    async def run() -> None:
        async with app.run_test(size=size) as pilot:
            await settled(pilot)
            await look(app, pilot)

    asyncio.run(run())
    return app


async def settled(pilot: Pilot[None]) -> None:
    """Until what was asked for is on the screen."""
    await rounds(pilot)
    for worker in pilot.app.workers:
        if worker.name == "_read" and not worker.is_finished:
            await worker.wait()
    await rounds(pilot)


async def rounds(pilot: Pilot[None]) -> None:
    """Let every part of the screen take its messages, and those that come of them, and draw what came of all."""
    for _ in range(ROUNDS):
        await pilot.pause(0)
        await pilot.app.animator.wait_until_complete()


async def press(pilot: Pilot[None], *keys: str) -> None:
    for key in keys:
        await pilot.press(key)
        await rounds(pilot)
    await settled(pilot)


def test_the_screen_shows_every_thread_with_its_figures_most_progress_first() -> None:
    async def look(app: TopApp, pilot: Pilot[None]) -> None:
        lines = shown(app)
        assert lines[0].startswith("headway top -p 100,101")
        assert "after 1.000 s · 1.000 s" in lines[0]
        assert "4 threads, 4 busy" in lines[1]
        assert "lost 0" in lines[1]
        assert "EPI at most (≤)" in lines[1]
        assert re.search(r"2 cpus E +│W +E effective 50% +W idle 50%", lines[2])
        assert re.match(r"thread +tid +RPI +≤EPI▾ +≤TE", lines[4])
        assert rows(app)[:4] == ["busy", "kernel", "waiting", "polling"]
        assert re.match(r"busy +1 +61% +≤60% +≤98% E +K?.*│W +▅ futex", lines[5])
        assert lines[-1].startswith(" q quit  ? help")
        assert all(len(line) == 80 for line in lines)

    see(Given(ledger(0)), look)


def test_each_interval_replaces_the_one_before_and_is_remembered() -> None:
    async def look(app: TopApp, pilot: Pilot[None]) -> None:
        feed = app._feed
        assert isinstance(feed, Given)
        assert rows(app)[0] == "busy"
        await feed.queue.put(ledger(1))
        await settled(pilot)
        assert rows(app)[0] == "kernel"
        assert "after 2.000 s" in shown(app)[0]
        assert "▄▅" in shown(app)[5]

    see(Given(ledger(0)), look)


def test_any_column_orders_them_by_key_and_by_click() -> None:
    async def look(app: TopApp, pilot: Pilot[None]) -> None:
        await press(pilot, "less_than_sign", "less_than_sign")
        assert "tid▾" in shown(app)[4]
        assert rows(app)[:4] == ["busy", "kernel", "waiting", "polling"]
        await press(pilot, "r")
        assert "tid▴" in shown(app)[4]
        assert rows(app)[:4] == ["polling", "waiting", "kernel", "busy"]
        await pilot.click("#titles", offset=(2, 0))
        await settled(pilot)
        assert "thread▾" in shown(app)[4]
        assert rows(app)[:4] == ["busy", "kernel", "polling", "waiting"]
        await pilot.click("#titles", offset=(2, 0))
        await settled(pilot)
        assert "thread▴" in shown(app)[4]
        await press(pilot, *["greater_than_sign"] * 20)
        assert app.failure is None

    see(Given(ledger(0)), look)


def test_words_choose_threads_and_escape_shows_all() -> None:
    async def look(app: TopApp, pilot: Pilot[None]) -> None:
        await press(pilot, "slash", *"KERN")
        assert rows(app)[0] == "kernel"
        await press(pilot, "enter")
        assert "1 of 4 with 'KERN'" in shown(app)[-1]
        assert len([line for line in shown(app)[5:-1] if "│" in line]) == 1
        await press(pilot, "escape")
        assert len([line for line in shown(app)[5:-1] if "│" in line]) == 4
        await press(pilot, "slash", *"[red]q", "enter")
        assert "0 of 4 with '[red]q'" in shown(app)[-1]
        await press(pilot, "down", "enter", "up")
        assert app.failure is None

    see(Given(ledger(0)), look)


def test_the_tree_shows_processes_which_fold() -> None:
    async def look(app: TopApp, pilot: Pilot[None]) -> None:
        await press(pilot, "t")
        lines = shown(app)
        assert lines[5].startswith("▾ busy × 2")
        assert lines[6].startswith("  busy")
        assert lines[8].startswith("▾ kernel × 2")
        await press(pilot, "minus")
        lines = shown(app)
        assert lines[5].startswith("▸ busy × 2")
        assert lines[6].startswith("▾ kernel × 2")
        await press(pilot, "plus")
        assert shown(app)[5].startswith("▾ busy × 2")
        await pilot.click("#threads", offset=(0, 3))
        await settled(pilot)
        assert shown(app)[8].startswith("▸ kernel × 2")
        await press(pilot, "enter")
        assert any("process 100, 2 threads" in line for line in shown(app))

    see(Given(ledger(0)), look)


def percent(text: str) -> float:
    return 0.0 if text == "·" else float(text.removeprefix("≤").removesuffix("%"))


def test_a_process_has_what_its_threads_have_together() -> None:
    async def look(app: TopApp, pilot: Pilot[None]) -> None:
        await press(pilot, "t")
        head, *threads = [
            [percent(word) for word in line.split() if word.endswith("%")][:2] for line in shown(app)[5:8]
        ]
        assert threads == [[61, 60], [43, 40]]
        assert head == [104, 100]
        await press(pilot, "t")
        names = [line for line in shown(app) if "× 2" in line]
        assert [line.split()[:4] for line in names] == [["▸", "busy", "×", "2"], ["▸", "other", "×", "2"]]

    see(Given(ledger(0, names=("busy", "other"))), look)


def test_more_threads_than_lines_are_shown_by_name_until_the_user_says_otherwise() -> None:
    async def look(app: TopApp, pilot: Pilot[None]) -> None:
        feed = app._feed
        assert isinstance(feed, Given)
        assert [line.split()[:4] for line in shown(app)[5:8]] == [
            ["▸", "cc1", "×", "104"],
            ["▸", "as", "×", "104"],
            ["▸", "ld", "×", "104"],
        ]
        assert not shown(app)[8].strip("│ ")
        await press(pilot, "down", "plus")
        lines = shown(app)
        assert lines[6].startswith("▾ as × 104")
        assert lines[7].startswith("  as ")
        await press(pilot, "minus")
        assert shown(app)[7].startswith("▸ ld × 104")
        await feed.queue.put(ledger(1, 12, names=("cc1", "as", "ld")))  # more than half of the lines
        await settled(pilot)
        assert shown(app)[5].startswith("▸ cc1 × 4")
        await feed.queue.put(ledger(2, 9, names=("cc1", "as", "ld")))
        await settled(pilot)
        assert not any("×" in line for line in shown(app)[5:-1])
        await feed.queue.put(ledger(3, 312, names=("cc1", "as", "ld")))
        await settled(pilot)
        assert shown(app)[5].startswith("▸ cc1 × 104")
        await press(pilot, "t", "t", "t")  # pods, cgroups, threads
        assert "×" not in "\n".join(shown(app)[5:-1])

    see(Given(ledger(0, 312, names=("cc1", "as", "ld"))), look)


def test_opening_the_panel_groups_nothing() -> None:
    async def look(app: TopApp, pilot: Pilot[None]) -> None:
        await press(pilot, "down", "enter")
        assert "tid 2, process 100" in "\n".join(shown(app))
        assert "×" not in "\n".join(shown(app)[5:9])

    see(Given(ledger(0, 16, names=("worker",))), look)


def test_a_thread_that_was_chosen_stays_so_inside_its_group() -> None:
    async def look(app: TopApp, pilot: Pilot[None]) -> None:
        feed = app._feed
        assert isinstance(feed, Given)
        await press(pilot, "down", "down", "enter")
        assert "tid 3, process 101" in "\n".join(shown(app))
        await feed.queue.put(ledger(1, 40, names=("cc1", "as", "ld")))
        await settled(pilot)
        assert "ld  13 threads of 2 processes" in "\n".join(shown(app))
        await press(pilot, "t", "t", "t")  # pods, cgroups, threads
        assert "tid 3, process 101" in "\n".join(shown(app))

    see(Given(ledger(0, 9, names=("cc1", "as", "ld"))), look)


def test_the_panel_follows_the_chosen_thread_wherever_it_goes() -> None:
    async def look(app: TopApp, pilot: Pilot[None]) -> None:
        feed = app._feed
        assert isinstance(feed, Given)
        await press(pilot, "down", "enter")
        text = "\n".join(shown(app))
        assert "tid 2, process 100" in text
        assert "RPI 520 ms" in text
        assert "top system calls" in text
        await feed.queue.put(ledger(1))  # thread 2 has most progress now
        await settled(pilot)
        assert rows(app)[:2] == ["busy", "kernel"]
        assert "tid 2, process 100" in "\n".join(shown(app))
        assert "RPI 620 ms" in "\n".join(shown(app))
        await press(pilot, "tab", "end")
        assert "epi: waiting for memory is in it" in "\n".join(shown(app))
        await press(pilot, "tab", "enter")
        assert "tid 2, process 100" not in "\n".join(shown(app))

    see(Given(ledger(0)), look)


def test_lines_keep_their_places_from_a_choice_until_they_are_ordered_again() -> None:
    async def look(app: TopApp, pilot: Pilot[None]) -> None:
        feed = app._feed
        assert isinstance(feed, Given)

        async def next_one(at: int, number: int = 4) -> list[str]:
            await feed.queue.put(ledger(at, number))
            await settled(pilot)
            return rows(app)[:number]

        await press(pilot, "down")
        before = rows(app)[:4]
        assert await next_one(1) == before
        assert await next_one(2, 5) == [*before, "busy"], "a new thread comes last"
        await press(pilot, "r", "r")
        assert rows(app)[0] == "waiting", "it has most progress now"
        assert await next_one(3) == ["waiting", "kernel", "polling", "busy"]
        await press(pilot, "escape")
        assert rows(app)[0] == "busy"
        assert (await next_one(4))[0] == "kernel", "nothing is chosen any more"

    see(Given(ledger(0)), look)


def test_a_click_chooses_and_another_opens_the_panel() -> None:
    async def look(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.click("#threads", offset=(5, 2))
        await settled(pilot)
        await pilot.click("#threads", offset=(5, 2))
        await settled(pilot)
        assert "tid 3, process 101" in "\n".join(shown(app))
        keys = shown(app)[-1]
        await pilot.click("#keys", offset=(keys.index("processes"), 0))
        await settled(pilot)
        assert "▾ busy × 2" in "\n".join(shown(app))

    see(Given(ledger(0)), look)


def test_a_pause_keeps_the_picture_while_measuring_goes_on() -> None:
    async def look(app: TopApp, pilot: Pilot[None]) -> None:
        feed = app._feed
        assert isinstance(feed, Given)
        await press(pilot, "space")
        assert "paused" in shown(app)[0]
        await feed.queue.put(ledger(1))
        await feed.queue.put(ledger(2))
        await settled(pilot)
        assert "after 1.000 s" in shown(app)[0]
        assert rows(app)[0] == "busy"
        await press(pilot, "space")
        assert "after 3.000 s" in shown(app)[0]
        assert "▄▅▄" in shown(app)[6]

    see(Given(ledger(0)), look)


def test_help_is_a_window_over_it_all() -> None:
    async def look(app: TopApp, pilot: Pilot[None]) -> None:
        await press(pilot, "question_mark")
        text = "\n".join(shown(app))
        assert "choose a thread" in text
        await press(pilot, "end")
        assert "waiting for memory is in it" in "\n".join(shown(app))
        await press(pilot, "q")
        assert "choose a thread" not in "\n".join(shown(app))
        assert app.is_running

    see(Given(ledger(0)), look)


def test_many_threads_scroll_and_the_chosen_one_is_seen() -> None:
    async def look(app: TopApp, pilot: Pilot[None]) -> None:
        assert "2,000 threads" in shown(app)[1]
        await press(pilot, "t", "t", "t")  # pods, cgroups, and single threads instead of names
        await press(pilot, "less_than_sign", "less_than_sign", "end")
        lines = shown(app)
        assert lines[-2].split()[1] == "2000"
        await press(pilot, *["pageup"] * 3)
        assert shown(app)[5].split()[1] == str(2000 - 3 * 17)
        await press(pilot, "home")
        assert shown(app)[5].split()[1] == "1"
        app._list.scroll_to(y=500, animate=False, immediate=True)
        await settled(pilot)
        assert shown(app)[5].split()[1] == "501"

    see(Given(ledger(0, 2000)), look)


@pytest.mark.parametrize("size", [(40, 10), (56, 12), (80, 24), (100, 30), (130, 40), (200, 60), (320, 80)])
def test_any_size_shows_the_list_and_the_panel(size: tuple[int, int]) -> None:
    async def look(app: TopApp, pilot: Pilot[None]) -> None:
        await press(pilot, "enter")
        lines = shown(app)
        assert len(lines) == size[1]
        assert all(len(line) == size[0] for line in lines)
        assert any(line.startswith("busy") for line in lines)
        assert any("process 101" in line for line in lines)

    see(Given(ledger(0)), look, size=size)


def test_where_there_is_no_room_a_sentence_says_so_until_there_is() -> None:
    async def look(app: TopApp, pilot: Pilot[None]) -> None:
        text = " ".join(" ".join(shown(app)).split())
        assert text == f"30 × 8 is too small: {MIN_SIZE[0]} × {MIN_SIZE[1]} is the minimum; q quits"
        await press(pilot, "t", "enter", "enter", "space", "space", "t")
        await pilot.resize_terminal(80, 24)
        await settled(pilot)
        assert shown(app)[0].startswith("headway top")
        assert rows(app)[0] == "busy"
        await pilot.resize_terminal(20, 3)
        await settled(pilot)
        assert "too small" in " ".join(shown(app))

    see(Given(ledger(0)), look, size=(30, 8))


def test_no_colour_means_none_and_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    async def look(app: TopApp, pilot: Pilot[None]) -> None:
        await press(pilot, "enter", "question_mark")
        for segment in segments(app):
            assert segment.style is None or (segment.style.color is None and segment.style.bgcolor is None)
        await press(pilot, "escape")
        assert re.search(r"busy .* E+K?│W\.+", shown(app)[5])
        assert any(segment.style is not None and segment.style.reverse for segment in segments(app))

    see(Given(ledger(0)), look, coloured=False)


def test_a_terminal_of_ascii_gets_ascii() -> None:
    async def look(app: TopApp, pilot: Pilot[None]) -> None:
        await press(pilot, "t", "t")
        lines = shown(app)
        assert "\n".join(line[:79] for line in lines).isascii()
        assert "<60%" in lines[5]

    see(Given(ledger(0)), look, unicode=False)


def test_light_and_dark_have_colours_of_their_own() -> None:
    async def look(app: TopApp, pilot: Pilot[None]) -> None:
        dark = {str(segment.style.bgcolor) for segment in segments(app) if segment.style}
        await press(pilot, "l")
        light = {str(segment.style.bgcolor) for segment in segments(app) if segment.style}
        assert dark != light

    see(Given(ledger(0)), look)


@pytest.mark.parametrize("size", [(80, 24), (160, 40)])
def test_names_that_mean_harm_do_none(size: tuple[int, int]) -> None:
    names = HOSTILE_NAMES

    async def look(app: TopApp, pilot: Pilot[None]) -> None:
        await press(pilot, "t", "enter")
        for _ in range(4):
            await press(pilot, *["down"] * 6)
            for segment in segments(app):
                assert "\x1b" not in segment.text
                assert not re.search("[\x00-\x1f\x7f-\x9f\u202a-\u202e\ud800-\udfff]", segment.text)
        assert app.failure is None

    see(Given(ledger(0, len(names), names)), look, size=size)


def test_nothing_measured_is_shown_as_that() -> None:
    async def look(app: TopApp, pilot: Pilot[None]) -> None:
        assert "0 threads, 0 busy" in shown(app)[1]
        await press(pilot, "down", "enter", "t", "minus", "end", "question_mark")
        assert app.failure is None

    see(Given(ledger(0, 0)), look)


def test_before_the_first_interval_it_says_that_it_measures() -> None:
    async def look(app: TopApp, pilot: Pilot[None]) -> None:
        assert "measuring" in shown(app)[1]
        await press(pilot, "down", "enter", "question_mark", "t", "slash", "a", "escape", "greater_than_sign")
        assert app.failure is None

    see(Given(), look)


def test_what_has_ended_stays_on_the_screen() -> None:
    async def look(app: TopApp, pilot: Pilot[None]) -> None:
        assert "all that was chosen has ended" in shown(app)[0]
        assert rows(app)[0] == "busy"
        await press(pilot, "q")

    see(Given(ledger(0), None), look)


def test_the_screen_leaves_at_the_end_where_that_was_asked_for() -> None:
    async def look(app: TopApp, pilot: Pilot[None]) -> None:
        assert not app.is_running or app._exit

    see(Given(ledger(0), None), look, leave=True)


def test_what_goes_wrong_ends_it_and_is_kept() -> None:
    feed = Given(ledger(0))
    feed.queue.put_nowait(HeadwayError("the source is gone"))

    async def look(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.pause()

    app = see(feed, look)
    assert str(app.failure) == "the source is gone"


def test_keys_move_through_time() -> None:
    feed = Before(50)

    async def look(app: TopApp, pilot: Pilot[None]) -> None:
        assert "1 of 50" in shown(app)[0]
        await press(pilot, "right")
        assert "2 of 50 · after 2.000 s" in shown(app)[0]
        assert "▄▅" in shown(app)[5]
        await press(pilot, "right_square_bracket")
        assert "12 of 50" in shown(app)[0]
        await press(pilot, "left")
        assert "11 of 50" in shown(app)[0]
        await press(pilot, "G")
        assert "50 of 50" in shown(app)[0]
        await press(pilot, "right")
        assert "50 of 50" in shown(app)[0]
        await press(pilot, "g", "left")
        assert "1 of 50" in shown(app)[0]
        await press(pilot, "right")
        await press(pilot, "z")
        assert "3 of 100" in shown(app)[0]
        await press(pilot, "Z")
        assert "3 of 100" in shown(app)[0]

    see(feed, look)


def test_time_goes_on_by_itself_and_stops_at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(headway.views.screen.app, "_PLAYING", 0.01)
    feed = Before(100_000)

    async def look(app: TopApp, pilot: Pilot[None]) -> None:
        await press(pilot, "space")
        assert "stop" in shown(app)[-1]
        feed.number = app._place + 3
        for _ in range(200):
            await pilot.pause(0.02)
            await settled(pilot)
            if f"{feed.number} of {feed.number}" in shown(app)[0] and "stop" not in shown(app)[-1]:
                break
        assert f"{feed.number} of {feed.number}" in shown(app)[0]

    see(feed, look)


def test_how_it_is_to_begin_can_be_said() -> None:
    async def look(app: TopApp, pilot: Pilot[None]) -> None:
        assert "tid▾" in shown(app)[4]
        assert shown(app)[5].startswith("▾ kernel × 2")
        assert app.query_one("#threads").region.offset == Offset(0, 5)

    see(Given(ledger(0)), look, order=Order("tid", by=GroupBy.PROCESS), ground="light")
