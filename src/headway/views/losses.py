"""What was lost, in words: counts as they are, times with their unit."""

from __future__ import annotations

from collections.abc import Mapping

from headway.model import KNOWN_LOSSES

from .figures import with_unit

__all__ = ["explained_losses", "is_time", "named_losses", "without_unit"]


def named_losses(losses: Mapping[str, int]) -> str:
    """Everything that was lost, by name; an empty string if nothing was."""
    words = []
    for name, amount in losses.items():
        if not amount:
            continue
        shown = without_unit(name).replace("_", " ")
        words.append(f"{shown} {with_unit(amount, 'ns', 7, ' ').strip() if is_time(name) else f'{amount:,}'}")
    return ", ".join(words)


def explained_losses(losses: Mapping[str, int]) -> list[str]:
    """What each loss counts, a line each, of what was lost."""
    return [f"{name}: {KNOWN_LOSSES[name].what}" for name, amount in losses.items() if amount and name in KNOWN_LOSSES]


def is_time(name: str) -> bool:
    """Whether the loss is a time in ns. Of a name that this headway does not know, the name says it."""
    loss = KNOWN_LOSSES.get(name)
    return loss.unit == "ns" if loss is not None else "ns" in name.split("_")


def without_unit(name: str) -> str:
    """The name of a loss without the ``ns`` that says that it is a time."""
    return "_".join(word for word in name.split("_") if word != "ns")
