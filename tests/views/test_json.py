from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ledgers import HOSTILE_NAMES, any_state_names, ledgers, names

from headway.model import Cell, Ledger, Quality, Thread, Window, advise, merge
from headway.views.json import dumps, schema, to_document, write

VALIDATOR = jsonschema.Draft202012Validator(schema())


def test_the_schema_is_one_and_every_field_of_it_is_closed() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())
    document = to_document(Ledger("bpf", Window(0, 1)))
    assert VALIDATOR.is_valid(document)
    assert not VALIDATOR.is_valid({**document, "more": 1})
    assert not VALIDATOR.is_valid({k: v for k, v in document.items() if k != "losses"})
    assert list(document) == list(schema()["properties"])


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
            state: cell.time for state, cell in thread.states.items()
        }
        for index, value in written["indices"].items():
            assert (value is None) == (written["quality"][index] == Quality.UNAVAILABLE.value)


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
