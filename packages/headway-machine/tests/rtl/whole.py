"""Whether the tests of the units try all that they can, as in ``make rtl``, or a sample of each kind."""

from __future__ import annotations

import os

__all__ = ["WHOLE"]

WHOLE = os.environ.get("HEADWAY_RTL") == "whole"
