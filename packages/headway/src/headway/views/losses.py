"""Losses in words: counts as they are, times with their unit."""

from __future__ import annotations

from collections.abc import Mapping

from headway.model import Ledger, loss_of

from .figures import with_unit

__all__ = ["are_small", "explained_losses", "is_time", "named_losses", "without_unit"]

_SMALL = 0.001
"""A smaller share of what was measured changes no figure that is printed."""
_OF_EVENTS = frozenset(
    {
        "causes_without_room",
        "durations_of_unknown_buckets",
        "functions_nested_too_deep",
        "handlers_skipped",
        "interrupts_nested_too_deep",
        "switches_unseen",
        "task_changes_overwritten",
        "wakeups_unseen",
    }
)
"""The losses of single events. Of all others but times even one is worth a look."""


def named_losses(losses: Mapping[str, int]) -> str:
    """Return everything that was lost, by name; an empty string if nothing was."""
    words = []
    for name, amount in losses.items():
        if not amount:
            continue
        shown = without_unit(name).replace("_", " ")
        words.append(f"{shown} {with_unit(amount, 'ns', 7, ' ').strip() if is_time(name) else f'{amount:,}'}")
    return ", ".join(words)


def are_small(ledger: Ledger) -> bool:
    """Return whether each loss is less than 0.1 % of the threads' time, or of the events that were measured."""
    time, events = sum(thread.span for thread in ledger.threads), ledger.overhead.events or 0

    def is_small(name: str, amount: int) -> bool:
        return amount < _SMALL * (time if is_time(name) else events if name in _OF_EVENTS else 0)

    return all(is_small(name, amount) for name, amount in ledger.losses.items() if amount)


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
