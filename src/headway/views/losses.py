"""What was lost, in words: counts as they are, times with their unit."""

from __future__ import annotations

from collections.abc import Mapping

from .figures import with_unit

__all__ = ["named_losses"]


def named_losses(losses: Mapping[str, int]) -> str:
    """Everything that was lost, by name; an empty string if nothing was. A name with ``ns`` in it is a time."""
    words = []
    for name, amount in losses.items():
        parts = name.split("_")
        if not amount:
            continue
        if "ns" in parts:
            parts.remove("ns")
            words.append(f"{' '.join(parts)} {with_unit(amount, 'ns', 7, ' ').strip()}")
        else:
            words.append(f"{' '.join(parts)} {amount:,}")
    return ", ".join(words)
