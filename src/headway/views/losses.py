"""Losses in words: counts as they are, times with their unit."""

from __future__ import annotations

from collections.abc import Mapping

from headway.model import loss_of

from .figures import with_unit

__all__ = ["explained_losses", "is_time", "named_losses", "without_unit"]


def named_losses(losses: Mapping[str, int]) -> str:
    """Return everything that was lost, by name; an empty string if nothing was."""
    words = []
    for name, amount in losses.items():
        if not amount:
            continue
        shown = without_unit(name).replace("_", " ")
        words.append(f"{shown} {with_unit(amount, 'ns', 7, ' ').strip() if is_time(name) else f'{amount:,}'}")
    return ", ".join(words)


def explained_losses(losses: Mapping[str, int]) -> list[str]:
    """Return a line for each loss that occurred, with what it counts."""
    found = ((name, loss_of(name)) for name, amount in losses.items() if amount)
    return [f"{name}: {loss.what}" for name, loss in found if loss is not None]


def is_time(name: str) -> bool:
    """Return whether the loss is a time in ns. For an unknown name, the word ``ns`` in it decides."""
    loss = loss_of(name)
    return loss.unit == "ns" if loss is not None else "ns" in name.split("_")


def without_unit(name: str) -> str:
    """Return the name of a loss without the word ``ns``."""
    return "_".join(word for word in name.split("_") if word != "ns")
