"""The settings of the eBPF programs, as they have them before they are loaded (struct settings in layout.h)."""

from __future__ import annotations

from collections.abc import Sequence

from ..polling.checks import OVERWRITING, Check, NeutralCall
from .layout import STATES, fields_of, pack

__all__ = ["pack_settings"]

_LEAST = {"max_histograms": 1, "n_processes": 1, "ring_words": 1, "absence_words": 1}
"""What the programs divide by or mask with is never 0, also where it is not used."""
_LONGEST_NAME = 15
"""Bytes of a thread's name (TASK_COMM_LEN - 1)."""


def pack_settings(
    *,
    max_thread_records: int,
    checks: Sequence[Check] = (),
    neutral: Sequence[NeutralCall] = (),
    name: bytes = b"",
    **values: int | Sequence[int],
) -> bytes:
    """Return the settings as bytes.

    ``checks``: in the order of their states; ``neutral``: in any order; ``name``: of the threads to be measured, of
    which the kernel keeps 15 bytes. ``values``: the other fields, by their names in layout.h.

    Raises TypeError for a name that is none, struct.error for a number that does not fit.
    """
    if unknown := values.keys() - fields_of("settings").keys():
        raise TypeError(f"no such settings: {', '.join(sorted(unknown))}")
    name = name[:_LONGEST_NAME]
    return pack(
        "settings",
        {
            **_LEAST,
            "other_accounts": bool(values.get("publish") or values.get("tasks")),
            **values,
            "max_thread_records": max_thread_records,
            "name": name,
            "name_length": len(name),
            "check_of": _places([check.number for check in checks]),
            "checks": b"".join(map(_check, checks)),
            "neutral_of": _places([call.number for call in neutral]),
            "neutrals": b"".join(map(_neutral, neutral)),
        },
    )


def _places(calls: Sequence[int]) -> list[int]:
    """Return 1 + the last place of each system call, by its number; 0: it has none."""
    places = [0] * STATES["N_CALLS"]
    for place, call in enumerate(calls, 1):
        places[call] = place
    return places


def _check(check: Check) -> bytes:
    (if_flag, flag), (if_equal, equal) = check.if_flag, check.if_equal
    return pack(
        "check",
        {
            "call": check.number,
            "always": check.always,
            "if_zero": check.if_zero,
            "if_no_time": check.if_no_time,
            "if_flag": if_flag,
            "if_equal": if_equal,
            "if_nonblocking": check.if_nonblocking,
            "about": check.about,
            "about_file": check.about_file,
            "about_name": check.about_name,
            "answer": check.answer,
            "at_once": bool(check.if_no_time) and check.call in OVERWRITING,
            "zero": check.zero,
            "errors": check.errors,
            "flag": flag,
            "equal": equal,
            "gap": check.gap_ns,
            "alike": check.alike_ns,
        },
    )


def _neutral(call: NeutralCall) -> bytes:
    return pack(
        "neutral",
        {
            "call": call.number,
            "if_zero": call.if_zero,
            "any": call.any,
            "zero": call.zero,
            "errors": call.errors,
            "at_most": call.at_most_ns,
        },
    )
