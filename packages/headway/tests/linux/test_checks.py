"""The table of status checks: what is ready-made, what the user's file changes, every mistake in it as one sentence."""

from __future__ import annotations

import errno
import re
import tomllib
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.compiling import Compile

from headway.errors import SelectionError
from headway.linux.bpf.polling import checks
from headway.linux.bpf.polling.checks import FILES, Check, NeutralCall, StatusChecks, load, state_names
from headway.linux.bpf.shared.layout import STATES
from headway.linux.bpf.shared.settings import pack_settings
from headway.linux.options import MeasureOptions
from headway.linux.syscalls.table import numbers
from headway.model import Kind

from .measuring import count_of, measure, only, rows_broken, time_in

N_CALLS = STATES["N_CALLS"]
READY_MADE = tomllib.loads((resources.files("headway.linux.bpf.polling") / "checks.toml").read_text())


def by_call(found: tuple[Check, ...]) -> dict[str, Check]:
    return {check.call: check for check in found}


@pytest.fixture
def file(tmp_path: Path) -> Callable[[str], str]:
    """Writes a user's file; its path."""

    def write(text: str) -> str:
        path = tmp_path / "mine.toml"
        path.write_text(text)
        return str(path)

    return write


# ---- the table ----


def test_the_ready_made_table_is_there_and_each_call_once() -> None:
    found = load().checks
    here = READY_MADE["check"].keys() & numbers().keys()
    assert {check.call for check in found} == here
    assert len({check.number for check in found}) == len(found) <= STATES["N_CHECKS"]
    for check in found:
        assert check.number == numbers()[check.call]
        assert check.gap_ns == 20_000
        assert check.zero or check.errors
        assert check.about or not check.about_file


def test_the_states_are_named_by_call_and_kind_of_file() -> None:
    found = load().checks
    names = state_names(found)
    assert len(names) == len(found) * STATES["N_FILES"] == len(found) * len(FILES)
    assert len(set(names)) == len(names)
    place = [check.call for check in found].index("recvfrom") * len(FILES)
    assert names[place] == "poll.recvfrom"
    assert names[place + FILES.index("socket")] == "poll.recvfrom.socket"


def test_a_table_of_the_users_is_one_more(file: Callable[[str], str]) -> None:
    found = by_call(load(file('[check.unlinkat]\nalways = true\nnot_ready = ["ENOENT", "EACCES"]\n')).checks)
    assert "unlinkat" in found
    assert by_call(load().checks).keys() < found.keys()
    assert found["unlinkat"].errors == (errno.ENOENT, errno.EACCES)
    assert found["unlinkat"].zero is False
    assert found["unlinkat"].gap_ns == 20_000


def test_a_table_of_the_users_takes_the_place_of_the_ready_made_one(file: Callable[[str], str]) -> None:
    found = by_call(load(file('[check.recvfrom]\nif_flag = [4, 0x40]\nnot_ready = ["EAGAIN"]\ngap_us = 1.5\n')).checks)
    assert found.keys() == by_call(load().checks).keys()
    assert found["recvfrom"] == Check(
        "recvfrom", numbers()["recvfrom"], if_flag=(4, 0x40), errors=(errno.EAGAIN,), gap_ns=1500
    )


def test_a_call_can_be_taken_out(file: Callable[[str], str]) -> None:
    found = by_call(load(file("[check.sched_yield]\nenabled = false\n[check.getppid]\nenabled = false\n")).checks)
    assert by_call(load().checks).keys() - {"sched_yield"} <= found.keys()
    assert "sched_yield" not in found


def test_a_neutral_call_of_the_users_is_one_more_and_one_can_be_taken_out(file: Callable[[str], str]) -> None:
    found = load(file('[neutral.access]\nreturns = [0, "ENOENT"]\nat_most_us = 7\n[neutral.getpid]\nenabled = false\n'))
    assert found.checks == load().checks
    ready = {call.call: call for call in load().neutral}
    assert {call.call: call for call in found.neutral} == {
        **{name: call for name, call in ready.items() if name != "getpid"},
        "access": NeutralCall(
            "access", numbers()["access"], any=False, zero=True, errors=(errno.ENOENT,), at_most_ns=7000
        ),
    }


def test_the_page_about_progress_has_every_neutral_call() -> None:
    page = (Path(__file__).parents[2] / "docs" / "progress.md").read_text(encoding="utf-8")
    table = page[page.index("| neutral | if |") :].partition("\n\n")[0]
    assert set(re.findall(r"`(\w+)`", table)) == READY_MADE["neutral"].keys()


def test_no_call_is_neutral_by_the_arguments_by_which_it_is_a_check() -> None:
    found = load()
    checks_by_call = by_call(found.checks)
    for call in found.neutral:
        check = checks_by_call.get(call.call)
        by_result = check is not None and check.if_no_time and not call.any  # of a timeout that is not 0
        assert check is None or by_result or call.if_zero not in (check.if_zero, check.about, 0)


