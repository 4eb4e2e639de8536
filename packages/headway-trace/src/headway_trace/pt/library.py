"""libipt, Intel's decoder of Processor Trace, loaded when it is needed.

headway needs version 2.0 or later, which has the block decoder. Source: intel-pt.h of libipt.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from functools import cache

from headway.errors import HeadwayError

__all__ = ["INSTALL", "available", "error_name", "functions"]

INSTALL = "apt install libipt2 (Debian, Ubuntu), dnf install libipt (Fedora)"
_NAMES = ("libipt.so.2", "libipt.so")
_NEEDED = (
    "pt_cpu_errata",
    "pt_image_alloc",
    "pt_image_free",
    "pt_image_add_file",
    "pt_blk_alloc_decoder",
    "pt_blk_free_decoder",
    "pt_blk_sync_forward",
    "pt_blk_sync_set",
    "pt_blk_get_offset",
    "pt_blk_get_sync_offset",
    "pt_blk_set_image",
    "pt_blk_time",
    "pt_blk_next",
    "pt_blk_event",
    "pt_insn_alloc_decoder",
    "pt_insn_free_decoder",
    "pt_insn_sync_forward",
    "pt_insn_set_image",
    "pt_insn_next",
    "pt_insn_event",
    "pt_pkt_alloc_decoder",
    "pt_pkt_free_decoder",
    "pt_pkt_sync_forward",
    "pt_pkt_next",
)
_OPTIONAL = ("pt_blk_resync",)
"""Functions of newer versions: to go on after an address without memory, before the next PSB."""

_ERRORS = (
    "ok", "internal", "invalid", "nosync", "bad_opc", "bad_packet", "bad_context", "eos", "bad_query", "nomem",
    "bad_config", "noip", "ip_suppressed", "nomap", "bad_insn", "no_time", "no_cbr", "bad_image", "bad_lock",
    "not_supported", "retstack_empty", "bad_retcomp", "bad_status_update", "no_enable", "event_ignored", "overflow",
    "bad_file", "bad_cpu",
)  # fmt: skip


@cache
def _library() -> ctypes.CDLL | None:
    for name in _NAMES:
        try:
            found = ctypes.CDLL(name)
        except OSError:
            continue
        if all(hasattr(found, function) for function in _NEEDED):
            return found
    return None


def available() -> bool:
    """Return whether libipt is here."""
    return _library() is not None


@cache
def functions() -> Mapping[str, int]:
    """Return the addresses of libipt's functions by name; 0 for an optional one that is not there.

    Raises HeadwayError if there is no libipt.
    """
    library = _library()
    if library is None:
        raise HeadwayError(f"Intel PT is decoded by libipt 2, which is not installed: {INSTALL}")
    return {
        name: ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0 if hasattr(library, name) else 0
        for name in (*_NEEDED, *_OPTIONAL)
    }


def error_name(code: int) -> str:
    """Return libipt's name of an error (pte_*), without the prefix."""
    return _ERRORS[code] if 0 <= code < len(_ERRORS) else f"error_{code}"
