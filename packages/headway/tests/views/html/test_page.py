"""A page is one harmless file, and says what the ledger says, figure by figure."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from headway.advice import Advice
from headway.model import NO_TASK, Cell, Kind, Ledger, Profile, Quality, Task, Thread, Window, indices_of, kind_of
from headway.text import valid
from headway.views.figures import MARKS
from headway.views.html.document import Subject
from headway.views.html.flames import flames_document
from headway.views.html.page import front
from headway.views.html.words import overall, sentences
from headway.views.palette import ORDER
from headway.views.printable import visible

from ...effort import FEW
from ...ledgers import HOSTILE_NAMES, any_state_names, ledgers, names
from ...profiles import profiles
from .reading import page_of

WEB = Path(__file__).parents[3] / "web"
INDICES = ("rpi", "epi", "td", "mpi", "kpi", "iopi", "te", "me", "ke", "ioe")
LETTERS = {quality: quality.value[0] for quality in Quality} | {Quality.BY_MODE: "m", Quality.ESTIMATED: "c"}


def number(figure: Any) -> Any:
    return int(figure) if isinstance(figure, str) else figure


@settings(max_examples=4 if FEW else 25, deadline=None)
@given(ledgers(time_unit=None, keys=any_state_names))
def test_every_figure_of_the_ledger_is_in_it(ledger: Ledger) -> None:
    page = page_of(ledger).document
    threads = page["threads"]
    assert threads["tid"] == [thread.tid for thread in ledger.threads]
    for place, thread in enumerate(ledger.threads):
        indices = ledger.indices(thread)
        for name in INDICES:
            assert number(threads[name][place]) == getattr(indices, name)
        assert threads["quality"][place] == "".join(LETTERS[indices.quality[name]] for name in INDICES)
        times = ledger.times(thread)
        assert [number(time) for time in threads["times"][place]] == [times[kind] for kind in ORDER]
        shown = {
            (page["states"][state], number(time), number(count), number(*part or [0]))
            for state, time, count, *part in threads["states"][place]
        }
        expected = {
            (visible(s, 300), c.time, c.count, thread.sampled[s].told_by_samples if s in thread.sampled else 0)
            for s, c in thread.states.items()
            if not c.empty
        }
        assert shown == expected
    for shown, processor in zip(page["processors"], ledger.processors, strict=True):
        assert (shown["cpu"], number(shown["span"])) == (processor.cpu, processor.span)
        times = ledger.times(processor)
        assert [number(time) for time in shown["times"]] == [times[kind] for kind in ORDER]
    whole = overall(ledger)
    assert [number(index["value"]) for index in page["indices"]] == [getattr(whole, name) for name in INDICES]
    assert [index["quality"] for index in page["indices"]] == [whole.quality[name].value for name in INDICES]
    assert {name: number(amount) for name, amount in page["losses"]} == {n: a for n, a in ledger.losses.items() if a}
    assert [(kind["name"]) for kind in page["kinds"]] == [kind.value for kind in ORDER]


tasks = st.builds(
    Task,
    st.sampled_from(["", "checkout", *HOSTILE_NAMES]),
    st.integers(0, 3),
    st.integers(0, 9),
    st.dictionaries(
        st.sampled_from(["user", "kernel.read", "ready", "wait.futex"]), st.builds(Cell, st.integers(1, 99))
    ),
)


@settings(max_examples=4 if FEW else 25, deadline=None)
@given(st.lists(st.lists(tasks, max_size=4), min_size=1, max_size=3))
def test_tasks_add_up_to_the_threads_that_had_one(given_: list[list[Task]]) -> None:
    threads = []
    for tid, several in enumerate(given_, 1):
        states = {"user": Cell(9), "kernel.read": Cell(9), "ready.own": Cell(0), "wait.futex": Cell(9)}
        for task in several:
            for state, cell in task.states.items():
                state = "ready.own" if state == "ready" else state
                states[state] = Cell(states[state].time + cell.time)
        span = sum(cell.time for cell in states.values())
        threads.append(Thread(tid, 1, "a", 0, 0, None, span, span, states, tasks=tuple(several)))
    ledger = Ledger("bpf", Window(0, max(thread.span for thread in threads)), tuple(threads))
    page = page_of(ledger).document
    with_tasks = [thread for thread in threads if thread.tasks]
    if not with_tasks:
        assert page["tasks"] is None
        return
    rows = page["tasks"]["rows"]
    assert page["tasks"]["rest"] == {"tasks": 0, "time": 0}
    for place, kind in enumerate(ORDER):
        assert sum(number(row[4][place]) for row in rows) == sum(thread.times()[kind] for thread in with_tasks)
    assert sum(number(row[2]) for row in rows) == sum(ledger.indices(thread).rpi or 0 for thread in with_tasks)
    assert sum(row[1] for row in rows) == sum(task.changes for several in given_ for task in several)
    assert {row[0] for row in rows} == {visible(task.title, 300) for one in with_tasks for task in one.tiles()}
    assert rows[-1][0] == NO_TASK


def test_tasks_that_have_no_row_are_counted() -> None:
    many = tuple(Task("", id, 1, {"user": Cell(1000 - id)}) for id in range(1, 401))
    span = sum(task.time for task in many)
    ledger = Ledger(
        "bpf",
        Window(0, span),
        (Thread(1, 1, "a", 0, 0, None, span, span, {"user": Cell(span)}, tasks=many),),
    )
    found = page_of(ledger).document["tasks"]
    assert len(found["rows"]) == 301
    assert found["rest"] == {"tasks": 100, "time": sum(task.time for task in many[300:])}


@settings(max_examples=4 if FEW else 25, deadline=None)
@given(ledgers(time_unit=None), st.sampled_from(["a", "b\udc80"]))
def test_a_name_has_the_sums_of_its_threads(ledger: Ledger, name: str) -> None:
    threads = tuple(replace(thread, name=name) if at < 3 else thread for at, thread in enumerate(ledger.threads))
    ledger = replace(ledger, threads=threads)
    page = page_of(ledger).document
    groups = page["groups"]
    alike = [[at for at, thread in enumerate(threads) if thread.name == one] for one in {t.name for t in threads}]
    assert sorted(groups["places"]) == sorted(places for places in alike if len(places) > 1)
    for at, places in enumerate(groups["places"]):
        several = [threads[place] for place in places]
        assert groups["name"][at] == visible(several[0].name, 300)
        indices = ledger.indices(*several)
        for index in INDICES:
            assert number(groups[index][at]) == getattr(indices, index)
        assert groups["quality"][at] == "".join(LETTERS[indices.quality[index]] for index in INDICES)
        for place, kind in enumerate(ORDER):
            times = [number(page["threads"]["times"][thread][place]) for thread in places]
            assert number(groups["times"][at][place]) == sum(times) == sum(ledger.times(t)[kind] for t in several)
        assert sum(number(time) for _, time, *_ in groups["states"][at]) == sum(thread.span for thread in several)


@settings(max_examples=4 if FEW else 25, deadline=None)
@given(ledgers(time_unit=None))
def test_the_whole_is_the_sum_of_the_threads(ledger: Ledger) -> None:
    """Where nothing was counted by hardware, or divided by samples, and indices are of times."""
    ledger = replace(ledger, counted={}, threads=tuple([replace(t, sampled={}) for t in ledger.threads]))
    assume(ledger.threads and not ledger.divided)
    total = {kind: sum(thread.times()[kind] for thread in ledger.threads) for kind in Kind}
    assert overall(ledger) == replace(indices_of(total, ledger.precision), **_apart(ledger))


def _apart(ledger: Ledger) -> dict[str, Any]:
    found = overall(ledger)
    return {"mpi_internal": found.mpi_internal, "mpi_external": found.mpi_external}


@pytest.mark.parametrize("losses", [{}, {"files_damaged": 3}], ids=["nothing measured", "nothing readable"])
def test_indices_of_no_thread_are_not_known(losses: dict[str, int]) -> None:
    ledger = Ledger("bpf", Window(0, 5), losses=losses)
    indices = page_of(ledger, Subject("x")).document["indices"]
    assert {index["value"] for index in indices} == {None}
    assert {index["quality"] for index in indices} == {Quality.UNAVAILABLE.value}
    assert {index["reason"] for index in indices} == {next(sentences(ledger))}


@given(ledgers(time_unit=None, keys=any_state_names))
def test_sentences_are_plain_text(ledger: Ledger) -> None:
    found = list(sentences(ledger))
    assert found
    assert all(text == visible(text, 10_000) and text.endswith(".") for text in found)


def test_the_verdict_comes_first() -> None:
    states = {"wait.sleep": Cell(9 * 10**8, 1), "user": Cell(10**8, 1)}
    found = Ledger("bpf", Window(0, 10**9), (Thread(7, 7, "naps", 0, 0, 10**9, 10**9, 10**9, states),))
    first = page_of(found, Subject("x")).document["sentences"][0]
    assert first == "naps (7) slept 90 % of its time (900 ms) on purpose."


@settings(max_examples=40, deadline=None)
@given(
    names | st.sampled_from(["</script><script>alert(1)</script>", "<!--", "]]>", "</title><b>", "&lt;\u2028\u2029"])
)
def test_no_name_becomes_markup(name: str) -> None:
    thread = Thread(1, 1, name, 0, 0, None, 5, 5, {})
    advice = Advice(1, "kpi", 0.5, 0.1, name, name)
    ledger = Ledger("bpf", Window(0, 5), (thread,), losses={name: 3}, reasons={"epi": name})
    page = page_of(ledger, Subject(title=valid(name), command=[name], host=name, advice=[advice], remarks=[name]))
    plain = page_of(Ledger("bpf", Window(0, 5)), Subject("x"))
    assert [tag for tag, _, _ in page.elements] == [tag for tag, _, _ in plain.elements]
    assert [attributes for _, attributes, _ in page.elements] == [attributes for _, attributes, _ in plain.elements]
    shown = page.document["threads"]["name"][0]
    assert shown == visible(name, 300)
    assert len(shown) < 3_000
    assert not any(ord(c) < 32 or 0x7F <= ord(c) < 0xA0 or c in "\u202e\u2028\u2066\ufeff" for c in shown)


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_what_cannot_be_seen_is_shown_by_its_number(name: str) -> None:
    shown = visible(name)
    assert shown.encode() or not name
    assert all(c.isprintable() for c in shown)


def test_letters_of_every_script_stay_as_they_are() -> None:
    for word in ("日本語のスレッド", "שלום", "Привет", "é", "λ"):
        assert visible(word) == word
    assert visible("a\u202eb\x1b[0m") == "a\\u202eb\\x1b[0m"


@settings(max_examples=4 if FEW else 25, deadline=None)
@given(profiles())
def test_the_time_of_a_profile_is_in_its_flame_graph(profile: Profile) -> None:
    flames = json.loads(page_of(profile.ledger, profile=profile).section("profile"))
    assert flames["wakers"] == []
    waits = profile.narrowed(part="wait")
    both = flames_document(profile, waits)
    assert both["rows"] == flames["rows"]
    assert both["wakers"] == [row for row in flames["rows"] if kind_of(both["states"][row[1]]) is Kind.WAIT]

    def total(rows: Any) -> dict[tuple[int, str, tuple[str, ...]], int]:
        found: dict[tuple[int, str, tuple[str, ...]], int] = {}
        for key, time in rows:
            found[key] = found.get(key, 0) + time
        return found

    shown = total(
        ((thread, flames["states"][state], tuple(flames["frames"][at][0] for at in flames["stacks"][stack])), time)
        if stack >= 0
        else ((thread, flames["states"][state], ()), time)
        for thread, state, stack, time, _ in flames["rows"]
    )
    expected = total(
        ((thread, visible(state, 500), tuple(visible(profile.frames[at].name, 500) for at in stack)), time)
        for thread, state, time, _, stack in profile.rows()
    )
    assert shown == expected
    assert flames["left_out"] == {"rows": 0, "time": 0}


def test_only_its_own_script_and_style_may_act() -> None:
    text = front()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    rules = dict(rule.split(" ", 1) for rule in policy[1].split("; "))
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    for name, pattern in (("script-src", r"<script>(.*?)</script>"), ("style-src", r"<style>(.*?)</style>")):
        (body,) = re.findall(pattern, text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
        assert rules[name] == f"'sha256-{digest}'"
    assert not re.search(r"(?:src|href)\s*=\s*[\"']?(?:https?:)?//", text)


def digest_of_sources() -> str:
    digest = hashlib.sha256()
    kept = (path for path in WEB.rglob("*") if path.is_file() and "node_modules" not in path.parts)
    for name, path in sorted((path.relative_to(WEB).as_posix(), path) for path in kept):
        data = path.read_bytes()
        digest.update(f"{name}\0{len(data)}\0".encode() + data)
    return digest.hexdigest()


def test_the_page_has_the_marks_of_the_tables_for_every_quality() -> None:
    text = (WEB / "src" / "quality.ts").read_text()
    marks, letters, words = (
        dict(re.findall(r'(\w+): "([^"]*)"', found)) for found in re.findall(r"= \{(.*?)\};", text, re.DOTALL)
    )
    assert marks == {quality.value: mark for quality, mark in MARKS.items()}
    assert letters == {letter: quality.value for quality, letter in LETTERS.items()}
    assert words.keys() == marks.keys()


def test_the_front_end_is_of_the_sources_that_are_there() -> None:
    """If it is not: make web."""
    found = re.search(r"sha256 of the sources: ([0-9a-f]{64})", front())
    assert found is not None
    assert found[1] == digest_of_sources()


@pytest.mark.skipif(
    shutil.which("node") is None or not (WEB / "node_modules").is_dir(),
    reason="needs Node.js, and web/ installed (make web)",
)
def test_a_fresh_front_end_is_the_one_that_ships(tmp_path: Path) -> None:
    built = tmp_path / "front.html"
    subprocess.run(["node", WEB / "build.mjs", built], check=True, timeout=60)
    assert built.read_text(encoding="utf-8") == front()
