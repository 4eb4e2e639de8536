"""Whether tests try little, as in ``make check``, or all that they can, as in ``make test``."""

from __future__ import annotations

import os

__all__ = ["FEW"]

FEW = os.environ.get("HYPOTHESIS_PROFILE") == "check"
"""A property then has few examples, and what is tried in several shapes is tried in some of them."""
