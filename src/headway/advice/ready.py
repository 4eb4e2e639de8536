"""Waiting for a processor: what had it meanwhile, and what helps."""

from __future__ import annotations

from headway.model.kinds import Kind

from .findings import LONGEST, Finding, Helps, share_of
from .remedy import Contentions

__all__ = ["against_waiting"]

_OTHERS = "others"
"""The cause of waiting for a processor that other processes have: one, whatever helps the process that is named."""


def against_waiting(finding: Finding, contentions: Contentions, processors: int) -> Helps:
    """Return what helps a thread that waits for a processor. ``processors``: their number; 0: not known."""
    thread, shared = finding.thread, contentions.of(finding.thread)
    where = f"{processors} processors" if processors > 1 else "its processors"
    found = f"{finding.value:.0%} of the time it could run, it waited for a processor"
    holder = shared.holder
    if holder is not None:
        ready = thread.times()[Kind.READY]
        part = share_of(holder, ready) if ready else "most"
        found += f"; meanwhile {holder.name[:LONGEST]} ({holder.tid}) had it for {part} of that time"
    if shared.among_itself:
        text = f"its own threads have work for {shared.demand:.1f} processors"
        if processors and shared.demand < processors:  # each wants one when another has it
            text += " on average, but want them at the same moments: wake fewer at once, or allow it more processors"
        else:
            text += f": start fewer, or allow it more than {where}"
    elif shared.remedy is not None:
        needs = shared.remedy.processors
        text = f"other processes want the same ones; keep {needs} for this process alone"
        if shared.namesakes > 1 and processors and shared.demand_of_name > processors:
            text = (
                f"the {shared.namesakes:,} processes {shared.name[:LONGEST]} together have work for "
                f"{shared.demand_of_name:.1f} processors: start fewer, or keep {needs} for this one alone"
            )
        text += " (the command shows its plan, and asks)"
        return Helps(
            found,
            text,
            "sudo headway advise --apply -a -p {pid}",
            "sudo headway advise --undo",
            shared.remedy,
            _OTHERS,
        )
    else:
        text = f"more runs on {where} than they can take; start fewer threads, or allow it more processors"
    return Helps(found, text, "taskset -acp {pid}", cause="" if shared.among_itself else _OTHERS)
