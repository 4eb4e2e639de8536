"""Other eBPF programs at the tracepoints that headway's programs are attached to.

They run in the same threads, and what they take is in these threads' times: no program sees another. The kernel lists
the programs that are attached by a link (bpf(2), BPF_LINK_GET_NEXT_ID). One that perf_event_open(2) attached has none.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections import Counter
from collections.abc import Iterator, Set
from ctypes import byref, c_uint32

from .libbpf import BpfError, Library

__all__ = ["describe", "other_programs"]

_RAW_TRACEPOINT = 1
"""BPF_LINK_TYPE_RAW_TRACEPOINT (include/uapi/linux/bpf.h): of tp_btf and raw_tp programs."""
_LONGEST = 64
"""Bytes of a tracepoint's name."""
_OFTEN = ("sched_switch", "sys_enter", "sys_exit")
"""Tracepoints that are told of first."""
_MOST = 4096
"""Links that are looked at."""


class _LinkInfo(ctypes.Structure):
    """The head of struct bpf_link_info (include/uapi/linux/bpf.h), with what it says of a raw tracepoint."""

    _fields_ = [
        ("type", c_uint32),
        ("id", c_uint32),
        ("prog_id", c_uint32),
        ("padding", c_uint32),
        ("tp_name", ctypes.c_uint64),
        ("tp_name_len", c_uint32),
    ]


def other_programs(library: Library, tracepoints: Set[str], own: Set[int]) -> Counter[str]:
    """Return how many programs of others are attached to each of the tracepoints.

    ``own``: the ids of the programs that are not counted. Raises BpfError where this user may not ask.
    """
    return Counter(hook for program, hook in _attached(library) if hook in tracepoints and program not in own)


def describe(found: Counter[str]) -> str:
    """Return what a reader of the figures must know; empty: there are none."""
    if not found:
        return ""
    most = max(found.values())
    dearest = sorted(
        (hook for hook, number in found.items() if number == most), key=lambda hook: (hook not in _OFTEN, hook)
    )
    where = ", ".join(dearest[:3])
    programs = "1 eBPF program" if most == 1 else f"{most} eBPF programs"
    return f"{programs} of others at the same events ({where}): what they take is in the threads' times"


def _attached(library: Library) -> Iterator[tuple[int, str]]:
    """Yield the id of each program that a link attaches to a raw tracepoint, and that tracepoint."""
    number = c_uint32(0)
    for _ in range(_MOST):
        if library.call("bpf_link_get_next_id", number.value, byref(number)) < 0:
            break
        fd = library.call("bpf_link_get_fd_by_id", number.value)
        if fd == -errno.ENOENT:  # detached meanwhile
            continue
        if fd < 0:
            raise BpfError("looking at the links of other programs", -fd)
        try:
            name = ctypes.create_string_buffer(_LONGEST)
            info = _LinkInfo(tp_name=ctypes.addressof(name), tp_name_len=_LONGEST)
            length = c_uint32(ctypes.sizeof(info))
            found = library.call("bpf_obj_get_info_by_fd", fd, byref(info), byref(length)) >= 0
            if found and info.type == _RAW_TRACEPOINT:
                yield info.prog_id, name.value.decode(errors="replace")
        finally:
            os.close(fd)
