"""The one way in which anything may fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from headway.errors import HeadwayError

T = TypeVar("T")


def given_or_sentence(action: Callable[[], T]) -> T | None:
    """What the action gives; None where it failed in one printable sentence. Anything else is a failure."""
    try:
        return action()
    except HeadwayError as error:
        text = str(error)
    assert text.isprintable()
    assert 0 < len(text) < 500
    return None
