"""The tables of calls, files, sockets and locks: what they say, and that they fit."""

from __future__ import annotations

import errno
import json
from dataclasses import replace

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ledgers import HOSTILE_NAMES

from headway.model import Behind, Cause, Cell, Ledger, Thread, Window
from headway.model.uses import CallUse, LockHolder, LockUse, UsedFile, Uses
from headway.views.json import schema, to_document, write
from headway.views.lines import text_of
from headway.views.printable import width_of
from headway.views.uses import TABLES, _by_service, doing_in_words, received_and_sent, use_tables

MS = 1_000_000
JOURNAL = UsedFile("disk", 1, 2, 0, "/var/lib/shop/orders.db-journal")
JOURNAL_ANEW = UsedFile("disk", 1, 3, 7, "/var/lib/shop/orders.db-journal")
CLIENT = UsedFile("socket", 9, 77, 0, "socket:[77]", "127.0.0.1:6379", "127.0.0.1:50312")
CALLS = (
    CallUse(1, "fdatasync", JOURNAL, 3, 0, 2 * MS, 40 * MS, MS),
    CallUse(1, "fdatasync", JOURNAL_ANEW, 2, 0, 1 * MS, 20 * MS, MS),
    CallUse(1, "pwrite64", JOURNAL, 9, 0, MS, bytes=4096),
    CallUse(1, "read", CLIENT, 5, 1, MS, 7 * MS, bytes=100),
    CallUse(1, "sendfile", CLIENT, 1, 0, MS, bytes=900),
    CallUse(1, "sendfile", JOURNAL, 1, bytes=900, second=True),
    CallUse(1, "openat", None, 4, 4, MS),
    CallUse(1, "epoll_wait", None, 2, waited=MS, going_on=1),
)
ERRORS = {(1, "openat", errno.ENOENT): 3, (1, "openat", errno.EACCES): 1, (1, "read", 512): 1}
HOLDER = LockHolder(12, "refresher", 90 * MS, 4, {"wait.disk": 72 * MS, "user": 18 * MS})
LOCKS = (
    LockUse(1, "server: cache_lock", "wait.futex", 5, 100 * MS, 60 * MS, (HOLDER,)),
    LockUse(1, "futex 0x7f00", "wait.futex", 9, 400 * MS, None, is_lock=False),
)
WAITED = Cause("wait.epoll", Behind.OBJECT, "socket:[77] to 127.0.0.1:50312", 5 * MS, 3)
THREAD = Thread(1, 1, "server", 0, 0, None, 9, 9, {"wait.epoll": Cell(9, 3)}, (WAITED,))


def ledger(uses: Uses | None = None) -> Ledger:
    return Ledger("bpf", Window(0, 200 * MS), (THREAD,), uses=uses or Uses(CALLS, ERRORS, LOCKS))


def lines(*which: str, width: int = 80, of: Ledger | None = None, **options: object) -> list[str]:
    return [text_of(line) for line in use_tables(of or ledger(), which, width=width, **options)]  # type: ignore[arg-type]


def test_calls_have_time_share_count_and_errors_by_name() -> None:
    said = lines("calls")
    assert said[0].split() == ["system", "calls", "time", "share", "processor", "waiting", "ready", "count", "errors"]
    assert said[1].split()[:6] == ["fdatasync", "65.0", "ms", "84", "%", "3.00"]
    assert said[2].split()[0].startswith("/v"), "a file that was written anew is one"
    assert "65.0 ms" in said[2]
    assert next(line for line in said if line.startswith("openat")).endswith("4  4 ENOENT…")
    assert next(line for line in said if line.startswith("read")).endswith("1 restart")
    assert next(line for line in said if line.startswith("epoll_wait")).endswith("2+")
    assert said[-1].startswith("+ calls that still go on")


def test_files_have_their_reads_and_writes_and_bytes() -> None:
    said = lines("files")
    assert len(said) == 2
    label, *figures = said[1].split()
    assert label.endswith("orders.db-journal")
    assert figures == ["66.0", "ms", "60.0", "ms", "1", "900", "9", "4,096"]


def test_sockets_have_both_ends_and_the_waits_that_they_ended() -> None:
    said = lines("sockets")
    assert said[1].startswith("127.0.0.1:6379 – 127.0.0.1:50312")
    assert said[1].split()[3:] == ["9.00", "ms", "7.00", "ms", "5.00", "ms", "100", "900"]


