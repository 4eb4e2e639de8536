"""Trigger markers where traces are read: rows, moments, exports; the profile's windows as counters beside them."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.machine.elves import RAM
from tests.machine.examples import EXAMPLES
from tests.perfetto import read
from tests.running import headway
from tests.trace.slices import check_nesting
from tests.trace.threads.runs import Run, run
from tests.trace.threads.test_events import STORE, loop, sequence
from tests.trace.threads.test_perfetto import edges, program

from headway.errors import HeadwayError
from headway.views.html.stretches import Stretches
from headway.views.perfetto.tracks import File
from headway_machine.config import Action, Config, TraceUnitConfig, Trigger
from headway_machine.image import MachineImage
from headway_machine.machine import Machine
from headway_trace.threads.container import COUNTED, TraceFile
from headway_trace.threads.reading import Trace as Traced
from headway_trace.threads.slices import track_of, write

MARK = (Action(1, mark=True),)
TRIGGER = 19


def marked(count: int, *, threads: int = 1, issue: str = "strict", harts: int = 0xFF, states: int = 7) -> Run:
    """The loop of thirty stores on every hart; the count-th of the harts that are looked at is marked."""
    trigger = Trigger(first=STORE, count=count, harts=harts)
    trace = TraceUnitConfig(enabled=True, **sequence(trigger, actions=MARK, states=states))
    return run(
        Config.of(threads=threads, issue=issue, boot="all", trace=trace), MachineImage.of(loop(30)), 3000 * threads
    )


@given(
    count=st.integers(1, 30),
    threads=st.integers(1, 4),
    hart=st.integers(0, 3),
    issue=st.sampled_from(["strict", "skip"]),
)
@settings(max_examples=20, deadline=None)
def test_a_marker_follows_the_instruction_that_fired(count: int, threads: int, hart: int, issue: str) -> None:
    hart %= threads
    ran = marked(count, threads=threads, issue=issue, harts=1 << hart)
    rows, decoder = ran.decode(0)
    (at,) = (number for number, row in enumerate(rows) if row[5] == TRIGGER)
    fired = [row for row in rows[:at] if row[0] == hart and row[5] in (16, 17)][-1]
    assert rows[at] == (hart, fired[1], 0, STORE, 0, TRIGGER, fired[6])
    stores = [cycle for cycle, _, address, what in ran.log[hart] if (address, what) == (STORE, 16)]
    assert fired[1] == stores[count - 1] + ran.unit - 1
    assert decoder.markers() == [(hart, fired[1])]
    assert decoder.contradictions == 0


def test_a_marker_of_a_thread_that_is_not_traced_has_no_place() -> None:
    """The thread is traced from the state on that the marker is for."""
    rows, decoder = marked(3, states=0b110).decode(0)
    assert [row for row in rows if row[5] == TRIGGER] == [(0, None, None, 0, 0, TRIGGER, 0)]
    assert (decoder.triggers, decoder.markers()) == (1, [])


def traced(folder: Path, issue: str) -> Traced:
    """A run of `mutex`, with a marker when `main` begins, and a profile."""
    trigger = Trigger(symbol="main")
    trace = TraceUnitConfig(enabled=True, window=20_000, **sequence(trigger, actions=MARK))
    path = folder / "mutex.hwt"
    with path.open("wb") as stream:
        Machine(Config.of(issue=issue, trace=trace)).run(EXAMPLES / "mutex.elf", trace=stream)
    return Traced(TraceFile(path), program("mutex"))


@pytest.fixture(scope="module", params=["strict", "skip"])
def trace(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Traced:
    return traced(tmp_path_factory.mktemp("markers"), request.param)


def place(trace: Traced) -> tuple[int, int]:
    """Thread and cycle of the one marker."""
    (row,) = (rows[n] for rows in trace.rows(0) for n in range(len(rows)) if rows[n][5] == TRIGGER)
    assert trace.program is not None
    assert trace.program.symbol(row[3]) == "main"
    assert row[1] is not None
    return row[0], row[1]


def test_a_moment_has_the_marker_of_the_thread_that_caused_it(trace: Traced) -> None:
    thread, cycle = place(trace)
    unit = trace.shape.threads if trace.shape.strict else 1
    for at, expected in ((cycle, True), (cycle - unit + 1, True), (cycle - unit, False), (cycle + 1, False)):
        moments = trace.at(at)
        assert moments[thread].triggered == expected
        assert not any(one.triggered for one in moments if one.thread != thread)


def test_the_export_has_the_marker_as_an_instant(trace: Traced) -> None:
    thread, cycle = place(trace)
    found = edges(trace)
    assert check_nesting(found) == 2
    (instant,) = (edge for edge in found if edge.instant)
    time = trace.clock(0).tick(cycle + 1)
    assert (instant.track, instant.time, instant.name) == (track_of(0, thread), time, "trigger")


@pytest.mark.exhaustive  # only make test-all has Perfetto's reader
def test_the_export_for_perfetto_has_the_marker_and_the_profile(trace: Traced) -> None:
    stream = io.BytesIO()
    file = File(stream)
    write(trace, [0], file)
    file.close()
    found = read(stream.getvalue())
    (instant,) = found.instants
    assert (instant.name, instant.category) == ("trigger", "trigger")
    tracks = {number: track for number, track in found.tracks.items() if number in found.counters}
    assert [track.name for track in tracks.values()] == [name.replace("_", " ") for name in COUNTED]
    assert {track.unit for track in tracks.values()} == {"", "cycles"}
    assert {track.parent for track in tracks.values()} == {track_of(0)}
    windows = [*trace.windows(0)]
    for number, counter in enumerate(tracks):
        values = found.counters[counter]
        assert [time for time, _ in values] == sorted(time for time, _ in values)
        assert sum(value for _, value in values) == sum(window[1 + number] for window in windows)
        assert values[-1] == (trace.clock(0).tick(windows[-1][0]), 0)


def test_the_page_says_where_the_marker_was(trace: Traced) -> None:
    thread, cycle = place(trace)
    page = Stretches()
    write(trace, [0], page)
    assert page.remarks() == [
        f"trigger at {trace.clock(0).tick(cycle + 1):,} (hart {thread})",
        "the windows of the profile are not on this page: --to perfetto has them",
    ]


def test_the_commands_show_the_marker(tmp_path: Path) -> None:
    found = traced(tmp_path, "strict")
    thread, cycle = place(found)
    path, image = tmp_path / "mutex.hwt", ("--image", "mutex")
    lines = headway("trace", "decode", path, *image, "--format", "csv").stdout.splitlines()
    (row,) = (line for line in lines if ",trigger," in line)
    address = MachineImage.load(EXAMPLES / "mutex.elf").functions["main"][0]
    assert row == f"0x0,{thread},{cycle},0,{address:#010x},0,trigger,main"
    moment = json.loads(headway("trace", "at", path, *image, "--cycle", cycle, "--format", "json").stdout)
    assert [one["trigger"] for one in moment] == ["marked" if one["thread"] == thread else "" for one in moment]


def test_a_trigger_takes_the_name_of_a_function_or_a_variable() -> None:
    image = MachineImage.load(EXAMPLES / "mix.elf")
    assert {"main", "matmul"} <= image.functions.keys()
    start, end = image.objects["mix_choice"]
    assert end - start == 4
    for values, watched in (({}, 1), ({"range": True}, 1)):
        trigger = Trigger(symbol="mix_choice", watch="load", **values)
        config = Config.of(trace=TraceUnitConfig(enabled=True, **sequence(trigger, actions=MARK)))
        stream = io.BytesIO()
        Machine(config).run(image, trace=stream, max_cycles=300_000)
        assert stream.getvalue().count(b"\x0c") >= watched


def test_a_trigger_with_an_unknown_symbol_is_one_sentence() -> None:
    config = Config.of(trace=TraceUnitConfig(enabled=True, triggers=(Trigger(symbol="mian"),)))
    with pytest.raises(
        HeadwayError, match=r"trace.triggers\[0\].symbol is 'mian', but .*mix.elf has no function or var"
    ):
        Machine(config).run(EXAMPLES / "mix.elf")


@pytest.mark.parametrize(
    ("given_text", "words"),
    [
        ("[[trace.triggers]]\ncount = 2", "trace.triggers[0].first is missing: give an address, or a symbol"),
        (
            f"[[trace.triggers]]\nfirst = {RAM}\nsymbol = 'main'",
            "trace.triggers[0].symbol is given, and first or second",
        ),
        (
            "[[trace.counters]]\nsource = 'cycles'",
            "trace.counters[0].source is 'cycles': give \"data_cache_misses\" or",
        ),
        ("[[trace.counters]]\nharts = 256", "trace.counters[0].harts is 256: give a whole number from 0x0 to 0xff"),
        ("[[trace.counters]]\n" * 7, "trace.counters has 7 entries: give 6 at most"),
        ("[trace]\ncounters = []", "trace.counters has no entries: give 1 to 6, or leave it out"),
    ],
)
def test_what_the_trace_unit_cannot_be_told_is_one_sentence(given_text: str, words: str) -> None:
    with pytest.raises(HeadwayError) as caught:
        Config.from_text(given_text)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
