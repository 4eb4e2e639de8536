"""What was lost, in words: counts as they are, times with their unit."""

from __future__ import annotations

from collections.abc import Mapping

from headway.model import losses as known_losses

from .figures import with_unit

__all__ = ["explained_losses", "is_time", "named_losses"]

_KNOWN = known_losses()
"""Read when this is imported: `headway serve` may not read its own files any more when it has given up its rights."""


def named_losses(losses: Mapping[str, int]) -> str:
    """Everything that was lost, by name; an empty string if nothing was."""
    words = []
    for name, amount in losses.items():
        if not amount:
            continue
        shown = " ".join(part for part in name.split("_") if part != "ns")
        words.append(f"{shown} {with_unit(amount, 'ns', 7, ' ').strip() if is_time(name) else f'{amount:,}'}")
    return ", ".join(words)


def explained_losses(losses: Mapping[str, int]) -> list[str]:
    """What each loss counts, a line each, of what was lost."""
    return [f"{name}: {_KNOWN[name].what}" for name, amount in losses.items() if amount and name in _KNOWN]


def is_time(name: str) -> bool:
    """Whether the loss is a time in ns. Of a name that this headway does not know, the name says it."""
    loss = _KNOWN.get(name)
    return loss.unit == "ns" if loss is not None else "ns" in name.split("_")
