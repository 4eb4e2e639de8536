"""All that is read from and written to the memory that is shared with the eBPF programs."""

from __future__ import annotations

from ..tasks._tasks import TaskRecords
from ..threads._threads import ThreadRecords
from ._controls import Controls
from ._processors import Processors
from ._snapshots import Snapshots

__all__ = ["BpfMaps"]


class BpfMaps(Controls, Processors, ThreadRecords, TaskRecords, Snapshots):
    """The maps of the eBPF programs (`_mapped.MappedMemory` says which), and the ways to read and to write them."""

    __slots__ = ()
