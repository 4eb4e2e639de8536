"""Values of an answer as JSON has them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

__all__ = ["plain", "plain_row"]

_ALREADY = frozenset({int, str, bool, type(None)})


def plain_row(row: Sequence[Any]) -> Sequence[Any]:
    """Return a row with each value as `plain` has it."""
    return row if _ALREADY.issuperset(map(type, row)) else tuple(map(plain, row))


def plain(value: Any) -> Any:
    """Return a value of an answer as JSON has it. Dates and other types that it lacks become text."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if isinstance(value, dict):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if hasattr(value, "as_integer_ratio"):
        whole, parts = value.as_integer_ratio()
        return whole if parts == 1 else float(value)
    if hasattr(value, "item"):
        return plain(value.item())
    return str(value)
