"""What threads used, as parts of the document ``headway.stat``."""

from __future__ import annotations

from typing import Any

from headway.model.uses import CallUse, LockHolder, LockUse, UsedFile, Uses
from headway.text import valid

from .uses import error_name, received_and_sent

__all__ = ["use_documents"]


def use_documents(uses: Uses | None) -> dict[str, Any]:
    """Return the fields ``calls``, ``call_errors`` and ``locks``, as far as they were asked for."""
    if uses is None:
        return {}
    found: dict[str, Any] = {}
    if uses.calls is not None:
        found["calls"] = [_call(use) for use in uses.calls]
        found["call_errors"] = [
            {"pid": pid, "call": valid(call), "error": error_name(error), "number": error, "count": count}
            for (pid, call, error), count in sorted(uses.errors.items())
        ]
    if uses.locks is not None:
        found["locks"] = [_lock(lock) for lock in uses.locks]
    return found


def _call(use: CallUse) -> dict[str, Any]:
    read, written = received_and_sent(use)
    return {
        "pid": use.pid or None,
        "call": valid(use.call),
        "file": None if use.file is None else _file(use.file),
        "second": use.second,
        "count": use.count,
        "going_on": use.going_on,
        "errors": use.errors,
        "processor": use.on,
        "waiting": use.waited,
        "ready": use.ready,
        "read": read,
        "written": written,
    }


def _file(file: UsedFile) -> dict[str, Any]:
    return {
        "kind": file.kind,
        "device": file.device,
        "inode": file.inode,
        "name": valid(file.name),
        **({"local": valid(file.local) or None, "peer": valid(file.peer) or None} if file.kind == "socket" else {}),
    }


def _lock(lock: LockUse) -> dict[str, Any]:
    return {
        "pid": lock.pid or None,
        "name": valid(lock.name),
        "state": valid(lock.state),
        "is_lock": lock.is_lock,
        "waits": lock.waits,
        "waiting": lock.waited,
        "held": lock.held,
        "holders": [_thread(one) for one in lock.holders],
        "wakers": [_thread(one) for one in lock.wakers],
    }


def _thread(one: LockHolder) -> dict[str, Any]:
    return {
        "tid": one.tid or None,
        "name": valid(one.name),
        "waiting": one.waited,
        "waits": one.waits,
        "doing": {valid(state): time for state, time in sorted(one.doing.items())} or None,
    }