def test_a_gap_is_for_all_that_say_nothing_else(file: Callable[[str], str]) -> None:
    found = by_call(
        load(file('gap_us = 0\n[check.access]\nalways = true\nnot_ready = ["ENOENT"]\ngap_us = 7\n')).checks
    )
    assert {check.gap_ns for call, check in found.items() if call != "access"} == {0}
    assert found["access"].gap_ns == 7000


def test_longer_gaps_that_are_alike_are_polling_only_where_the_user_says_up_to_which(
    file: Callable[[str], str],
) -> None:
    assert {check.alike_ns for check in load().checks} == {0}
    found = by_call(load(file("alike_us = 500\n[check.read]\nalways = true\nnot_ready = [0]\nalike_us = 70\n")).checks)
    assert {check.alike_ns for check in found.values() if check.call != "read"} == {500_000}
    assert (found["read"].gap_ns, found["read"].alike_ns) == (20_000, 70_000)
    assert {check.gap_ns for check in found.values()} == {20_000}


GOOD = "always = true\nnot_ready = [0]\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("= 1", "is no TOML file"),
        ("a = [" + "[" * 5000, "is no TOML file"),
        ("gap_us = 1" + 5000 * "0", "is no TOML file"),
        ("checks = 1", "'checks' is not known"),
        ("check = 1", r"check is no table: write \[check.CALL\]"),
        ("neutral = 1", r"neutral is no table: write \[neutral.CALL\]"),
        ("[neutral]\naccess = 1", r"neutral.access is no table: write \[neutral.access\]"),
        ("[neutral.acess]", "there is no system call 'acess': is access meant"),
        ("[neutral.access]\nalways = true", "neutral.access: 'always' is not known: there are"),
        ("[neutral.access]\nif_zero = 7", "neutral.access.if_zero: 7 is no argument"),
        ("[neutral.access]\nreturns = []", "neutral.access: returns is missing"),
        ("[neutral.access]\nreturns = [1]", "neutral.access.returns: 1 is neither 0 nor the name"),
        ("[neutral.access]\nat_most_us = -1", "neutral.access: at_most_us is a number of microseconds from 0"),
        ("[neutral.access]\nenabled = 0", "neutral.access.enabled: give true or false"),
        ("[check]\naccess = 1", "check.access is no table"),
        ("gap_us = -1", "gap_us is a number of microseconds from 0"),
        ("gap_us = nan", "gap_us is a number of microseconds from 0"),
        ("alike_us = -1", "alike_us is a number of microseconds from 0"),
        ("gap_us = inf", "gap_us is a number of microseconds from 0"),
        ("gap_us = true", "gap_us is a number of microseconds from 0"),
        ('gap_us = "1"', "gap_us is a number of microseconds from 0"),
        (f"[check.acess]\n{GOOD}", "there is no system call 'acess': is access meant"),
        (f"[check.access]\n{GOOD}sometimes = 1", "check.access: 'sometimes' is not known: there are"),
        ("[check.access]\nalways = true", "check.access: not_ready is missing"),
        ("[check.access]\nalways = true\nnot_ready = []", "check.access: not_ready is missing"),
        ("[check.access]\nalways = true\nnot_ready = 0", "check.access: not_ready is missing"),
        ("[check.access]\nalways = true\nnot_ready = [1]", "check.access.not_ready: 1 is neither 0 nor the name"),
        ('[check.access]\nalways = true\nnot_ready = ["errorcode"]', "check.access.not_ready: 'errorcode' is neither"),
        ('[check.access]\nalways = true\nnot_ready = ["ENOTHING"]', "check.access.not_ready: 'ENOTHING' is neither"),
        ("[check.access]\nalways = true\nnot_ready = [false]", "check.access.not_ready: False is neither"),
        (
            '[check.access]\nalways = true\nnot_ready = ["EIO", "EINTR", "EBADF", "EAGAIN", "EPERM"]',
            "check.access.not_ready: 4 errors at most",
        ),
        ("[check.access]\nnot_ready = [0]", "check.access does not say when it is a check"),
        ("[check.access]\nalways = false\nnot_ready = [0]", "check.access does not say when it is a check"),
        ("[check.access]\nif_flag = [0, 1]\nnot_ready = [0]", "check.access does not say when it is a check"),
        (f"[check.access]\n{GOOD}about = 7", "check.access.about: 7 is no argument"),
        (f"[check.access]\n{GOOD}about = true", "check.access.about: True is no argument"),
        ("[check.access]\nif_zero = -1\nnot_ready = [0]", "check.access.if_zero: -1 is no argument"),
        ("[check.access]\nif_flag = 4\nnot_ready = [0]", "check.access.if_flag: give the argument and the bits"),
        ("[check.access]\nif_flag = [4]\nnot_ready = [0]", "check.access.if_flag: give the argument and the bits"),
        ("[check.access]\nif_flag = [7, 1]\nnot_ready = [0]", "check.access.if_flag: 7 is no argument"),
        (f"[check.access]\nif_flag = [1, {1 << 32}]\nnot_ready = [0]", "check.access.if_flag: give the argument"),
        ("[check.access]\nalways = 1\nnot_ready = [0]", "check.access.always: give true or false"),
        (f"[check.access]\n{GOOD}enabled = 0", "check.access.enabled: give true or false"),
        ("[check.access]\nif_nonblocking = true\nabout = 1\nnot_ready = [0]", "check.access: if_nonblocking needs"),
        (f"[check.access]\n{GOOD}file = true", "check.access: file = true needs about = N"),
        (f"[check.access]\n{GOOD}name = true", "check.access: name = true needs about = N"),
        (f"[check.access]\n{GOOD}name = true\nabout = 1\nfile = true", "check.access: name = true needs about = N"),
        (f"[check.access]\n{GOOD}answer = 7", "check.access.answer: 7 is no argument"),
        (
            "[check.access]\nif_equal = [1, -1]\nnot_ready = [0]",
            "check.access.if_equal: give the argument and the number",
        ),
    ],
)
def test_a_mistake_is_one_sentence_that_names_the_file_and_the_key(
    file: Callable[[str], str], text: str, words: str
) -> None:
    path = file(text)
    with pytest.raises(SelectionError, match=words) as raised:
        load(path)
    assert path in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "text",
    [
        "{long} = 1",
        "check.{long} = 1",
        "[check.access]\n{long} = 1",
        '[check.access]\nalways = true\nnot_ready = ["{long}"]',
        '[check.access]\nalways = true\nnot_ready = [0]\ngap_us = "{long}"',
        '[check.access]\nalways = true\nnot_ready = [0]\nabout = "{long}"',
    ],
)
def test_a_mistake_of_any_length_is_a_short_sentence(file: Callable[[str], str], text: str) -> None:
    path = file(text.replace("{long}", "x" * 50_000))
    with pytest.raises(SelectionError, match="xxx…") as raised:
        load(path)
    assert len(str(raised.value)) < 400 + len(path)


