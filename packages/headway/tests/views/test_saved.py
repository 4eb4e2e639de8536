"""Saved documents: what was written is read again, and nothing else is believed."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ledgers import any_state_names, ledgers

from headway.advice import advise
from headway.errors import HeadwayError
from headway.model import Behind, Cause, Cell, Ledger, Precision, Quality, Thread, Window
from headway.views.json import dumps, to_document
from headway.views.saved import from_documents

SECOND = 10**9


def ledger(start: int = 0, end: int = SECOND, *, thread_start: int | None = None, finish: int | None = None) -> Ledger:
    first = start if thread_start is None else thread_start
    until = end if finish is None else finish
    states = {"user": Cell(until - first, 3)}
    return Ledger("bpf", Window(start, end), (Thread(7, 7, "x", first, first, finish, until, until - first, states),))


def read(*documents: Any) -> Ledger:
    return from_documents([(d if isinstance(d, str) else json.dumps(d)) + "\n" for d in documents], "saved.json")


@given(ledgers(keys=any_state_names, time_unit=None))
def test_what_was_written_gives_the_same_advice(found: Ledger) -> None:
    again = read(dumps(to_document(found)))
    given_before = [(a.thread, a.index, a.value) for a in advise(found)]
    assert [(a.thread, a.index, a.value) for a in advise(again)] == given_before
    assert to_document(again)["threads"] == to_document(found)["threads"] or not found.threads or _mixed(found)


def _mixed(found: Ledger) -> bool:
    """A name can hold what JSON cannot; it is then written in another way."""
    return any(not text.isascii() for t in found.threads for text in (t.name, t.cgroup or "", *t.states))


def test_documents_of_intervals_are_one_ledger_with_threads_that_go_on() -> None:
    found = read(to_document(ledger(0, 10)), to_document(ledger(10, 20)), to_document(ledger(20, 30, finish=25)))
    (thread,) = found.threads
    assert (thread.span, thread.end, found.window) == (25, 25, Window(0, 30))


def test_what_was_partial_before_time_was_divided_is_so_again() -> None:
    """Of MPI, PARTIAL says that some stalls were not counted, and not that time was divided."""
    states = {"user": Cell(SECOND - 40, 3), "memory": Cell(30, None), "running": Cell(10, 1)}
    thread = replace(ledger().threads[0], states=states)
    found = replace(ledger(), threads=(thread,), precision=Precision(memory=Quality.PARTIAL))
    assert read(to_document(found)).precision.memory is Quality.PARTIAL


def test_a_thread_number_that_is_used_again_is_another_thread() -> None:
    found = read(to_document(ledger(0, 10, finish=5)), to_document(ledger(10, 20, thread_start=12)))
    assert len(found.threads) == 2


def test_what_is_not_known_is_passed_over() -> None:
    document = to_document(ledger())
    document["news"] = document["threads"][0]["news"] = [1]
    assert read(document) == read(to_document(ledger()))


def test_causes_are_read_and_may_not_have_more_time_than_their_state() -> None:
    cause = Cause("user", Behind.OBJECT, "x", 5, 1, 9)
    (thread,) = ledger().threads
    document = to_document(replace(ledger(), threads=(replace(thread, causes=(cause,)),)))
    assert read(document).threads[0].causes == (cause,)
    assert "more time" in refused(changed(document, ["threads", 0, "causes", 0, "time"], 2 * SECOND))
    assert "behind is" in refused(changed(document, ["threads", 0, "causes", 0, "behind"], "x"))


def refused(*documents: Any) -> str:
    with pytest.raises(HeadwayError) as caught:
        read(*documents)
    text = str(caught.value)
    assert text.startswith("saved.json")
    assert text.count("\n") == 0
    assert len(text) < 400
    return text


@pytest.mark.parametrize("raw", ["", " \n", "{", "[" * 100_000, "1" * 5000, "\x00", "nan", '{"schema":Infinity}'])
def test_what_is_no_json_is_refused(raw: str) -> None:
    refused(raw)


@pytest.mark.parametrize("raw", [[], None, 1, "x", {}, {"schema": "headway.stat/2"}, {"schema": "headway.stat/1"}])
def test_what_is_no_document_is_refused(raw: Any) -> None:
    refused(json.dumps(raw))


def changed(document: dict[str, Any], path: list[Any], value: Any) -> dict[str, Any]:
    found = copy.deepcopy(document)
    at = found
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    return found


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (["source"], "x", "source is 'x'"),
        (["unit"], "s", "unit"),
        (["window"], 3, "window is 3"),
        (["window", "end"], 1 << 80, "end is"),
        (["window", "end"], SECOND - 1, "add up"),
        (["threads"], {}, "threads is"),
        (["threads", 0], [], "a thread is a list"),
        (["threads", 0, "tid"], True, "tid is True"),
        (["threads", 0, "tid"], -1, "tid is -1"),
        (["threads", 0, "tid"], None, "tid is missing"),
        (["threads", 0, "name"], "x" * 200_000, "name is"),
        (["threads", 0, "end"], SECOND + 5, "add up"),
        (["threads", 0, "quality", "epi"], "good", "quality of epi"),
        (["threads", 0, "quality", "epi"], [], "quality of epi"),
        (["threads", 0, "states", 0, "time"], -5, "time is -5"),
        (["threads", 0, "states", 0, "time"], 1.5, "time is 1.5"),
        (["threads", 0, "states", 0, "time"], 2 * SECOND, "add up"),
        (["threads", 0, "states", 0, "count"], "3", "count is '3'"),
        (["losses"], {"x": -1}, "x is -1"),
        (["overhead", "time"], [], "time is a list"),
        (["processors"], [{"cpu": 0, "states": [3]}], "a state is 3"),
    ],
)
def test_a_document_that_lies_is_refused(path: list[Any], value: Any, words: str) -> None:
    assert words in refused(changed(to_document(ledger()), path, value))


def test_the_same_twice_or_out_of_order_is_refused() -> None:
    document = to_document(ledger())
    assert "twice" in refused(changed(document, ["threads"], document["threads"] * 2))
    assert "line 2" in refused(document, document)


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.data())
def test_no_damage_brings_it_down(data: st.DataObject) -> None:
    document: Any = to_document(ledger())
    at = document
    path: list[Any] = []
    while isinstance(at, dict | list) and at and (not path or data.draw(st.booleans())):
        step = data.draw(st.sampled_from(sorted(at) if isinstance(at, dict) else range(len(at))))
        path.append(step)
        at = at[step]
    try:
        advise(read(changed(document, path, data.draw(junk))))
    except HeadwayError as error:
        assert str(error).startswith("saved.json")  # noqa: PT017


def test_a_document_from_before_the_verdict_is_read() -> None:
    ledger = Ledger("bpf", Window(0, 5), (Thread(1, 1, "a", 0, 0, 5, 5, 5, {"user": Cell(5, 1)}),))
    document = to_document(ledger)
    with_it = from_documents([dumps(document)], "x")
    del document["verdict"]
    assert from_documents([dumps(document)], "x") == with_it
