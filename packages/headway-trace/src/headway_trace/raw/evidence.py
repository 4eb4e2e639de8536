"""What speaks for the setting with which the packets of a stream were read (`_evidence.evidence_of` counts it)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["Evidence"]


class Evidence(NamedTuple):
    """What a stream is when it is read with one setting.

    ``clean`` are the bytes of stretches between two synchronisations, or after the last, of which all is packets;
    ``dirty`` those of the others, ``before`` those before the first synchronisation. ``noise``: bytes that are no
    packet. ``packets``, ``counts`` (by kind) and ``counted`` (I-syncs with a cycle count) are of clean stretches.
    ``headers``: how many different first bytes packets have.
    """

    alignments: int
    clean: int
    dirty: int
    before: int
    noise: int
    packets: int
    counted: int
    counts: Sequence[int]
    headers: int

    @property
    def size(self) -> int:
        """The bytes of the stream."""
        return self.clean + self.dirty + self.before

    @property
    def share(self) -> float:
        """The share of the bytes after the first synchronisation that are in clean stretches, from 0 to 1."""
        after = self.clean + self.dirty
        return self.clean / after if after else 0.0
