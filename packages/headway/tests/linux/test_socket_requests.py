"""Requests that are recognised by their first bytes: their time is the program's own, and nothing else is a request."""

from __future__ import annotations

import pytest
from tests.compiling import Compile

from headway.linux.bpf.shared.layout import PROTOCOLS as BITS
from headway.linux.options import PROTOCOLS, MeasureOptions

from .measuring import disturbed, measure, only
from .test_tasks_ebpf import assert_within, tasks


def test_every_protocol_has_a_bit() -> None:
    assert BITS.keys() == set(PROTOCOLS)


@pytest.mark.root
@pytest.mark.kernel
def test_requests_have_the_time_that_the_program_worked_on_them(compile_c: Compile) -> None:
    ledger, said = measure(compile_c("requests"), options=MeasureOptions(tasks=True, requests=PROTOCOLS))
    thread = only(ledger)
    times = [int(word) for word in said]
    found = tasks(thread)
    assert found.keys() == {"GET /items/{n}", "SET", "SELECT ? FROM t", "no task"}
    for title, worked, within in zip(
        ("GET /items/{n}", "SET", "SELECT ? FROM t"), times[0::2], times[1::2], strict=False
    ):
        assert_within(thread, found[title], worked, within)
        assert found[title].changes == 100
        assert "kernel.recvfrom" not in found[title].states, "a request begins when it has been read"
    assert found["no task"].states["user"].time >= times[6] - disturbed(thread, waits=False)
    assert found["SELECT ? FROM t"].states["kernel.epoll_wait"].count == 100


@pytest.mark.root
@pytest.mark.kernel
def test_only_protocols_that_were_asked_for_are_recognised(compile_c: Compile) -> None:
    ledger, _ = measure(compile_c("requests"), options=MeasureOptions(tasks=True, requests=("redis",)))
    assert tasks(only(ledger)).keys() == {"SET", "no task"}
