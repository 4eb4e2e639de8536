"""What measuring cost, explained: which events there were, as each costs about as much as another."""

from __future__ import annotations

from collections import Counter

from headway.model import Kind, Ledger, is_interrupt, kind_of

from .figures import share

__all__ = ["events_in_words"]

_FEWEST = 0.01
"""A kind with a smaller share of the events is not named."""


def events_in_words(ledger: Ledger) -> str:
    """Return which kinds of events threads were measured at, the most frequent first; empty: none were counted.

    They are counted by the states that they began.
    """
    found: Counter[str] = Counter()
    for thread in ledger.threads:
        for state, cell in thread.states.items():
            if kind := _kind(state):
                found[kind] += cell.count or 0
    total = sum(found.values())
    most = [(kind, n) for kind, n in found.most_common() if n > _FEWEST * total]
    return ", ".join(f"{kind} {n:,} ({share(n / total)})" for kind, n in most)


def _kind(state: str) -> str:
    """Return the kind of event by which a state begins; empty: it follows from another one."""
    kind = kind_of(state)
    if is_interrupt(state):
        return "interrupts"
    if state.startswith("kernel.fault"):
        return "page faults"
    if kind is Kind.KERNEL:
        return "marked regions" if state.startswith("noneffective") else "system calls"
    if kind is Kind.POLL:
        return "status checks"
    return {Kind.WAIT: "waits", Kind.READY: "times ready"}.get(kind, "")
