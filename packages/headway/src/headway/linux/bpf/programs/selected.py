"""The threads that are selected by their ids, and that change while the programs are loaded."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from .libbpf import Map

__all__ = ["Selected"]

_KEY = struct.Struct("=I")


class Selected:
    """Keeps a map from ids to anything: what is in it are the ids that were given last."""

    def __init__(self, chosen: Map) -> None:
        self._map = chosen
        self._ids: set[int] = set()
        self.left_out = 0
        """How many found no room, in all."""

    def replace(self, ids: Iterable[int]) -> None:
        """Have these ids selected, and no others of those that were given before."""
        wanted = set(ids)
        for gone in self._ids - wanted:
            self._map.remove(_KEY.pack(gone))
        kept = self._ids & wanted
        new = sorted(wanted - kept)
        room = max(self._map.max_entries - len(kept), 0)
        for number in new[:room]:
            self._map.put(number)
        self._ids = kept | set(new[:room])
        self.left_out += len(new[room:])