def test_a_file_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    for path, words in ((tmp_path / "none", "No such file"), (tmp_path, "Is a directory")):
        with pytest.raises(SelectionError, match=words):
            load(str(path))
    (tmp_path / "latin").write_bytes(b"gap_us = 1 # \xe9")
    with pytest.raises(SelectionError, match="is no TOML file"):
        load(str(tmp_path / "latin"))
    with pytest.raises(SelectionError, match="not a file name"):
        load("nul\0byte")


def test_more_checks_than_there_is_room_for_are_refused(file: Callable[[str], str]) -> None:
    more = [call for call in sorted(numbers()) if numbers()[call] < 300 and call not in READY_MADE["check"]]
    some = more[: STATES["N_CHECKS"]]
    with pytest.raises(SelectionError, match="are more than the 64 there is room for: take some out with enabled"):
        load(file("".join(f"[check.{call}]\n{GOOD}" for call in some)))


def test_there_is_room_for_the_ready_made_checks_and_as_many_as_a_user_can_want(file: Callable[[str], str]) -> None:
    ready = {check.call for check in load().checks}
    more = [call for call in sorted(numbers()) if numbers()[call] < 300 and call not in READY_MADE["check"]]
    own = more[: STATES["N_CHECKS"] - len(ready)]
    assert len(own) >= 20
    found = load(file("".join(f"[check.{call}]\n{GOOD}" for call in own))).checks
    assert {check.call for check in found} == ready.union(own)


# ---- anything at all ----

