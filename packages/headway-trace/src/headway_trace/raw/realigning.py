"""Where frames begin anew in a file in which bytes are missing, and no synchronisation packets show it.

In frames that are taken apart at the right byte, every trace ID is one of the sources'. After an odd number of missing
bytes data stand where IDs are looked for, and others come soon. Frames that begin two bytes too late look right by
that. Of the places that do, the one is taken after which the streams have least that is no packet; of several, the one
that a single missing byte explains. An even number of missing bytes is not found.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from headway_trace._coresight import Deformatter
from headway_trace.packets import PacketKind
from headway_trace.snapshot import Setting

__all__ = ["starts_in"]

_FRAME = 16
_CHUNK = 1 << 16
_MOST = 4096
"""The most places at which frames begin anew."""
_WINDOW, _WRONG = 8, 3
"""Of so many frames one after the other, so many have a wrong ID where they are taken apart at a wrong byte."""
_TRIED = 1 << 10
"""The number of bytes after a place that must look right, for which it is tried."""
_USUAL = 12
"""Bytes that are no packet after any place, because streams go on there in the middle of packets."""
_NO_SOURCES = (0x00, 0x7B, 0x7D)
"""Trace IDs of a formatter: nothing, a flush that was answered, and a trigger."""
_SHARE = 0.04
"""The largest share of frames with a wrong ID after a right place."""


def starts_in(stream: BinaryIO, skip: int, ids: Collection[int], settings: Mapping[int, Setting]) -> tuple[int, ...]:
    """Return the bytes at which frames begin anew.

    ``skip``: where the first begins; ``ids``: the trace IDs of the sources; ``settings``: of those that are decoded.
    """
    known = np.zeros(128, np.bool_)
    known[[*_NO_SOURCES, *ids]] = True
    found: list[int] = []
    at = skip
    while len(found) < _MOST:
        stream.seek(at)
        data = stream.read(_CHUNK)
        wrong = _wrong(data, 0, known)
        if len(wrong) < _WINDOW:
            break
        many = np.convolve(wrong, np.ones(_WINDOW, np.int64))[_WINDOW - 1 :][: len(wrong) - _WINDOW + 1]
        places = np.flatnonzero(wrong[: len(many)] & (many >= _WRONG))
        if not len(places):
            at += _FRAME * len(many)
            continue
        frame = at + _FRAME * int(places[0])
        stream.seek(frame)
        shift = _shift(stream.read(_TRIED + _FRAME), known, settings)
        if shift:
            at = frame + shift
            found.append(at)
        else:
            at = frame + _FRAME * _WINDOW
    return tuple(found)


def _wrong(data: bytes, shift: int, known: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which frames from a byte on have an ID of no source."""
    count = (len(data) - shift) // _FRAME
    frames = np.frombuffer(data, np.uint8, max(count, 0) * _FRAME, shift).reshape(-1, _FRAME)[:, 0:15:2]
    wrong: NDArray[np.bool_] = ((frames & 1).astype(np.bool_) & ~known[frames >> 1]).any(axis=1)
    return wrong


def _shift(data: bytes, known: NDArray[np.bool_], settings: Mapping[int, Setting]) -> int:
    """Return how many bytes after the first a frame begins, from 1 to 15; 0: at none of them for sure."""
    right = [shift for shift in range(1, _FRAME) if (wrong := _wrong(data, shift, known)).size and _few(wrong)]
    if not right or _few(_wrong(data, 0, known)):
        return 0
    return min(right, key=lambda shift: (max(_noise(data[shift:], settings) - _USUAL, 0), shift != _FRAME - 1, shift))


def _few(wrong: NDArray[np.bool_]) -> bool:
    return bool(wrong.mean() <= _SHARE)


def _noise(data: bytes, settings: Mapping[int, Setting]) -> int:
    """Return how many bytes of the streams are no packet."""
    parsers = {stream: setting.parser() for stream, setting in settings.items()}
    noise = 0
    for stream, piece, _ in Deformatter().feed(data):
        if stream in parsers:
            counts = parsers[stream].feed(piece).counts()
            noise += counts[PacketKind.NOISE] + counts[PacketKind.HARDWARE]
    return noise
