from __future__ import annotations

import io
import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ledgers import HOSTILE_NAMES
from tests.samples import samples

from headway.advice import Advice
from headway.model import FIGURES, Cell, Quality, Sample, Utilisation
from headway.views.console import Console
from headway.views.lines import text_of
from headway.views.printable import width_of
from headway.views.utilisation import hertz, print_sample, sample_table
from headway.views.utilisation_json import cpu_json, cpu_schema


def document_of(parts: list[Sample], **more: Any) -> dict[str, Any]:
    text = cpu_json(parts, **more)
    assert text.isascii()
    assert "\n" not in text
    found: dict[str, Any] = json.loads(text, parse_constant=pytest.fail)
    return found


VALIDATOR = jsonschema.Draft202012Validator(cpu_schema())
EXACT = dict.fromkeys(FIGURES, Quality.EXACT)
ROW = Utilisation(
    cpu=0,
    span=300_000_000,
    states={
        "user": Cell(92_100_000, 7),
        "kernel.read": Cell(17_900_000, 9),
        "irq.timer": Cell(1_600_000, 75),
        "stolen": Cell(400_000, 2),
        "idle": Cell(188_000_000, 12),
    },
    ticks=380_000_000,
    actual_hz=3.41e9,
    idle={"C1": 188_000_000},
    skew=400,
    throttled=0,
    smi=0,
)
SAMPLE = Sample("bpf", 0, 300_000_000, (ROW,), 400, 9_000, "aperf/mperf by the msr PMU", EXACT)


def lines(sample: Sample, width: int = 120, **more: bool) -> list[str]:
    return [text_of(line) for line in sample_table(sample, width=width, **more)]  # type: ignore[arg-type]


def test_the_table_says_how_busy_with_what_and_how_fast() -> None:
    titles, row, *_ = lines(SAMPLE)
    assert " ".join(titles.split()) == "cpu util busy user kernel irq stolen │ idle C1 │ effective actual skew"
    assert " ".join(row.split("│")[0].split()) == "0 37.2 % 112 ms 92.1 ms 17.9 ms 1.60 ms 400 µs"
    assert row.split("│")[2].split() == ["1.27", "GHz", "3.41", "GHz", "400", "ns"]


def test_where_the_clock_was_stopped_it_says_how_long() -> None:
    titles, row, *_ = lines(SAMPLE._replace(processors=(ROW._replace(stopped=375_000),)))
    assert "stopped" in titles
    assert "375 µs" in row


def test_where_heat_slowed_it_down_it_says_for_how_long_and_to_what() -> None:
    slow = ROW._replace(throttled=2, throttled_ns=120_000_000, limit_hz=2_100_000_000, highest_hz=3_400_000_000)
    titles, row, *_ = lines(SAMPLE._replace(processors=(slow,)), 200)
    assert titles.split()[-4:] == ["throttled", "slowed", "limit", "skew"]
    assert row.split()[-7:] == ["2", "120", "ms", "2.10", "GHz", "400", "ns"]
    free = slow._replace(throttled=0, throttled_ns=0, limit_hz=3_400_000_000)
    assert not {"throttled", "slowed", "limit"} & set(lines(SAMPLE._replace(processors=(free,)), 200)[0].split())
    (found,) = document_of([SAMPLE._replace(processors=(slow,))], interval_ms=300)["samples"][0]["processors"]
    assert (found["throttled_ns"], found["limit_hz"], found["highest_hz"]) == (
        120_000_000, 2_100_000_000, 3_400_000_000,
    )  # fmt: skip


def test_advice_is_in_the_document() -> None:
    advice = Advice(None, "system", 0.95, 0.9, "the \x1b[31mprocessors", None, at_stake=7)
    (found,) = document_of([SAMPLE], interval_ms=300, advice=[advice])["advice"]
    VALIDATOR.validate(document_of([SAMPLE], interval_ms=300, advice=[advice]))
    assert found == {
        "index": "system", "value": 0.95, "threshold": 0.9, "at_stake_ns": 7, "text": "the \x1b[31mprocessors",
        "command": None,
    }  # fmt: skip


def test_a_dropped_reading_shows_its_reason_and_no_figure() -> None:
    sample = SAMPLE._replace(processors=(ROW, Utilisation(1, dropped="steal")), dropped={"steal": 3})
    table = sample_table(sample, width=120, explanations={"steal": "the hypervisor took it"})
    assert text_of(table[2]) == "   1  dropped: the hypervisor took it"
    assert any("readings dropped and tried again: steal 3" in text_of(line) for line in table)


def test_of_several_processors_there_is_a_line_of_all() -> None:
    other = ROW._replace(cpu=1, states={"idle": Cell(300_000_000)}, ticks=0)
    _, everything, first, second, *_ = lines(SAMPLE._replace(processors=(ROW, other)))
    assert [line.split()[0] for line in (everything, first, second)] == ["all", "0", "1"]
    assert everything.split()[1] == "18.6"


