from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.linux.machines import AMD_UNIT, SKYLAKE_UNIT, alder_lake, machine, skylake

from headway.linux.perf.events import EventError, EventFinder, Pmu, split_events
from headway.linux.perf.perf_event import HARDWARE, HW_CACHE, RAW, SOFTWARE, TRACEPOINT, Event


@pytest.fixture
def events(tmp_path: Path) -> EventFinder:
    return EventFinder(skylake(tmp_path) / "sys")


@pytest.mark.parametrize(
    ("name", "kind", "config"),
    [
        ("page-faults", SOFTWARE, 2),
        ("faults", SOFTWARE, 2),
        ("cs", SOFTWARE, 3),
        ("cgroup-switches", SOFTWARE, 11),
        ("cycles", HARDWARE, 0),
        ("stalled-cycles-backend", HARDWARE, 8),
        ("LLC-load-misses", HW_CACHE, 0x10002),
        ("dTLB-loads", HW_CACHE, 3),
        ("L1-dcache-prefetch-misses", HW_CACHE, 0x10200),
        ("branch-load-misses", HW_CACHE, 0x10005),
        ("llc-loads", HW_CACHE, 2),
        ("r1a3", RAW, 0x1A3),
        ("cpu/event=0xa3,umask=0x4,cmask=4/", RAW, 0x40004A3),
        ("cpu/config=0x40004a3/", RAW, 0x40004A3),
        ("cpu/event=0xb1,umask=1,inv,cmask=1/", RAW, 0x18001B1),
        ("cpu/cpu-cycles/", RAW, 0x3C),
        ("cpu/cpu-cycles,umask=0x1/", RAW, 0x13C),
    ],
)
def test_names_mean_what_they_mean_to_perf(events: EventFinder, name: str, kind: int, config: int) -> None:
    assert events.find(name) == Event(name, kind, config)


def test_a_ready_made_event_may_fill_another_config(events: EventFinder) -> None:
    found = events.find("cpu/mem-loads/")
    assert (found.config, found.config1) == (0x1CD, 3)
    assert events.find("mem-loads").config == 0x1CD


def test_a_value_is_spread_over_the_places_that_the_format_names(tmp_path: Path) -> None:
    events = EventFinder(machine(tmp_path, {"cpu": AMD_UNIT}) / "sys")
    assert events.find("cpu/event=0x1c7/").config == 0x1_0000_00C7


@pytest.mark.parametrize(
    ("modes", "hidden"),
    [("u", (False, True, True)), ("k", (True, False, True)), ("uk", (False, False, True)), ("ukh", (False,) * 3)],
)
def test_modes_say_in_what_code_to_count(events: EventFinder, modes: str, hidden: tuple[bool, bool, bool]) -> None:
    for name in ("cycles", "r3c", "page-faults", "cpu/event=0x3c/"):
        found = events.find(f"{name}:{modes}")
        assert (found.exclude_user, found.exclude_kernel, found.exclude_hv) == hidden
        assert found.name == f"{name}:{modes}"
    assert events.find(f"cpu/event=0x3c/{modes}").exclude_user == hidden[0]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("page-fault", "did you mean page-faults"),
        ("cycels", "did you mean cycles"),
        ("LLC-laod-misses", "LLC-load-misses"),
        ("cycle_activity.stalls_total", "by code"),
        ("bpf-output", "bpf-output is not counted"),
        ("cycles:pp", ":p is for sampling"),
        ("cycles:x", "no modifier :x"),
        ("cycles:", "nothing follows the colon"),
        ("cpu/evnt=0x3c/", "did you mean event"),
        ("cpu/event=0x3c", "a slash is missing"),
        ("cpu/event=0x1ff/", "room for 0xff at most"),
        ("cpu/event=zero/", "needs a number, not 'zero'"),
        ("cpu/config/", "needs a number"),
        ("cpu/topdown-total-slots/", "no term or event 'any'"),
        ("gpu/busy/", "has no unit 'gpu'"),
        ("uncore_imc_0/data_reads/", "counts for many processors together"),
        ("iTLB-stores", "there is no event"),
        ("rxyz", "there is no event"),
        ("../../cpu/type/", "has no unit '..'"),
        ("cpu/../type/", "no term or event"),
    ],
)
def test_what_is_no_event_is_said_in_one_sentence(events: EventFinder, name: str, words: str) -> None:
    with pytest.raises(EventError) as caught:
        events.find(name)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_with_several_types_of_core_an_event_is_one_of_each(tmp_path: Path) -> None:
    events = EventFinder(alder_lake(tmp_path) / "sys")
    cycles = events.find("cycles:u")
    core, atom = cycles.on(0), cycles.on(7)
    assert core is not None
    assert atom is not None
    assert (core.type, core.config, atom.config) == (HARDWARE, 4 << 32, 10 << 32)
    assert core.exclude_kernel
    assert atom.exclude_kernel
    assert cycles.on(8) is None
    raw = events.find("r1a3")
    assert [(e.type, e.config) for e in (raw, *raw.alternatives)] == [(10, 0x1A3), (4, 0x1A3)]
    assert events.find("cpu_atom/event=0x34,umask=0x7/").on(0) is None
    assert events.find("page-faults").alternatives == ()


