"""Read the losses: the counts of the eBPF programs, of the kernel, and of the readers of their memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headway.linux.bpf.shared.layout import LOSSES
from headway.model import KNOWN_LOSSES

from .ended import EndedThreads
from .programs import LoadedPrograms

if TYPE_CHECKING:
    from .transitions import TransitionFeed

__all__ = ["LossReader"]

_PLACES = {name: LOSSES[loss.constant] for name, loss in KNOWN_LOSSES.items() if loss.constant}
"""The losses that the eBPF programs count, and the places where they do."""


class LossReader:
    """Reads all counts of losses of one measurement."""

    def __init__(self, programs: LoadedPrograms, ended: EndedThreads, transitions: TransitionFeed | None) -> None:
        self._programs, self._ended, self._transitions = programs, ended, transitions

    def read(self) -> tuple[dict[str, int], int]:
        """Return the losses since the beginning by name, and how many events the programs have seen."""
        counts, events = self._programs.memory.losses()
        lost = {name: counts[place] for name, place in _PLACES.items()}
        lost["records_damaged"] = self._ended.exits.damaged
        lost["readings_torn"] = self._programs.memory.torn
        lost["handlers_skipped"] += self._programs.skipped()
        if self._transitions is not None:
            lost.update(self._transitions.losses())
        if self._ended.added_up:
            lost["ended_threads_added_up"] = self._ended.added_up
        return lost, events
