"""Words for what the holder of a lock did while others waited for it."""

from __future__ import annotations

from collections.abc import Mapping

from headway.model.holders import UNKNOWN, kind_of_doing

__all__ = ["in_a_word", "phrase"]

_WORDS: Mapping[str, tuple[str, str]] = {
    "user": ("its own code", "ran its own code"),
    "running": ("running", "ran"),
    "ready": ("ready without a processor", "was ready without a processor"),
    UNKNOWN: ("not known", "did what is not known"),
    "stolen": ("stolen by the hypervisor", "was stopped by the hypervisor"),
    "overhead": ("measuring", "was measured"),
    "stopped": ("stopped", "was stopped"),
    "memory": ("memory", "freed or waited for memory"),
    "disk": ("disk", "waited for a disk"),
    "lock": ("another lock", "waited for another lock"),
    "socket": ("a socket", "waited for a socket"),
    "pipe": ("a pipe", "waited for a pipe"),
    "sleep": ("sleep", "slept"),
    "child": ("a child process", "waited for a child process"),
    "kernel": ("the kernel", "was in the kernel"),
    "interrupts": ("interrupts", "was interrupted"),
    "poll": ("polling", "polled"),
    "noneffective": ("marked regions", "was in marked regions"),
}
"""The words of a table, and of a sentence."""


def in_a_word(state: str) -> str:
    """Return what a thread does in a state, in plain words."""
    return _words(kind_of_doing(state))[0]


def phrase(kind: str) -> str:
    """Return a clause without its subject: ``waited for a disk``."""
    return _words(kind)[1]


def _words(kind: str) -> tuple[str, str]:
    if kind in _WORDS:
        return _WORDS[kind]
    what = kind.removeprefix("wait.")
    return f"waiting ({what})", f"waited ({what})"
