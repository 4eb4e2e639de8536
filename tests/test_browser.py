"""The page in a real browser: it opens without a complaint, shows the ledger's figures, zooms, finds, and answers."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from tests.browser import ask, browser, load, missing, said
from tests.ledgers import HOSTILE_NAMES
from tests.profiles import small
from tests.recording.test_ledger import write
from tests.recording.test_profile import write as write_profile
from tests.recordings import Run

from headway.advice import Advice
from headway.cli.pages import page_to, write_ledger_page, write_recording_page
from headway.model import Behind, Cause, Cell, Durations, Kind, Ledger, Longest, Processor, Task, Thread, Window
from headway.recording.format import part_name
from headway.recording.queries.catalogue import find
from headway.recording.queries.instant import at
from headway.recording.reader import Recording
from headway.views.figures import with_unit
from headway.views.html import slices
from headway.views.html.words import sentences
from headway.views.palette import ORDER
from headway.views.printable import visible
from headway_machine.commands.pages import observed
from headway_machine.machine import Machine
from headway_machine.observer import Observer
from headway_machine.programs import programs

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

pytestmark = [pytest.mark.skipif(bool(missing()), reason=missing()), pytest.mark.end_to_end, pytest.mark.exhaustive]
HARMFUL = [
    *HOSTILE_NAMES,
    "</script><script>window.harmed = 1</script>",
    "<img src=x onerror='window.harmed = 1'>",
    "\u202egnp.exe",
    "a" * 10_000,
]


def until(driver: Chrome, expression: str) -> Any:
    """What an expression is in the page, as soon as it is something."""
    return ask(
        driver,
        f"""
        for (;;) {{
            const found = {expression};
            if (found) return found;
            await new Promise((r) => setTimeout(r, 20));
        }}
        """,
    )


@pytest.fixture(scope="module")
def driver() -> Iterator[Chrome]:
    with browser() as found:
        yield found


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Ledger]:
    """A recording of threads with harmful names, its page, and its ledger."""
    folder = tmp_path_factory.mktemp("pages")
    path, target = folder / "run.hw", folder / "run.html"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slices, "A_SLICE", 200)
        patch.setattr(slices, "_HELD", 400)
        write(path, Run(Random(7), threads=len(HARMFUL), cpus=3, names=HARMFUL), 60, moves=60)
        with Recording(path) as recording:
            ledger = recording.kept_ledger()
            assert ledger is not None
            write_recording_page(str(target), str(path), ledger, recording, ())
    return path, target, ledger


@pytest.fixture
def opened(driver: Chrome, recorded: tuple[Path, Path, Ledger]) -> Iterator[Chrome]:
    """The browser with that page; what was said to the console at the end is an error."""
    load(driver, recorded[1])
    yield driver
    assert said(driver) == []
    assert ask(driver, "return window.harmed === undefined")


def each_thread_by_itself(driver: Chrome) -> None:
    """Undo what the table does with more threads than it shows at once: those of one name have a row together."""
    assert ask(driver, "return document.getElementById('by-name').textContent") == "each thread by itself"
    ask(driver, "document.getElementById('by-name').click()")


def test_threads_of_one_name_have_a_row_that_unfolds(opened: Chrome, recorded: tuple[Path, Path, Ledger]) -> None:
    ledger = recorded[2]
    found: list[Any] = ask(
        opened,
        """
        return [...document.querySelectorAll('tr.group')].map((row) => {
            row.click();
            const again = document.querySelector(`tr.group[data-group="${row.dataset.group}"]`), inside = [];
            for (let next = again.nextElementSibling; next; next = next.nextElementSibling) {
                if (next.classList.contains('group')) break;
                if (next.querySelector('th.inside')) inside.push(Number(next.dataset.thread));
            }
            const text = [again.querySelector('.name').textContent, again.querySelectorAll('td.figure')[1].textContent];
            again.click();
            return [...text, inside];
        });
        """,
    )
    expected: dict[str, list[int]] = {}
    for place, thread in enumerate(ledger.threads):
        expected.setdefault(thread.name, []).append(place)
    groups = [places for places in expected.values() if len(places) > 1]
    assert sorted(sorted(inside) for _, _, inside in found) == sorted(groups)
    for name, rpi, inside in found:
        assert name == (visible(ledger.threads[inside[0]].name, 300) or "(no name)")
        whole = sum(ledger.indices(ledger.threads[place]).rpi or 0 for place in inside)
        assert rpi == with_unit(whole, "ns", 7, " ").strip()


def test_the_page_shows_the_figures_of_the_ledger(opened: Chrome, recorded: tuple[Path, Path, Ledger]) -> None:
    ledger = recorded[2]
    each_thread_by_itself(opened)
    text = ask(opened, "return document.getElementById('summary').innerText")
    for sentence in sentences(ledger):
        assert re.sub(r"\s+", " ", sentence) in re.sub(r"\s+", " ", text)
    rows = ask(
        opened,
        """
        page.store.filter = ''; page.store.tell('filter');
        return [...document.querySelectorAll('tr.thread')].map((row) =>
            [Number(row.dataset.thread), [...row.querySelectorAll('td.figure')].map((cell) => cell.textContent)]);
        """,
    )
    assert len(rows) == min(len(ledger.threads), 100)
    for place, figures in rows:
        thread = ledger.threads[place]
        indices = ledger.indices(thread)
        assert figures[0] == str(thread.tid)
        assert figures[1] == with_unit(indices.rpi or 0, "ns", 7, " ").strip()
        assert figures[2].removeprefix("≤") == with_unit(indices.epi or 0, "ns", 7, " ").strip()
        assert figures[4] == "–"
    shown = ask(
        opened,
        """
        document.querySelector('tr.thread').click();
        const place = Number(document.querySelector('tr.thread[aria-expanded="true"]').dataset.thread);
        return [place, [...document.querySelectorAll('.states td[data-value]')].map((cell) => cell.dataset.value)];
        """,
    )
    place, times = shown
    expected = sorted((cell.time for cell in ledger.threads[place].states.values() if not cell.empty), reverse=True)
    assert [int(time) for time in times] == expected


def test_losses_and_quality_are_in_view_wherever_one_is(opened: Chrome, recorded: tuple[Path, Path, Ledger]) -> None:
    ledger = recorded[2]
    ask(opened, "window.scrollTo(0, document.body.scrollHeight)")
    strip = ask(
        opened,
        """
        const strip = document.getElementById('quality'), box = strip.getBoundingClientRect();
        return [strip.innerText, box.top >= 0 && box.bottom <= innerHeight];
        """,
    )
    assert strip[1]
    assert f"lost: handlers skipped {ledger.losses['handlers_skipped']}" in strip[0]
    assert "EPI at most" in strip[0]
    assert "MPI not known" in strip[0] or "Td, MPI not known" in strip[0]


def test_of_a_recording_with_damaged_files_nothing_is_called_complete(
    driver: Chrome, tmp_path: Path, recorded: tuple[Path, Path, Ledger]
) -> None:
    path, target = tmp_path / "run.hw", tmp_path / "run.html"
    shutil.copytree(recorded[0], path)
    (path / "transitions" / part_name(0)).write_bytes(b"no table")
    with Recording(path) as recording:
        write_recording_page(str(target), str(path), replace(recorded[2], losses={}), recording, ())
    load(driver, target)
    strip = ask(driver, "return document.getElementById('quality').innerText")
    assert "1 of the recording's files cannot be read" in strip
    assert "every one of" not in strip
    assert "nothing lost" not in strip


def test_the_timeline_zooms_to_single_transitions(opened: Chrome) -> None:
    found = ask(
        opened,
        """
        const { timeline, store } = page;
        const before = [timeline.start, timeline.end, timeline.lastPicture.fine];
        const middle = store.length / 2;
        await timeline.show(middle - 300, middle + 300);
        const there = [timeline.start, timeline.end, timeline.lastPicture.fine];
        document.body.dispatchEvent(new KeyboardEvent('keydown', { key: 's', bubbles: true }));
        document.body.dispatchEvent(new KeyboardEvent('keydown', { key: '0', bubbles: true }));
        await timeline.show(timeline.start, timeline.end);
        return [before, there, [timeline.start, timeline.end], store.length];
        """,
    )
    before, there, after, length = found
    assert before[:2] == after == [0, length]
    assert there[1] - there[0] == pytest.approx(600)
    assert there[2]


def test_what_is_drawn_is_what_was_recorded(opened: Chrome, recorded: tuple[Path, Path, Ledger]) -> None:
    """In the middle of each wide stretch of a lane there is the colour of its kind."""
    wrong = ask(
        opened,
        """
        const { timeline, store } = page;
        store.lane = store.instant = store.stretch = null;
        let seen = 0, wrong = [];
        for (const part of [0.2, 0.5, 0.8]) {
            const middle = store.length * part;
            await timeline.show(middle - 400, middle + 400);
            const canvas = timeline.canvas, context = canvas.getContext('2d');
            const ratio = canvas.width / canvas.clientWidth;
            for (let at = 0; at < timeline.lanes.length && timeline.tops[at + 1] < canvas.clientHeight; at++) {
                const lane = timeline.lanes[at];
                if (lane.sort !== 'thread') continue;
                for (let x = timeline.labels + 4; x < timeline.labels + timeline.room; x += 37) {
                    const found = store.stretchAt(lane.place, timeline.timeAt(x));
                    if (!found) continue;
                    const from = Math.max(timeline.x(found.start), timeline.labels);
                    const until = Math.min(timeline.x(found.end), timeline.labels + timeline.room);
                    if (until - from < 6) continue;
                    seen++;
                    // Near its end and its foot, where no text is.
                    const place = [(until - 3) * ratio, (timeline.tops[at] + 16) * ratio];
                    const pixel = [...context.getImageData(...place, 1, 1).data].slice(0, 3);
                    const colour = '#' + pixel.map((one) => one.toString(16).padStart(2, '0')).join('');
                    const expected = store.colour(store.kindOf(found.state)).toLowerCase();
                    if (colour !== expected) wrong.push([lane.place, x, colour, expected]);
                }
            }
        }
        return [seen, wrong];
        """,
    )
    assert wrong[0] > 50
    assert wrong[1] == []
    assert all("willReadFrequently" in text for text in said(opened))  # that was this test


def test_an_instant_is_what_headway_at_says(opened: Chrome, recorded: tuple[Path, Path, Ledger]) -> None:
    path, _, ledger = recorded
    (run,) = find(str(path)).runs
    random = Random(3)
    for _ in range(5):
        time = random.randrange(ledger.window.duration)
        found = ask(
            opened,
            """
            return (await page.store.at(given[0])).map(({ thread, stretch }) => [thread, stretch &&
                [page.store.stateName(stretch.state), stretch.start, stretch.end,
                 stretch.cpu < 0 ? null : page.store.report.processors[stretch.cpu].cpu]]);
            """,
            time,
        )
        shown = sorted((ledger.threads[place].tid, *(row or ["unknown", None, None, None])) for place, row in found)
        start = ledger.window.start
        expected = sorted(
            (d.tid, d.state, d.since and d.since - start, d.until and d.until - start, d.cpu)
            for d in at(run, f"{time}ns").threads
        )
        assert shown == expected


def test_a_click_on_the_timeline_fills_the_panel(opened: Chrome, recorded: tuple[Path, Path, Ledger]) -> None:
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.by import By

    canvas = opened.find_element(By.CSS_SELECTOR, "canvas.lanes")
    opened.execute_script("arguments[0].scrollIntoView({block: 'center'})", canvas)
    ActionChains(opened).move_to_element(canvas).click().perform()
    shown = "document.getElementById('instant').innerText"
    text = until(opened, f"{shown}.includes('headway at') && {shown}")
    instant = ask(opened, "return page.store.instant")
    assert instant == pytest.approx(recorded[2].window.duration / 2, rel=0.3)
    match = re.search(r"headway at RUN\.hw ([0-9.]+s)", text)
    assert match is not None
    (run,) = find(str(recorded[0])).runs
    assert f"{len(at(run, match[1]).threads)} threads: " in text


def test_a_thread_is_found_and_a_state_is_gone_to(opened: Chrome, recorded: tuple[Path, Path, Ledger]) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    ledger = recorded[2]
    tid = ledger.threads[2].tid
    search = opened.find_element(By.ID, "search")
    search.send_keys(str(tid))
    listed = ask(opened, "return [...document.querySelectorAll('tr.thread')].map((row) => Number(row.dataset.thread))")
    assert {ledger.threads[place].tid for place in listed} == {tid}
    search.clear()
    search.send_keys("wait.disk", Keys.ENTER)
    for _ in range(2):
        found = ask(
            opened,
            """
            for (let i = 0; i < 1000 && !page.store.stretch; i++) await new Promise((r) => setTimeout(r, 20));
            const { stretch } = page.store;
            return [page.store.stateName(stretch.state), stretch.start];
            """,
        )
        assert found[0] == "wait.disk"
    following = ask(opened, "const next = await page.timeline.find('wait.disk', 1); return next.start")
    assert following > found[1]
    search.clear()
    search.send_keys(Keys.ESCAPE)


def test_from_a_wait_one_goes_to_who_ended_it(opened: Chrome) -> None:
    found = ask(
        opened,
        """
        const { timeline, store } = page;
        for (let at = 0; at < store.slices.count; at++) {
            const rows = await store.slices.load(at);
            for (let row = 0; row < rows.start.length; row++) {
                const thread = store.wakerThread(rows.waker[row]);
                const [begin, end] = thread === null ? [0, 0] : store.life(thread);
                if (thread !== null && thread !== rows.lane[row] && begin <= rows.end[row] && end > rows.end[row]) {
                    await timeline.goTo({ lane: rows.lane[row], state: rows.state[row], start: rows.start[row],
                        end: rows.end[row], cpu: rows.cpu[row], waker: rows.waker[row] });
                    await timeline.toWaker();
                    return [thread, store.lane, rows.end[row], store.stretch.start, store.stretch.end];
                }
            }
        }
        """,
    )
    wanted, lane, end, begins, ends = found
    assert lane == wanted
    assert begins <= end < ends


def test_the_keyboard_goes_from_stretch_to_stretch(opened: Chrome) -> None:
    seen = ask(
        opened,
        """
        const { timeline, store } = page;
        const press = async (key) => {
            const before = store.stretch;
            document.body.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
            for (let i = 0; i < 1000 && store.stretch === before; i++) await new Promise((r) => setTimeout(r, 10));
            return [store.stretch.start, store.stretch.end];
        };
        const rows = await store.slices.load(1);
        const threads = [...rows.of].filter(([lane]) => lane >= 0);
        const [lane, [from]] = threads.sort((a, b) => b[1][1] - b[1][0] - (a[1][1] - a[1][0]))[0];
        store.stretch = null;
        store.lane = lane;
        store.instant = rows.start[from];
        return [await press('.'), await press('.'), await press('.'), await press(','), await press(',')];
        """,
    )
    first, second, third, back, again = seen
    assert first[1] == second[0]
    assert second[1] == third[0]
    assert (back, again) == (second, first)


def test_names_keep_their_direction_to_themselves(opened: Chrome, recorded: tuple[Path, Path, Ledger]) -> None:
    each_thread_by_itself(opened)
    found: list[Any] = ask(
        opened,
        """
        return [...document.querySelectorAll('tr.thread th .name')].map((one) =>
            [one.textContent, getComputedStyle(one).unicodeBidi, one.children.length]);
        """,
    )
    expected = [visible(thread.name, 300) or "(no name)" for thread in recorded[2].threads]
    assert sorted({name for name, _, _ in found} - set(expected)) == []
    assert len(found) == min(len(expected), 100)
    assert {(direction, children) for _, direction, children in found} == {("isolate", 0)}


def test_the_page_is_drawn_light_and_dark(opened: Chrome) -> None:
    grounds = ask(
        opened,
        """
        const ground = () => getComputedStyle(document.documentElement).backgroundColor;
        const first = ground();
        document.getElementById('theme').click();
        const second = ground();
        document.getElementById('theme').click();
        return [first, second, ground()];
        """,
    )
    assert grounds[0] != grounds[1]
    assert grounds[0] == grounds[2]


def test_a_flame_graph_narrows_to_kinds(driver: Chrome, tmp_path: Path) -> None:
    path, target = tmp_path / "prof.hw", tmp_path / "prof.html"
    write_profile(path, small())
    with Recording(path) as recording:
        ledger = recording.kept_ledger()
        assert ledger is not None
        write_recording_page(str(target), str(path), ledger, recording, ())
    load(driver, target)
    titles = "[...document.querySelectorAll('.flame g.frame title')].map((one) => one.textContent)"
    every = until(driver, f"{titles}.length && {titles}")
    assert any(title.startswith("inner") for title in every)
    assert any(title.startswith(("all: ~2.000 s", "all: ~2.00 s")) for title in every), every
    ask(
        driver,
        """
        for (const box of document.querySelectorAll('.kinds input'))
            if (box.parentElement.innerText.includes('effective')) box.click();
        """,
    )
    waits = until(driver, f"!{titles}.some((title) => title.startsWith('inner')) && {titles}")
    assert any(title.startswith("schedule") for title in waits)
    assert not any(title.startswith("inner") for title in waits)
    assert said(driver) == []


def test_a_ledger_alone_is_a_page_too(driver: Chrome, tmp_path: Path, recorded: tuple[Path, Path, Ledger]) -> None:
    ledger = recorded[2]
    first = ledger.threads[0]
    state = max(first.states, key=lambda state: first.states[state].time)
    cause = Cause(state, Behind.OBJECT, "<b>/var/log</b>", first.states[state].time, 3)
    threads: tuple[Thread, ...] = (replace(first, causes=(cause,)), *ledger.threads[1:])
    advice = Advice(first.tid, "kpi", 0.5, 0.1, "less <i>of</i> it", "headway stat --why kernel")
    target = tmp_path / "stat.html"
    with page_to(str(target)) as stream:
        write_ledger_page(stream, replace(ledger, threads=threads), title="./work", command=["./work"], advice=[advice])
    load(driver, target)
    each_thread_by_itself(driver)
    text = ask(
        driver,
        "for (const row of document.querySelectorAll('tr.thread')) if (row.dataset.thread === '0') row.click();"
        "return document.body.innerText",
    )
    assert "<b>/var/log</b>" in text
    assert "less <i>of</i> it" in text
    assert "headway record -o NAME.hw" in text
    assert said(driver) == []


def test_many_threads_are_a_row_for_each_name_until_one_opens_it(driver: Chrome, tmp_path: Path) -> None:
    threads = [
        Thread(tid, tid, ("cc1", "as")[tid % 2], 0, 0, None, 100, 100, {"user": Cell(100, 1)}) for tid in range(1, 241)
    ]
    target = tmp_path / "many.html"
    ledger = Ledger("bpf", Window(0, 100), (replace(threads[0], tid=999, name="make"), *threads))
    with page_to(str(target)) as stream:
        write_ledger_page(stream, ledger, title="make", command=None, advice=())
    load(driver, target)
    rows = "[...document.querySelectorAll('#threads tbody > tr')].filter((r) => r.dataset.group || r.dataset.thread)"
    texts = f"return {rows}.map((row) => row.querySelector('th').innerText)"
    assert sorted(ask(driver, texts)) == ["as × 120", "cc1 × 120", "make"]
    figures = ask(driver, "return document.querySelector('tr.group').querySelectorAll('td.figure')[1].textContent")
    assert figures == with_unit(12_000, "ns", 7, " ").strip()
    ask(driver, "document.querySelector('tr.group').click(); return 0")
    assert len(ask(driver, texts)) == 3 + 100
    ask(driver, "document.getElementById('by-name').click(); return 0")
    assert not any("×" in text for text in ask(driver, texts))
    assert said(driver) == []


def test_tasks_are_a_table_and_durations_share_a_scale(driver: Chrome, tmp_path: Path) -> None:
    checkout = Task("<b>checkout</b>", 0, 3, {"user": Cell(700, 3), "wait.futex": Cell(100, 1)})
    states = {"user": Cell(1000, 6), "wait.futex": Cell(5096, 3), "ready": Cell(7, 1)}
    durations = {
        "user": Durations(((4, 3), (8, 3)), 1, longest=Longest(200, 900)),
        "wait.futex": Durations(((10, 2), (12, 1)), 1, longest=Longest(4000, 5000)),
        "ready": Durations(((2, 1),), 1, longest=Longest(7, 1000)),
    }
    span = sum(cell.time for cell in states.values())
    one = Thread(1, 1, "shop", 0, 0, None, span, span, states, tasks=(checkout,), durations=durations)
    unknown = Processor(0, 1000, {"user": Cell(250), "idle": Cell(250), "unknown.unmeasured": Cell(500)})
    target = tmp_path / "tasks.html"
    with page_to(str(target)) as stream:
        ledger = Ledger("bpf", Window(0, span), (one,), (unknown,))
        write_ledger_page(stream, ledger, title="shop", command=None, advice=())
    load(driver, target)
    rows = ask(
        driver, "return [...document.querySelectorAll('#tasks tbody tr')].map((row) => row.innerText.split('\\t'))"
    )
    assert [row[0] for row in rows] == ["<b>checkout</b>", "no task"]
    assert "700 ns" in rows[0]
    assert ask(driver, "return document.querySelector('#processors td.figure').innerText") == "≥25 %"
    ask(driver, "document.querySelector('tr.thread').click(); return 0")
    pictures = ask(
        driver,
        """
        return [...document.querySelectorAll('.histogram')].map((one) =>
            [one.getAttribute('width'), [...one.querySelectorAll('rect')].map((bar) => Number(bar.getAttribute('x')))])
        """,
    )
    assert len(pictures) == 2, "one occurrence is no histogram"
    assert len({width for width, _ in pictures}) == 1
    places = sorted(place for _, bars in pictures for place in bars)
    assert [place // 6 for place in places] == [0, 4, 6, 8]
    assert said(driver) == []


@pytest.mark.parametrize("shape", [(1, 6, "strict"), (2, 3, "skip")], ids=str)
def test_a_page_of_the_machine_shows_progress_over_time_power_and_each_cycle(
    driver: Chrome, tmp_path: Path, shape: tuple[int, int, str]
) -> None:
    name = "six-threads"
    cores, threads, issue = shape
    config = programs()[name].config().with_values(cores=cores, threads=threads, issue=issue)
    observer = Observer()
    result = Machine(config).run(programs()[name].image(), observer=observer)
    target = tmp_path / "machine.html"
    with page_to(str(target)) as stream:
        write_ledger_page(stream, result.ledger, title=name, **observed(observer, result))
    load(driver, target)
    assert until(driver, "document.querySelector('#timeline h2').innerText") == "Progress over time"
    # Over all of the run, a lane has of each kind what the ledger has.
    found = ask(
        driver,
        """
        const { store } = await window.headway;
        const kinds = store.report.kinds.length;
        const whole = store.length;
        return [...Array(store.threads + store.report.processors.length).keys()].map((lane) => {
            const into = new Float32Array(kinds);
            store.levels.shares(lane, 0, whole, 1, into, kinds);
            return [...into];
        });
        """,
    )
    ledger = result.ledger
    whole = [*map(ledger.times, ledger.threads), *map(ledger.times, ledger.processors)]
    for row, times in zip(found, whole, strict=True):
        assert row == pytest.approx([times[kind] / result.cycles for kind in ORDER], abs=0.01)
    rows = ask(
        driver,
        """
        return [...document.querySelectorAll('#power tbody tr')].map((row) =>
            [row.querySelector('th').innerText, ...[...row.querySelectorAll('.figure')].map((cell) => cell.innerText)]);
        """,
    )
    assert [row[0] for row in rows] == [str(one.cpu) for one in ledger.processors]
    halted = ["0" if one.states.get("idle.c1") is None else f"{one.states['idle.c1'].time / result.cycles:.1%}"
              for one in ledger.processors]  # fmt: skip
    assert [row[2] for row in rows] == [share.replace("%", " %") for share in halted]
    window = observer.window
    assert window is not None
    text = until(driver, "document.querySelector('#pipeline').innerText")
    assert f"Each cycle of core {window.core}" in text
    assert f"the slot was used in {len(window.issued)} of {window.end - window.first} cycles" in text
    one = next(each for each in window.issued if each.cycle < window.first + 100)
    said_of = ask(
        driver,
        """
        const [at, row] = given;
        const canvas = document.querySelector('#pipeline canvas');
        const { left, top } = canvas.getBoundingClientRect();
        const [clientX, clientY] = [left + at * 9 + 4, top + 18 + row * 17 + 8];
        canvas.dispatchEvent(new MouseEvent('mousemove', { clientX, clientY }));
        return document.querySelector('#pipeline .detail').textContent;
        """,
        one.cycle - window.first,
        list(window.harts).index(one.hart),
    )
    assert f"cycle {one.cycle:,}" in said_of
    assert f"slot: hart {one.hart}, {one.address:#010x} {observer.names[one.address]}" in said_of
    painted = ask(
        driver,
        """
        return [...document.querySelectorAll('#power canvas, #pipeline canvas')].map((canvas) => {
            const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
            return new Set(new Uint32Array(data.buffer)).size;
        });
        """,
    )
    assert all(colours > 1 for colours in painted), "something is drawn"
    assert said(driver) == []


def shares(*times: Mapping[Kind, int]) -> dict[int, Any]:
    """The parts of a bar by the places of their kinds, in per cent of the whole."""
    together = {place: sum(each[kind] for each in times) for place, kind in enumerate(ORDER)}
    whole = sum(together.values())
    return {place: pytest.approx(100 * time / whole, abs=0.01) for place, time in together.items() if time}


@pytest.mark.parametrize("name", ["pointer-chase", "six-threads"])
def test_every_bar_is_the_ledgers(driver: Chrome, tmp_path: Path, name: str) -> None:
    """On the machine, whose ledger knows what waited for memory, of threads and of processors."""
    config = programs()[name].config()
    ledger = Machine(config).run(programs()[name].image(), max_cycles=20_000_000).ledger
    target = tmp_path / "bars.html"
    with page_to(str(target)) as stream:
        write_ledger_page(stream, ledger, title=name, command=None, advice=())
    load(driver, target)
    bars = ask(
        driver,
        """
        return [...document.querySelectorAll('.bar')].map((bar) => [
            bar.closest('section').id,
            bar.closest('tr')?.querySelector('th').innerText,
            Object.fromEntries([...bar.children].map((part) => [part.dataset.kind, parseFloat(part.style.width)]))]);
        """,
    )
    shown = [(where, who, {int(kind): share for kind, share in parts.items()}) for where, who, parts in bars]
    processors = [(who, parts) for where, who, parts in shown if where == "processors"]
    assert processors == [(f"cpu {one.cpu}", shares(ledger.times(one))) for one in ledger.processors]
    threads = [parts for where, _, parts in shown if where == "threads"]
    expected = [shares(ledger.times(thread)) for thread in ledger.threads]
    assert len(threads) == len(expected)
    assert all(parts in expected for parts in threads)
    (whole,) = [parts for where, _, parts in shown if where not in ("processors", "threads")]
    assert whole == shares(*[ledger.times(thread) for thread in ledger.threads])
    assert any(Kind.MEMORY is ORDER[kind] for _, parts in processors for kind in parts)
