"""A file of raw bytes as a snapshot: buffer, sources and settings, found by evidence or told by the user."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

from headway.errors import HeadwayError
from headway.files import open_file

from ..decode import Capture
from ..snapshot import CapturedBuffer, Source, Style, TraceSnapshot
from .framing import Framing, framings, streams_of
from .protocols import Found, recognise
from .realigning import starts_in
from .told import PROTOCOLS, Told

__all__ = ["RawTrace", "open_raw"]

_SAMPLE = 1 << 20
"""The number of bytes of a file that are looked at, at its beginning, and if they are no trace, in its middle."""
_UNIT = 512
"""A multiple of the size of a frame, and of a DSTREAM unit's block."""
_LEAST = 0.1
"""The share of a file's bytes that must be in clean stretches."""
_FRAME = 16
_PARTED, _PARTS, _LEAST_PART = 1 << 16, 8, 512
"""The bytes of a sample of which parts are tried, the number of these, and the least bytes of one."""
_BETTER, _PART_OF = 0.2, 0.05
"""How much more must speak for a part than for the whole, and the least share of a part that a stream in it has."""
_ENOUGH = 0.8
"""The share with which no other way to read a file is tried."""
_SOME = 0.01
"""The share of the bytes from which on a stream that was not recognised is named."""
_NAMED = 6
_FOLLOWED: Mapping[str, Sequence[tuple[str, Sequence[Any]]]] = {
    "ETMv3": (
        ("cycle_accurate", (True, False)),
        ("branch_broadcast", (False, True)),
        ("alternative_branches", (False, True)),
    ),
    "PTM": (("return_stack", (False, True)), ("barriers", (False, True)), ("branch_broadcast", (False, True))),
    "ETMv4": (("return_stack", (False, True)), ("waits", (False, True))),
    "ETE": (("return_stack", (False, True)), ("waits", (False, True))),
}
"""The fields of a setting that only show in how packets fit a program, with what is tried of each."""
_SPECULATIVE = (1, 2, 4, 8, 16, 32, 64, 128)


@dataclass(frozen=True, slots=True)
class RawTrace:
    """What a file was taken for, and sentences that say so, and how sure it is."""

    snapshot: TraceSnapshot
    remarks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Reading:
    """One way to read a sample: the streams that were recognised, the sizes of all, and what share speaks for it."""

    framing: Framing
    found: Mapping[int, Found]
    sizes: Mapping[int, int]
    share: float


