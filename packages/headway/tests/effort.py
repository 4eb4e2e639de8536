"""How much the tests try: ``HEADWAY_TESTS=few`` as in ``make check``, ``some`` as in ``make test``, else everything.

What is exhaustive by nature, and so of no use with less, has the mark ``exhaustive``: only ``make test-all`` runs it.
"""

from __future__ import annotations

import os
from typing import Any

import pytest

__all__ = ["EXAMPLES", "FEW", "exhaustive"]

_EFFORT = os.environ.get("HEADWAY_TESTS", "all")

EXAMPLES = {"few": 3, "some": 5}.get(_EFFORT)
"""Examples that a property has at most; None: as many as it says."""

FEW = EXAMPLES is not None
"""Whether what is tried in several shapes is tried in some of them only."""


def exhaustive(*values: object) -> list[Any]:
    """Return parameters of a test with which only ``make test-all`` tries it."""
    return [pytest.param(value, marks=pytest.mark.exhaustive) for value in values]
