"""How much the tests try: ``HEADWAY_TESTS=few`` as in ``make check``, ``some`` as in ``make test``, else all that they can.

What is exhaustive by nature, and so of no use with less, has the mark ``exhaustive``: only ``make test-all`` runs it.
"""

from __future__ import annotations

import os

__all__ = ["EXAMPLES", "FEW"]

_EFFORT = os.environ.get("HEADWAY_TESTS", "all")

EXAMPLES = {"few": 3, "some": 8}.get(_EFFORT)
"""Examples that a property has at most; None: as many as it says."""

FEW = EXAMPLES is not None
"""Whether what is tried in several shapes is tried in some of them only."""
