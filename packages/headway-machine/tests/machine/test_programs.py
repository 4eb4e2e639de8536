"""The list of the programs that come with the machine says what is there, and what they do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.machine.examples import names, run

from headway.errors import HeadwayError
from headway_machine.programs import program_of, programs

pytestmark = pytest.mark.unit


def test_every_program_that_is_kept_built_is_listed() -> None:
    assert sorted(programs()) == names()


@pytest.mark.parametrize("name", names())
def test_a_program_has_the_threads_and_the_harts_that_the_list_says(name: str) -> None:
    listed, done = programs()[name], run(name, (1, 4, "skip"))
    on_kernel = [thread for thread in done.ledger.threads if thread.pid]
    assert len(on_kernel) == (listed.threads or 0)
    assert sum(hart["started"] for hart in done.harts) == (listed.harts or 4)


@given(st.text().filter(lambda name: name not in programs()))
def test_an_unknown_name_is_an_error_of_one_line(name: str) -> None:
    with pytest.raises(HeadwayError) as found:
        program_of(name)
    assert str(found.value).isprintable()


def test_the_nearest_names_come_first() -> None:
    with pytest.raises(HeadwayError, match="such as spin-lock"):
        program_of("spinlock")
