from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ledgers import HOSTILE_NAMES, any_state_names, ledgers, names

from headway.advice import advise
from headway.model import Cell, Counted, Ledger, Processor, Quality, Thread, Window, merge
from headway.model.forecast import Expectation
from headway.model.uses import Uses
from headway.model.work import Work
from headway.verdict import Why, verdict
from headway.views.durations import states_listed
from headway.views.json import dumps, schema, to_document, write

VALIDATOR = jsonschema.Draft202012Validator(schema())


def test_the_schema_is_one_and_every_field_of_it_is_closed() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())
    document = to_document(Ledger("bpf", Window(0, 1)))
    assert VALIDATOR.is_valid(document)
    assert not VALIDATOR.is_valid({**document, "more": 1})
    assert not VALIDATOR.is_valid({k: v for k, v in document.items() if k != "losses"})
    assert list(document) == schema()["required"]
    uses = Uses(calls=(), locks=())
    counted = Ledger("bpf", Window(0, 1), counted={"cycles": Counted(2, 1)}, uses=uses)
    counting = to_document(counted, work=Work(5), forecast=Expectation(5, 3, 2, 1, None))
    assert VALIDATOR.is_valid(counting)
    assert list(counting) == list(schema()["properties"])
    assert counting["counted"] == {"cycles": 0.5}


def test_a_state_of_which_nothing_was_gathered_is_left_out() -> None:
    states = {"user": Cell(5, 1), "kernel.brk": Cell(0, 0), "irq.timer": Cell(0, 1), "softirq.rcu": Cell(0, None)}
    found = Ledger("bpf", Window(0, 5), (Thread(1, 1, "a", 0, 0, None, 5, 5, states),), (Processor(0, 5, states),))
    document = to_document(found)
    for row in (*document["threads"], *document["processors"]):
        assert [state["state"] for state in row["states"]] == ["user", "irq.timer"]
    assert json.loads("".join(write(found))) == document


@given(
    ledgers(keys=any_state_names, time_unit=None),
    st.none() | st.lists(names),
    st.none() | st.integers(0, 255),
)
def test_every_ledger_makes_a_document_that_fits_the_schema(
    ledger: Ledger, command: list[str] | None, status: int | None
) -> None:
    document = to_document(ledger, command=command, exit_status=status, advice=advise(ledger))
    VALIDATOR.validate(document)
    text = dumps(document)
    assert text.isascii()
    assert "\n" not in text
    assert json.loads(text) == document
    assert "".join(write(ledger, command=command, exit_status=status, advice=advise(ledger))) == text
    text.encode()


@given(ledgers(), ledgers())
def test_merged_ledgers_fit_it_too(a: Ledger, b: Ledger) -> None:
    VALIDATOR.validate(to_document(merge(a, b)))


@given(ledgers())
def test_the_document_says_what_the_ledger_says(ledger: Ledger) -> None:
    document = to_document(ledger)
    for thread, written in zip(ledger.threads, document["threads"], strict=True):
        assert sum(state["time"] for state in written["states"]) == thread.span
        assert {state["state"]: state["time"] for state in written["states"]} == {
            state: cell.time for state, cell in states_listed(thread.states, thread.durations).items()
        }
        for index, quality in written["quality"].items():
            assert (written["indices"][index] is None) == (quality == Quality.UNAVAILABLE.value)
        if "mpi_external" in written["indices"]:
            i = written["indices"]
            assert i["mpi_internal"] + i["mpi_external"] == i["mpi"]


def test_events_are_in_the_states_only_if_they_were_asked_for() -> None:
    cells = {"user": Cell(5, 1, events={"cs": 3}), "kernel.read": Cell(2, 1)}
    ledger = Ledger("bpf", Window(0, 7), (Thread(1, 1, "a", 0, 0, None, 7, 7, cells),))
    (plain,) = to_document(ledger)["threads"]
    assert all("events" not in state and "external_stall_cycles" not in state for state in plain["states"])
    (asked,) = to_document(replace(ledger, events=("cs", "faults")))["threads"]
    assert [state["events"] for state in asked["states"]] == [{"cs": 3, "faults": None}, {"cs": None, "faults": None}]


def test_what_hardware_counted_is_in_the_indices() -> None:
    thread = Thread(1, 1, "a", 0, 0, None, 9, 9, {"user": Cell(9, 1, 100, 50, 40, 30, 20)})
    counted = dict.fromkeys(("cycles", "stall_cycles", "memory_stall_cycles"), Counted(9, 9))
    ledger = Ledger("bpf", Window(0, 9), (thread,), unit="cycles", counted=counted)
    (written,) = to_document(ledger)["threads"]
    assert (written["indices"]["epi"], written["indices"]["mpi"]) == (60, 30)
    assert (written["indices"]["mpi_internal"], written["indices"]["mpi_external"]) == (10, 20)
    assert "".join(write(ledger)) == dumps(to_document(ledger))


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_a_hostile_name_is_still_valid_json_for_every_parser(name: str) -> None:
    thread = Thread(1, 1, name, 0, 0, None, 5, 5, {name: Cell(5)})
    text = dumps(to_document(Ledger("bpf", Window(0, 5), (thread,)), command=[name]))
    found: dict[str, Any] = json.loads(text)
    found["threads"][0]["name"].encode()  # no half characters
    if name.isascii():
        assert found["threads"][0]["name"] == name


def test_bytes_that_are_no_text_are_written_as_their_number() -> None:
    thread = Thread(1, 1, "a\udcff\ud800", 0, 0, None, 0, 0, {})
    (written,) = to_document(Ledger("bpf", Window(0, 0), (thread,)))["threads"]
    assert written["name"] == "a\\xff\\ud800"


@given(ledgers())
def test_the_document_has_the_verdict(ledger: Ledger) -> None:
    found = [(one["cause"], one["threads"], one["share"]) for one in to_document(ledger)["verdict"]]
    assert found == [(one.why.value, [*one.threads], one.share) for one in verdict(ledger)]


def test_the_schema_has_every_cause() -> None:
    causes = schema()["properties"]["verdict"]["items"]["properties"]["cause"]["enum"]
    assert causes == [why.value for why in Why]