def test_many_sockets_are_listed_by_the_end_that_they_share() -> None:
    many = tuple(
        CallUse(1, "read", UsedFile("socket", 9, i, 0, f"socket:[{i}]", "10.0.0.1:80", f"10.0.0.2:{i}"), 1, on=MS)
        for i in range(1000, 1050)
    )
    said = lines("sockets", of=ledger(Uses(many)), limit=20)
    assert said[1].startswith("at 10.0.0.1:80 (50 sockets)")
    assert len(said) == 2


def test_locks_have_their_holder_and_what_it_did() -> None:
    said = lines("locks")
    assert said[1].split() == ["server:", "cache_lock", "5", "100", "ms", "60.0", "ms", "refresher", "12", "90", "%"]
    assert said[2] == "  refresher meanwhile: disk 80 %, its own code 20 %"
    assert said[3].startswith("1 without a known holder")
    assert doing_in_words({}) == ""
    assert doing_in_words({"ready.neighbour": 3, "ready": 1}) == "ready without a processor 100 %"


def test_a_lock_without_a_holder_has_who_ended_most_of_the_waits() -> None:
    gil = LockUse(1, "Python's GIL", "wait.gil", 9, 100 * MS, 80 * MS)
    for waited, words in ((60 * MS, "woken by worker 7 60 %"), (MS, "not known")):
        lock = replace(gil, wakers=(LockHolder(7, "worker", waited, 3),))
        assert lines("locks", of=ledger(Uses(locks=(lock,))))[1].endswith(words)


def test_what_is_not_known_is_said() -> None:
    bare = Ledger("proc", Window(0, 1))
    for name in TABLES:
        (said,) = lines(name, of=bare, width=100)
        assert said.endswith("is not known: /proc does not tell")
    for name in TABLES:
        (said,) = lines(name, of=ledger(Uses((), {}, ())))
        assert said.startswith("no ")


@pytest.mark.parametrize(
    ("call", "second", "moved"),
    [
        ("read", False, (8, 0)),
        ("recvmsg", False, (8, 0)),
        ("sendto", False, (0, 8)),
        ("pwritev2", False, (0, 8)),
        ("sendfile", False, (0, 8)),
        ("sendfile", True, (8, 0)),
        ("splice", False, (8, 0)),
        ("splice", True, (0, 8)),
        ("vmsplice", False, (0, 8)),
    ],
)
def test_bytes_go_in_or_out_by_the_call(call: str, second: bool, moved: tuple[int, int]) -> None:
    assert received_and_sent(CallUse(1, call, None, bytes=8, second=second)) == moved


@given(
    st.integers(1, 200),
    st.booleans(),
    st.sampled_from([*HOSTILE_NAMES, "a" * 400]),
    st.integers(0, 1 << 62),
    st.none() | st.integers(1, 3),
)
def test_every_line_fits(width: int, verbose: bool, name: str, amount: int, limit: int | None) -> None:
    hostile = UsedFile("disk", 1, 5, 0, name)
    socket = UsedFile("socket", 1, 6, 0, name, name, name)
    calls = tuple(
        CallUse(1, call, file, amount, amount, amount, amount, amount, amount)
        for call in ("read", "write", "futex")
        for file in (None, hostile, socket)
    )
    lock = LockUse(1, name, "wait.futex", amount, amount, amount, (LockHolder(1, name, amount, 1, {name: amount}),))
    of = ledger(Uses(calls, {(1, "read", 2): amount}, (lock,)))
    for line in use_tables(of, TABLES, width=width, verbose=verbose, limit=limit):
        text = text_of(line)
        assert width_of(text) <= width
        assert text.isprintable() or not text


def test_the_document_has_them_and_fits_the_schema() -> None:
    document = to_document(ledger())
    jsonschema.Draft202012Validator(schema()).validate(document)
    assert json.loads("".join(write(ledger()))) == document
    assert document["calls"][0]["file"]["name"] == JOURNAL.name
    assert document["locks"][0]["holders"][0]["doing"] == {"user": 18 * MS, "wait.disk": 72 * MS}
    assert {row["error"] for row in document["call_errors"]} == {"ENOENT", "EACCES", "restart"}
    assert "calls" not in to_document(Ledger("bpf", Window(0, 1)))


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), min_size=1, max_size=30))
def test_a_group_of_sockets_has_as_many_as_are_in_it(ends: list[tuple[int, int]]) -> None:
    files = [
        UsedFile("socket", 9, inode, 0, f"socket:[{inode}]", f"10.0.0.{one}:80", f"10.0.1.{other}:90")
        for inode, (one, other) in enumerate(ends)
    ]
    found = _by_service(files)
    assert {*found} == {*files}
    for words in {*found.values()}:
        members = sum(each == words for each in found.values())
        assert words.endswith(f"({members:,} sockets)") or (members == 1 and " – " in words)