def test_what_is_not_exact_is_marked_and_explained() -> None:
    quality = EXACT | {"utilisation": Quality.BOUND, "actual_hz": Quality.SAMPLED, "smi": Quality.UNAVAILABLE}
    sample = SAMPLE._replace(quality=quality, reasons={"utilisation": "because", "actual_hz": "so it is"})
    text = "\n".join(lines(sample))
    assert "≤util" in text
    assert "~actual" in text
    assert "utilisation: at most (because)" in text
    assert "actual: sampled (so it is)" in text
    assert "smi: not known" in text


@given(samples(), st.integers(10, 250), st.booleans(), st.booleans())
def test_every_sample_fits_every_width(sample: Sample, width: int, verbose: bool, notes: bool) -> None:
    for line in sample_table(sample, width=width, verbose=verbose, notes=notes, losses={"exits_lost": 3}):
        text = text_of(line)
        assert width_of(text) <= max(width, 13)
        assert "\n" not in text
        assert "\x1b" not in text


@given(samples())
def test_what_had_no_room_is_named(sample: Sample) -> None:
    wide, narrow = lines(sample, 400), lines(sample, 80)
    missing = set(wide[0].split()) - set(narrow[0].split()) - {"│"}
    said = " ".join(narrow)
    assert all(title in said for title in missing)


def test_columns_that_would_be_empty_are_left_out() -> None:
    plain = ROW._replace(states={"idle": Cell(300_000_000)}, idle={}, throttled=None, smi=None)
    titles = lines(SAMPLE._replace(processors=(plain,)))[0].split()
    assert not {"poll", "stolen", "overhead", "other", "smi", "throttled", "C1"} & (set(titles) - {"stolen"})
    polled = ROW._replace(states={**ROW.states, "poll.read": Cell(5_000_000)})
    assert "poll" in lines(SAMPLE._replace(processors=(polled,)))[0].split()


def test_verbose_has_every_state_with_its_share() -> None:
    text = "\n".join(lines(SAMPLE, verbose=True))
    assert "kernel.read" in text
    assert " 5.97 %" in text


@given(st.floats(0, 1e12))
def test_frequencies_are_short(value: float) -> None:
    assert len(hertz(value)) <= 9


@pytest.mark.parametrize("coloured", [True, False])
def test_a_sample_prints_on_any_console(coloured: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    stream = io.StringIO()
    console = Console(stream, width=80, terminal=coloured)
    print_sample(console, SAMPLE, verbose=True)
    assert ("\x1b[" in stream.getvalue()) == coloured


def test_the_schema_is_one_and_every_field_of_it_is_closed() -> None:
    jsonschema.Draft202012Validator.check_schema(cpu_schema())
    document = document_of([SAMPLE], interval_ms=300)
    VALIDATOR.validate(document)
    assert not VALIDATOR.is_valid({**document, "more": 1})
    assert list(document) == cpu_schema()["required"]
    assert list(document["samples"][0]) == cpu_schema()["$defs"]["sample"]["required"]
    assert list(document["samples"][0]["processors"][0]) == cpu_schema()["$defs"]["processor"]["required"]


@given(st.lists(samples(), max_size=3), st.none() | st.lists(st.sampled_from(HOSTILE_NAMES)))
def test_every_sample_makes_a_document_that_fits_the_schema(parts: list[Sample], command: list[str] | None) -> None:
    document = document_of(parts, interval_ms=300.0, command=command, exit_status=0, losses={"exits_lost": 0})
    VALIDATOR.validate(document)
    for part, sample in zip(document["samples"], parts, strict=True):
        for row, of in zip(part["processors"], sample.processors, strict=True):
            assert (row["span_ns"], row["busy_ns"], row["stolen_ns"]) == (of.span, of.busy, of.stolen)
            assert row["utilisation"] == (None if of.utilisation is None else of.utilisation * 100)
            assert row["busy_ticks"] == of.ticks
            assert {each["state"]: (each["count"], each["time"]) for each in row["states"]} == {
                state: (cell.count, cell.time) for state, cell in of.states.items()
            }


@given(samples())
def test_what_is_unknown_is_null_and_said_to_be_unavailable(sample: Sample) -> None:
    for row in document_of([sample], interval_ms=1)["samples"][0]["processors"]:
        for name in ("utilisation", "effective_hz", "actual_hz", "throttled", "smi"):
            if row[name] is None:
                assert row["quality"][name] == "unavailable"
        if row["dropped"] is not None:
            assert set(row["quality"].values()) == {"unavailable"}
            assert row["states"] == []


def test_utilisation_is_per_cent() -> None:
    row = document_of([SAMPLE], interval_ms=300)["samples"][0]["processors"][0]
    assert row["utilisation"] == pytest.approx(37.2)
    assert row["busy_ns"] == 111_600_000
    assert row["idle_ns"] == {"C1": 188_000_000}