KEYS = sorted({*checks._KEYS, *checks._NEUTRAL_KEYS, "sometimes"})
NUMBERS = st.integers(-(2**70), 2**70) | st.integers(-1, 8) | st.floats() | st.booleans()
ANYTHING = st.recursive(
    NUMBERS | st.text(max_size=8) | st.sampled_from(["EAGAIN", "ENOENT", "EINPROGRESS", "__name__", "errorcode"]),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=8,
)
LIKELY = st.fixed_dictionaries(
    {"not_ready": st.lists(st.sampled_from([0, "EAGAIN", "ENOENT"]), min_size=1, max_size=5)},
    optional={
        "always": st.booleans(),
        "if_zero": st.integers(-1, 7),
        "if_no_time": st.integers(-1, 7),
        "if_flag": st.lists(st.integers(-1, 2**32), min_size=2, max_size=2),
        "if_nonblocking": st.booleans(),
        "about": st.integers(-1, 7),
        "if_equal": st.lists(st.integers(-1, 2**32), min_size=2, max_size=2),
        "answer": st.integers(-1, 7),
        "file": st.booleans(),
        "name": st.booleans(),
        "gap_us": NUMBERS,
        "alike_us": NUMBERS,
    },
)
LIKELY_NEUTRAL = st.fixed_dictionaries(
    {},
    optional={
        "if_zero": st.integers(-1, 7),
        "returns": st.lists(st.sampled_from([0, "ETIMEDOUT", "EINTR"]), max_size=5),
        "at_most_us": NUMBERS,
    },
)
TABLES = st.dictionaries(
    st.sampled_from(["gap_us", "alike_us", "check", "neutral", "more"]),
    st.dictionaries(
        st.sampled_from(["access", "read", "getppid", "open", "acess", ""]),
        st.dictionaries(st.sampled_from(KEYS), ANYTHING, max_size=6) | LIKELY | LIKELY_NEUTRAL | ANYTHING,
        max_size=4,
    )
    | ANYTHING,
    max_size=3,
)


def attempt(path: str) -> tuple[str, StatusChecks]:
    """What is said against the file, or the checks."""
    try:
        return "", load(path)
    except SelectionError as error:
        return str(error), StatusChecks((), ())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300, deadline=None)
@given(TABLES)
def test_any_table_gives_checks_that_the_programs_can_use_or_one_sentence(
    monkeypatch: pytest.MonkeyPatch, table: dict[str, Any]
) -> None:
    monkeypatch.setattr(checks, "_read", lambda path: table)
    said, found = attempt("mine.toml")
    assert found.checks or "mine.toml" in said
    assert "\n" not in said
    assert len(state_names(found.checks)) == len(found.checks) * len(FILES)
    pack_settings(
        wait_of=[0] * N_CALLS,
        compat_call=[0] * N_CALLS,
        checks=found.checks,
        neutral=found.neutral,
        max_thread_records=1,
    )
    for call in found.neutral:
        assert 0 <= call.at_most_ns < 1 << 32
        assert len(call.errors) <= 4
        assert call.if_zero <= 6
        assert call.any == (not call.zero and not call.errors)
    for check in found.checks:
        assert 0 <= check.gap_ns < 1 << 32
        assert 0 <= check.alike_ns < 1 << 32
        assert len(check.errors) <= 4
        assert max(check.if_zero, check.if_no_time, check.if_flag[0], check.if_equal[0], check.about, check.answer) <= 6


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200, deadline=None)
@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_any_file_gives_checks_or_one_sentence(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "any.toml"
    path.write_bytes(content)
    said, found = attempt(str(path))
    assert found.checks or str(path) in said


# ---- what they do ----


@pytest.mark.root
@pytest.mark.skipif("access" not in numbers(), reason="this architecture has no access(2)")
def test_a_check_of_the_users_is_polling(compile_c: Compile, file: Callable[[str], str]) -> None:
    path = file('gap_us = 0\n[check.access]\nalways = true\nnot_ready = ["ENOENT"]\nabout = 1\n')
    thread = only(measure(compile_c("watch"), options=MeasureOptions(checks=path))[0])
    assert 50_000 - rows_broken(thread) <= count_of(thread, "poll.access") <= 50_000
    assert count_of(thread, "kernel.access") >= 1000
    assert count_of(thread, "poll.access") + count_of(thread, "kernel.access") - 51_000 in range(5)
    assert thread.times()[Kind.POLL] == time_in(thread, "poll.access") > 0
    options = MeasureOptions(checks=file("[check.access]\nenabled = false\n"))
    plain = only(measure(compile_c("watch"), options=options)[0])
    assert time_in(plain, "poll") == 0
    assert count_of(plain, "kernel.access") >= 51_000


@pytest.mark.root
def test_a_check_that_is_taken_out_is_none(compile_c: Compile, file: Callable[[str], str]) -> None:
    options = MeasureOptions(checks=file("[check.sched_yield]\nenabled = false\n"))
    thread = only(measure(compile_c("yield"), options=options)[0])
    assert time_in(thread, "poll") == 0
    assert count_of(thread, "kernel.sched_yield") == 20_000


def test_a_large_file_is_refused_before_it_is_read_whole(tmp_path: Path) -> None:
    with pytest.raises(SelectionError, match=r"/dev/zero cannot be read .it is not a file"):
        load("/dev/zero")
    large = tmp_path / "large.toml"
    with large.open("wb") as stream:
        stream.truncate(1 << 40)
    with pytest.raises(SelectionError, match="has more than 64 KiB"):
        load(str(large))


def test_what_is_as_large_as_it_may_be_is_read(tmp_path: Path) -> None:
    own = tmp_path / "checks.toml"
    own.write_text("# " + "x" * ((64 << 10) - 2))
    assert load(str(own)) == load()