def open_raw(path: str, images: Sequence[str], told: Told) -> RawTrace:
    """Find out what a file is. Raises HeadwayError if it is no trace that can be read."""
    with open_file(path, "a trace") as stream:
        sample = stream.read(_SAMPLE)
        size = stream.seek(0, 2)
        if sample.startswith(b"\x7fELF"):
            raise HeadwayError(
                f"{path!a} is neither a trace nor a snapshot folder but a program: "
                "give it with --image, beside the trace"
            )
        reading = _reading(sample, told)
        if reading is None and size > 2 * _SAMPLE:
            stream.seek(size // 2 // _UNIT * _UNIT)
            reading = _reading(stream.read(_SAMPLE), told)
        if reading is None:
            raise HeadwayError(_refusal(path, size, told))
        if reading.framing.style is Style.FRAMES:
            reading = _realigned(stream, sample, reading, told)
    framing = reading.framing
    style = Style.PORT if framing.skip or framing.starts else framing.style
    buffer = CapturedBuffer("raw bytes", (Path(path),), style, framing.skip, framing.starts)
    sources = [
        Source(Path(path).name, one.protocol, number, buffer, None, one.setting)
        for number, one in sorted(reading.found.items())
    ]
    if images:
        sources = [_fitted(path, source, reading.found, images, told) for source in sources]
    remarks = _words(path, reading, sources)
    if framing.starts:
        remarks.append(f"bytes are missing: at {len(framing.starts):,} more bytes frames begin anew")
    return RawTrace(TraceSnapshot(Path(path), tuple(sources), {}), tuple(remarks))


def _refusal(path: str, size: int, told: Told) -> str:
    if not size:
        what = "is empty"
    elif told.protocols:
        what = f"has nothing that reads as {', '.join(sorted(set(told.protocols.values())))}"
    else:
        kinds = "a trace of the machine (.hwt), perf.data, Intel PT, E-Trace (.toml)"
        what = f"is neither {kinds} nor a snapshot folder, and no {', '.join(PROTOCOLS[:-1])} or ITM is found in it"
    return (
        f"{path!a} {what}: give what headway machine run --trace, perf record or a probe wrote, a TOML file that "
        "describes E-Trace, or a folder with a snapshot.ini"
    )


def _reading(sample: bytes, told: Told) -> _Reading | None:
    """Return the way to read a sample for which most speaks, or None.

    If not all of it reads well, parts of it are tried: where bytes are missing in one, others have none missing.
    """
    whole = _reading_of(sample, told)
    size = min(len(sample), _PARTED) // _PARTS // _FRAME * _FRAME
    readings = [whole]
    if whole.share <= _ENOUGH and size >= _LEAST_PART and not (whole.found and whole.framing.style is Style.PORT):
        readings += [_reading_of(sample[at : at + size], told, at) for at in range(0, _PARTS * size, size)]
    best = max(readings, key=lambda one: one.share)
    if best.share < whole.share + _BETTER:
        best = whole
    if not best.found or best.share <= (0.0 if told.protocols else _LEAST):
        return None
    found, sizes = dict(best.found), dict(best.sizes)
    for other in readings:  # streams that only other parts have
        if other.share > _LEAST and other.framing.style is best.framing.style:
            for number, one in other.found.items():
                if one.score[0] < size * _PART_OF:
                    continue
                found[number] = max(one, found.get(number, one), key=lambda each: each.score)
                sizes[number] = max(sizes.get(number, 0), other.sizes[number])
    return replace(best, found=found, sizes=sizes)


def _realigned(stream: BinaryIO, sample: bytes, reading: _Reading, told: Told) -> _Reading:
    """Return a reading with the places at which frames begin anew because bytes are missing."""
    framing, found = reading.framing, reading.found
    least = sum(reading.sizes.values()) * _PART_OF
    ids = {*found, *(number for number, size in reading.sizes.items() if size > least)}
    starts = starts_in(stream, framing.skip, ids, {number: one.setting for number, one in found.items()})
    if not starts:
        return reading
    framing = replace(framing, starts=starts)
    streams = streams_of(sample, framing)
    again = {
        number: one
        for number, data in streams.items()
        if (one := recognise(data, told.protocol(number), told.of(number))) is not None and one.score[0]
    }
    sizes = {number: len(data) for number, data in streams.items()}
    least = sum(sizes.values()) * _SOME
    kept = {number: one for number, one in found.items() if sizes.get(number, 0) > least}
    return replace(reading, framing=framing, found={**kept, **again}, sizes=sizes)


def _reading_of(sample: bytes, told: Told, start: int = 0) -> _Reading:
    """Return the best way to read a sample, which begins with byte ``start`` of another."""
    readings = []
    for framing in framings(sample):
        streams = streams_of(sample, framing)
        found = {
            number: one
            for number, data in streams.items()
            if (one := recognise(data, told.protocol(number), told.of(number))) is not None and one.score[0]
        }
        share = sum(one.score[0] for one in found.values()) / len(sample) if sample else 0.0
        if framing.style in (Style.FRAMES, Style.PORT):
            framing = replace(framing, skip=(start + framing.skip) % _FRAME)
        readings.append(_Reading(framing, found, {number: len(data) for number, data in streams.items()}, share))
        if share > _ENOUGH:
            break
    return max(readings, key=lambda one: one.share)


def _fitted(path: str, source: Source, found: Mapping[int, Found], images: Sequence[str], told: Told) -> Source:
    """Return a source with the setting with which its packets fit the program best, of those that they allow."""
    assert source.stream is not None
    known = found[source.stream]
    tries = [one for one in _FOLLOWED.get(source.protocol, ()) if one[0] not in known.fixed]
    if known.speculates and "deepest" not in known.fixed:
        tries = [("deepest", (0, *_SPECULATIVE)), *tries]
    best, cost = source, _misfits(path, source, images) if tries else (0, 0)
    for name, values in tries:
        for value in values:
            if (not cost[0] and cost[1]) or getattr(best.setting, name) == value:
                continue
            setting: Any = replace(best.setting, **{name: value})  # type: ignore[type-var]
            other = replace(best, setting=setting)
            other_cost = _misfits(path, other, images)
            if other_cost < cost:
                best, cost = other, other_cost
    return best


def _misfits(path: str, source: Source, images: Sequence[str]) -> tuple[int, int]:
    """Return how often a stream contradicts the program, and, negative, how many instructions it then has."""
    capture = Capture(TraceSnapshot(Path(path), (source,), {}), images)
    return next((stream.misfits for stream in capture.streams.values()), (0, 0))


def _words(path: str, reading: _Reading, sources: Sequence[Source]) -> list[str]:
    """Return what the file was taken for, and how sure that is."""
    groups: dict[str, list[str]] = {}
    for source in sources:
        groups.setdefault(_described(source), []).append(f"{source.stream:#x}")
    bare = reading.framing.style is Style.RAW
    parts = [name if bare else f"{name} ({', '.join(ids)})" for name, ids in groups.items()]
    lines = [f"{path!a} is taken for {reading.framing.words}: {', '.join(parts)}", _certainty(reading.found.values())]
    return [*lines, *_unrecognised(reading), *_speculating(reading)]


def _unrecognised(reading: _Reading) -> Iterator[str]:
    """Yield what to do about streams that are large, and of no protocol that was found."""
    total = sum(reading.sizes.values())
    unknown = [
        f"{number:#x}"
        for number, size in sorted(reading.sizes.items())
        if number not in reading.found and size > total * _SOME
    ]
    if unknown:
        yield (
            f"left out: streams of no protocol that is found ({', '.join(unknown[:_NAMED])}): name it with --protocol "
            f"{unknown[0]}=NAME, one of {', '.join(PROTOCOLS)}"
        )


def _speculating(reading: _Reading) -> Iterator[str]:
    """Yield which register is missing if a stream has elements that may be cancelled."""
    for number, one in sorted(reading.found.items()):
        if one.speculates and "deepest" not in one.fixed:
            yield (
                f"stream {number:#x} speculates, and how deep only TRCIDR8 says: give it with --register "
                f"{number:#x}:TRCIDR8=VALUE if instructions contradict the trace"
            )
            return


def _described(source: Source) -> str:
    """Return the protocol of a source with what matters of its setting."""
    setting: Any = source.setting
    more = []
    if getattr(setting, "cycle_accurate", False):
        more.append("cycle counts")
    if getattr(setting, "threads", False):
        more.append("context IDs")
    if getattr(setting, "return_stack", False):
        more.append("a return stack")
    return f"{source.protocol} with {' and '.join(more)}" if more else source.protocol


def _certainty(found: Collection[Found]) -> str:
    """Return how sure that is."""
    clean, dirty = (sum(getattr(one.evidence, name) for one in found) for name in ("clean", "dirty"))
    alignments = sum(one.evidence.alignments for one in found)
    unaligned = sum(one.evidence.packets for one in found if not one.evidence.alignments)
    parts = []
    if alignments:
        share = 100 * clean / max(clean + dirty, 1)
        parts.append(f"{share:.3g} % of the bytes after its first synchronisation fit, with {alignments:,} of these")
    if unaligned:
        parts.append(f"{unaligned:,} packets come without a synchronisation, and nothing else")
    return f"what speaks for it: {'; '.join(parts)}"
