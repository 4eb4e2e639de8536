"""Docstrings of attributes, as they are written here: the words before a colon are not a type."""

from __future__ import annotations

from typing import Any

from sphinx.application import Sphinx

__all__ = ["BEFORE_NAPOLEON", "attribute_read"]

BEFORE_NAPOLEON = 400
"""The priority of a handler that runs before those of sphinx.ext.napoleon, which have 500."""


def attribute_read(_app: Sphinx, what: str, _name: str, _object: Any, _options: Any, lines: list[str]) -> None:
    """Begin the docstring with an empty comment: napoleon takes a first line ``How: by a signal`` for the type How."""
    if what in ("attribute", "data", "property"):
        lines[:0] = ["..", ""]
