"""The place of a stack: the frame that a reader would name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.model import Frame
from headway.model.places import place_of, words_of_place

KERNEL = Frame("schedule", None, None, "[kernel]", 1, "kernel")
LIBC = Frame("read", None, None, "/usr/lib/libc.so.6", 2, "user")
PARSE = Frame("parse", "load.c", 88, "/bin/app", 3, "user")
NAMELESS = Frame(None, None, None, "/lib/libz.so.1", 16, "user")
INTERPRETER = Frame("os_read", None, None, "/usr/bin/python3.11", 4, "user")
FILL = Frame("fill", "queue.py", 31, "/srv/queue.py", None, "python")
REASON = Frame("[cut off]", None, None, None, None, "none")


@pytest.mark.parametrize(
    ("frames", "place"),
    [
        ((KERNEL, LIBC, PARSE), PARSE),
        ((KERNEL, LIBC, INTERPRETER, FILL), FILL),
        ((KERNEL, LIBC, NAMELESS, INTERPRETER, FILL), NAMELESS),
        ((KERNEL, LIBC, INTERPRETER), INTERPRETER),
        ((KERNEL, LIBC, REASON), LIBC),
        ((KERNEL,), KERNEL),
        ((REASON,), None),
        ((), None),
    ],
)
def test_the_place_of_a_stack(frames: tuple[Frame, ...], place: Frame | None) -> None:
    at = place_of(frames)
    assert (None if at is None else frames[at]) == place


@given(st.lists(st.sampled_from([KERNEL, LIBC, PARSE, NAMELESS, INTERPRETER, FILL, REASON])))
def test_a_stack_of_a_program_has_a_place_in_the_program(frames: list[Frame]) -> None:
    at = place_of(frames)
    kinds = {frame.kind for frame in frames}
    assert (at is None) == (not kinds & {"user", "python", "kernel"})
    if at is not None and kinds & {"user", "python"}:
        assert frames[at].kind in ("user", "python")


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (PARSE, "parse() at load.c:88"),
        (FILL, "fill() at queue.py:31"),
        (LIBC, "read() of libc.so.6"),
        (KERNEL, "schedule()"),
        (NAMELESS, "libz.so.1+0x10"),
    ],
)
def test_a_place_in_words(frame: Frame, words: str) -> None:
    assert words_of_place(frame) == words