def test_a_tracepoint_is_found_by_its_number(tmp_path: Path) -> None:
    (tmp_path / "t/events/sched/sched_switch").mkdir(parents=True)
    (tmp_path / "t/events/sched/sched_switch/id").write_text("317\n")
    events = EventFinder(tmp_path / "sys", tracefs=[tmp_path / "t"])
    assert events.find("sched:sched_switch") == Event("sched:sched_switch", TRACEPOINT, 317)
    assert events.find("sched:sched_switch:k").exclude_user
    with pytest.raises(EventError, match="did you mean sched:sched_switch"):
        events.find("sched:sched_swich")
    with pytest.raises(EventError, match="there is no event"):
        events.find("sched:..")
    with pytest.raises(EventError, match=r"use sudo|mount -t tracefs"):
        EventFinder(tmp_path / "sys", tracefs=[tmp_path / "none"]).find("sched:sched_switch")


def test_lists_are_split_at_commas_but_not_within_slashes() -> None:
    texts = ["cycles,cpu/event=0x3c,umask=0x0/u,faults", "cs", " cycles "]
    assert split_events(texts) == ("cycles", "cpu/event=0x3c,umask=0x0/u", "faults", "cs")


@pytest.mark.parametrize("text", ["", ",", "cycles,,faults", "cpu/event=1", "{cycles,faults}", "cycles,"])
def test_a_list_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(EventError):
        split_events([text])


names = st.text("abc-:_0123456789.", min_size=1, max_size=9)


@given(st.lists(names | names.map("cpu/{0}=1,{0}/".format), min_size=1, unique=True))
def test_splitting_takes_apart_what_was_joined(parts: list[str]) -> None:
    assert split_events([",".join(parts)]) == tuple(parts)


@given(st.text(max_size=40) | st.text("cpu/,=0x13fe:ukp", max_size=20))
@example("cpu/event=٣/")
@example("r\u0660")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_is_written_is_an_event_or_one_sentence(events: EventFinder, text: str) -> None:
    with suppress(EventError):
        for found in events.find_all([text]):
            assert all(0 <= n < 1 << 64 for n in (found.config, found.config1, found.config2, found.config3))


files = st.sampled_from(["type", "cpus", "cpumask", "format/event", "events/cpu-cycles"])


@given(st.dictionaries(files, st.binary(max_size=60) | st.sampled_from([b"config:63-0", b"config9:1", b"x" * 9999])))
@example({"type": b"99999999999999999999"})
@example({"cpus": b"0-99999999999"})
@example({"format/event": b"config:0-64"})
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_sysfs_says_is_an_event_or_one_sentence(tmp_path: Path, tree: dict[str, bytes]) -> None:
    root = skylake(tmp_path)
    unit = root / "sys/bus/event_source/devices/cpu"
    for name in ("cpus", "cpumask"):
        (unit / name).unlink(missing_ok=True)
    for name, data in tree.items():
        (unit / name).write_bytes(data)
    events = EventFinder(root / "sys")
    for name in ("cycles", "cpu/event=0x3c/", "cpu/cpu-cycles/", "r3c", "nothing"):
        with suppress(EventError):
            found = events.find(name)
            assert 0 <= found.type < 1 << 32
            assert 0 <= found.config < 1 << 64


@given(st.lists(st.tuples(st.integers(0, 31), st.integers(0, 3)), min_size=1, max_size=4), st.integers(0, 2**64 - 1))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_value_can_be_read_back_from_its_places(tmp_path: Path, spans: list[tuple[int, int]], value: int) -> None:
    at = 0
    text: list[str] = []
    places: list[int] = []
    for gap, length in spans:
        low = min(at + gap, 63)
        high = min(low + length, 63)
        text.append(f"{low}-{high}")
        places += range(low, high + 1)
        at = high + 1
        if at > 63:
            break
    value &= (1 << len(places)) - 1
    unit = {**SKYLAKE_UNIT, "format/spread": f"config2:{','.join(text)}\n"}
    found = EventFinder(machine(tmp_path, {"cpu": unit}) / "sys").find(f"cpu/spread={value:#x}/")
    assert sum((found.config2 >> place & 1) << n for n, place in enumerate(places)) == value
    assert found.config2.bit_count() == value.bit_count()


def test_events_of_this_machine_can_be_listed() -> None:
    events = EventFinder()
    assert events.find("task-clock").type == SOFTWARE
    for pmu in events.pmus.values():
        assert isinstance(pmu, Pmu)
        assert pmu.type >= 0
