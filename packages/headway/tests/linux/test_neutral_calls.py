"""Neutral calls (T8): calls between two status checks that do nothing for the thread end no row, and are polling too.

A script is a word with a letter for each call that a program makes, one after the other. `expected` says what the rule
of docs/progress.md makes of it. Rows go on however long it takes until the next check (`PATIENT`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from tempfile import TemporaryFile

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.compiling import Compile
from tests.effort import FEW

from headway.model import Ledger, Thread

from .measuring import PATIENT, count_of, measure, measure_intervals, only, rows_broken

pytestmark = [pytest.mark.root, pytest.mark.kernel]

CHECKS = {"p": "poll.ppoll", "r": "poll.recvfrom.socket"}
"""Checks that find nothing. ``R`` asks another socket and finds something."""
NEUTRAL = {
    "c": "clock_gettime",
    "g": "getpid",
    "t": "gettid",
    "u": "getuid",
    "m": "madvise",
    "s": "clock_nanosleep",
    "l": "pselect6",
    "f": "futex",
}
SLEEPS = "slf"
"""What a thread leaves its processor in, unless the time is over before it has: what is not known to be polling by then
stays what it was."""
ENDS = {"w": "fcntl", "F": "futex", "S": "clock_nanosleep"}
"""Other work; a futex that the thread does not wait for; a sleep that is too long."""


@dataclass
class Row:
    """What is known of a row of checks."""

    last: str = ""
    repeated: bool = False
    confirmed: bool = False
    pending: list[str] = field(default_factory=list)
    """Calls that are polling if the row goes on."""


def expected(script: str, *, sleeps: bool) -> tuple[Counter[str], Counter[str]]:
    """Return how often each state of polling and each call is counted, if nothing interrupts the thread.

    ``sleeps``: each sleep makes it leave its processor; otherwise none does. Any number of states can be pending here.
    """
    polls, calls, row = Counter[str](), Counter[str](), Row()
    for letter in script:
        if letter in CHECKS:
            if row.last:
                polls.update(CHECKS[call] for call in row.pending if call in CHECKS)
                row.confirmed = True
                row.repeated |= row.last == letter
                polls[CHECKS[letter]] += 1
                row.pending = []
            else:
                row.pending = [letter]
            row.last = letter
        elif letter in NEUTRAL and row.last:
            if row.repeated:
                calls["futex"] += sleeps and letter == "f"  # what was before the wait is known too late
            elif sleeps and letter in SLEEPS:
                calls.update(_calls(row.pending))
                calls[NEUTRAL[letter]] += 1
                row.pending = []
            else:
                row.pending.append(letter)
        else:
            calls.update(_calls(row.pending))
            calls["recvfrom" if letter == "R" else {**NEUTRAL, **ENDS}[letter]] += 1
            row = Row()
    calls.update(_calls(row.pending))
    return polls, calls


def _calls(letters: list[str]) -> list[str]:
    return [NEUTRAL[each] if each in NEUTRAL else CHECKS[each].split(".")[1] for each in letters]


SCRIPTS = st.text("pprrrRcgtumslfFw", min_size=1, max_size=30) | st.text("rcgs", min_size=10, max_size=60)


@settings(
    max_examples=2 if FEW else 6,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(SCRIPTS, min_size=20, max_size=30))
def test_rows_are_those_of_the_rule(compile_c: Compile, scripts: list[str]) -> None:
    ledger, _ = measure(compile_c("scripts_of_calls"), *scripts, options=PATIENT)
    threads = {thread.name: thread for thread in ledger.threads}
    for i, script in enumerate(scripts):
        thread = threads[f"script {i}"]
        least, _ = expected(script, sleeps=True)
        most, calls = expected(script, sleeps=False)
        broken = _broken(thread, script)
        for letter, state in CHECKS.items():
            found, made = count_of(thread, state), script.count(letter) + (script.count("R") if letter == "r" else 0)
            assert least[state] - 3 * broken <= found <= most[state], (script, state)
            assert found + count_of(thread, f"kernel.{state.split('.')[1]}") == made, "each check is counted once"
        for call in calls.keys() - {"ppoll", "recvfrom"}:
            assert count_of(thread, f"kernel.{call}") >= calls[call], (script, call)


def _broken(thread: Thread, script: str) -> int:
    return rows_broken(thread) - 1 + sum(thread.states[s].count or 0 for s in thread.states if s == "stolen")


EXAMPLES: list[tuple[str, dict[str, int], dict[str, int]]] = [
    ("rcrcrcr", {"recvfrom.socket": 4}, {"clock_gettime": 0}),
    ("rcwrcwrcw", {"recvfrom.socket": 0}, {"clock_gettime": 3}),
    ("rcpcr", {"recvfrom.socket": 2, "ppoll": 1}, {"clock_gettime": 0}),
    ("rrsrsr", {"recvfrom.socket": 4}, {"clock_nanosleep": 0}),
    ("rrlrlr", {"recvfrom.socket": 4}, {"pselect6": 0}),
    ("rrfrfr", {"recvfrom.socket": 4}, {"futex": 2}),
    ("rrFr", {"recvfrom.socket": 2}, {"futex": 1}),
    ("rrSr", {"recvfrom.socket": 2}, {"clock_nanosleep": 1}),
    ("rgtumr", {"recvfrom.socket": 2}, {"getpid": 0, "gettid": 0, "getuid": 1, "madvise": 1}),
    ("rcRr", {"recvfrom.socket": 0}, {"clock_gettime": 1}),
    ("rcrcRr", {"recvfrom.socket": 2}, {"clock_gettime": 0}),
]
TIMES = 20


@pytest.fixture(scope="module")
def examples(compile_c: Compile) -> Ledger:
    """Of threads that go through the examples, so many through each."""
    scripts = [script for script, _, _ in EXAMPLES for _ in range(TIMES)]
    return measure(compile_c("scripts_of_calls"), *scripts, options=PATIENT)[0]


@pytest.mark.parametrize("example", range(len(EXAMPLES)), ids=[script for script, _, _ in EXAMPLES])
def test_examples_of_the_rule(examples: Ledger, example: int) -> None:
    """A thread that is interrupted, or whose sleep is over at once, may have other counts: not each of them is."""
    _, polls, calls = EXAMPLES[example]
    threads = {thread.name: thread for thread in examples.threads}
    expected = {f"poll.{state}": n for state, n in polls.items()} | {f"kernel.{call}": n for call, n in calls.items()}
    found = [
        {state: count_of(threads[f"script {i}"], state) for state in expected}
        for i in range(TIMES * example, TIMES * (example + 1))
    ]
    assert expected in found, found


def test_a_clock_between_checks_does_not_end_a_row(compile_c: Compile) -> None:
    ledger, (_, checks) = measure(compile_c("polls_with_clock"), options=PATIENT)
    thread, rows = only(ledger), 200
    broken = rows_broken(thread) * 3
    assert int(checks) - rows - broken <= count_of(thread, "poll.ppoll") <= int(checks)
    assert count_of(thread, "poll.ppoll") + count_of(thread, "kernel.ppoll") == int(checks)
    # The clock before each row is none of it. All the others are, and none of the time after them is the program's own.
    assert count_of(thread, "kernel.clock_gettime") <= rows + broken


def test_a_reading_between_checks_counts_none_of_them_twice(compile_c: Compile) -> None:
    with TemporaryFile() as said:
        whole, _ = measure_intervals(0.01, compile_c("polls_with_clock"), options=PATIENT, stdout=said.fileno())
        said.seek(0)
        _, checks = map(int, said.read().split())
    thread = only(whole)
    assert count_of(thread, "poll.ppoll") + count_of(thread, "kernel.ppoll") == checks


def test_each_check_is_counted_once_where_the_thread_of_a_switch_is_known_later(compile_c: Compile) -> None:
    # Sometimes the record of a thread is not found at a switch. Then the thread is known at its next event, here at the
    # end of a sleep. Of thousands of sleeps a few are such.
    script = "rr" + "srgs" * 10
    ledger, _ = measure(compile_c("scripts_of_calls"), *[script] * (200 if FEW else 600), options=PATIENT)
    for thread in ledger.threads:
        if thread.name.startswith("script "):
            found = count_of(thread, "poll.recvfrom.socket") + count_of(thread, "kernel.recvfrom")
            assert found == script.count("r"), thread.states
