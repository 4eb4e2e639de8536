"""CoreSight snapshots: a folder with captured trace, memory dumps, and INI files that describe them.

``snapshot.ini`` names the files of the devices and ``trace.ini``. That file says which file holds which buffer, which
source writes into which buffer, and which core a source traces. Every file is untrusted: sizes are limited, names must
stay inside the folder, and anything missing or impossible is reported in one sentence. A snapshot may name more than it
has: sources without a device file, and memory dumps that are not there, are kept by their names.

A snapshot of several sessions has a buffer and a source for each. The sources of all sessions have the same trace ID.

Source: the snapshot format of Arm DS-5 as "CoreSight Access Library" writes it (docs/specs/ABI of OpenCSD).
"""

from __future__ import annotations

import configparser
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

from headway.errors import HeadwayError
from headway.files import read_file
from headway.values import shown

from . import etmv3, etmv4, ptm
from .image import TracedImage
from .itm import packets as itm

__all__ = ["CapturedBuffer", "Setting", "Source", "Style", "TraceSnapshot"]

Setting = etmv3.Setting | ptm.Setting | etmv4.Setting | itm.Setting
"""The setting of a trace unit whose protocol is decoded."""

_MAX_INI = 1 << 20
_MAX_DUMP = 1 << 30
_MAX_DEVICES = 4096
_LONGEST_NAME, _LONGEST_VALUE = 255, 4096
_PROTOCOLS = {
    "ETMv3": re.compile(r"ETM-?v?3(\.\d+)?", re.IGNORECASE),
    "PTM": re.compile(r"(PTM|PFT)-?v?[\d.]*", re.IGNORECASE),
    "ETMv4": re.compile(r"ETM-?v?4(\.\d+)?", re.IGNORECASE),
    "ETE": re.compile(r"ETE[\d.]*", re.IGNORECASE),
    "STM": re.compile(r"STM[-\w.]*", re.IGNORECASE),
    "ITM": re.compile(r"ITM[-\w.]*", re.IGNORECASE),
}
"""The protocols, by the types that a device file gives to their sources."""
_ID_REGISTERS = (
    ("ETMTRACEIDR", 0),
    ("TRCTRACEIDR", 0),
    ("STMTCSR", 16),
    ("ITM_CTRL", 16),
    ("ITM_TCR", 16),
    ("ITMTCR", 16),
)
"""The registers that have the trace ID, each with the number of its lowest bit."""


class Style(Enum):
    """The form of a buffer."""

    FRAMES = "coresight"
    """Frames of 16 bytes, which several sources share."""
    PROBE = "dstream_coresight"
    """The same with synchronisation packets in between, in blocks, as a DSTREAM unit stores them."""
    PORT = "tpiu"
    """Frames with synchronisation packets in between, or without, from any byte on."""
    ORBFLOW = "orbflow"
    """Messages of several sources in COBS frames."""
    RAW = "source_data"
    """The bytes of one source."""


@dataclass(frozen=True, slots=True)
class CapturedBuffer:
    """A trace buffer, its files and its form.

    ``skip``: the bytes before the first frame; ``starts``: the bytes at which frames begin anew after a loss. Both are
    of `Style.PORT`.
    """

    name: str
    paths: tuple[Path, ...]
    style: Style
    skip: int = 0
    starts: tuple[int, ...] = ()

    @property
    def formatted(self) -> bool:
        """Whether the buffer is in frames that several sources share."""
        return self.style is not Style.RAW


@dataclass(frozen=True, slots=True)
class Source:
    """A trace source. ``setting`` is None if it is not decoded; ``stream`` is its trace ID, None if that is unknown.

    ``protocol`` is the name of its protocol, or the type in its device file if that is no known one, or "" if no device
    file describes the source. ``session`` counts the earlier sources that have the same trace ID in other buffers.
    """

    name: str
    protocol: str
    stream: int | None
    buffer: CapturedBuffer
    core: str | None
    setting: Setting | None
    session: int = 0

    @property
    def words(self) -> str:
        """The source in words, with its trace ID where that is known."""
        name = self.name[:60]
        return name if self.stream is None else f"stream {self.stream:#x} of {name}"


@dataclass(frozen=True, slots=True)
class TraceSnapshot:
    """The contents of a snapshot folder."""

    path: Path
    sources: tuple[Source, ...]
    dumps: Mapping[str, tuple[tuple[int, Path, int, int | None], ...]]
    """The memory dumps by core: (address, file, offset, length)."""

    @classmethod
    def open(cls, path: Path) -> TraceSnapshot:
        """Read the folder, given by its path or by that of its ``snapshot.ini``. Raises HeadwayError."""
        if path.name == "snapshot.ini":
            path = path.parent
        if not path.is_dir():
            what = "is not there" if not path.exists() else "is no snapshot folder"
            raise HeadwayError(f"{str(path)!a} {what}: give a folder with a snapshot.ini")
        if not (path / "snapshot.ini").exists():
            raise HeadwayError(f"{str(path)!a} is no snapshot folder, it has no snapshot.ini: give one that has")
        top = _Ini(path, "snapshot.ini")
        files = list(top.section("device_list").values())
        if len(files) > _MAX_DEVICES:
            raise HeadwayError(f"{top.words} lists {len(files)} devices: {_MAX_DEVICES} are the most")
        devices = {}
        for file in files:
            device = _Ini(path, file)
            devices[device.value("device", "name")] = device
        trace = _Ini(path, top.value("trace", "metadata"))
        buffers = _buffers(path, trace)
        dumps = {name: _dumps(path, device) for name, device in devices.items() if device.kind == "core"}
        cores = {source: core for core, source in trace.pairs("core_trace_sources")}
        only = next(iter(dumps)) if len(dumps) == 1 else None
        sources, sessions = list[Source](), Counter[int]()
        for name, file in trace.section("source_buffers").items():
            if file not in buffers:
                raise HeadwayError(f"{trace.words} has no buffer {shown(file)}, into which {shown(name)} writes")
            buffer, core = buffers[file], cores.get(name, only)
            source = (
                _source(name, devices[name], buffer, core)
                if name in devices
                else Source(name, "", None, buffer, core, None)
            )
            if source.stream is not None:
                if any(one.stream == source.stream and one.buffer == buffer for one in sources):
                    raise HeadwayError(
                        f"two sources of {str(path)!a} have the trace ID {source.stream:#x}: give each its own"
                    )
                stream = source.stream
                source = replace(source, session=sessions[stream])
                sessions[stream] += 1
            sources.append(source)
        return cls(path, tuple(sources), dumps)

    def absent(self, core: str | None) -> list[str]:
        """Return the names of the core's memory dumps that are not there."""
        return sorted({path.name for _, path, _, _ in self.dumps.get(core or "", ()) if not os.path.exists(path)})

    def image(self, core: str | None) -> TracedImage:
        """Return the dumped memory of a core, without dumps that are not there. Raises HeadwayError."""
        image = TracedImage()
        for address, path, offset, length in self.dumps.get(core or "", ()):
            if not os.path.exists(path):
                continue
            data = read_file(path, "a memory dump", _MAX_DUMP)
            data = data[offset:] if length is None else data[offset : offset + length]
            if not data:
                raise HeadwayError(f"{str(path)!a} has nothing at its byte {offset}: the dump is empty or cut off")
            if address + len(data) >= 1 << 64:
                raise HeadwayError(f"{str(path)!a} goes beyond 64 bits at {address:#x}: export the snapshot again")
            if offset == 0 and length is None:
                image.add_dump(address, data, ascii(str(path)))
            else:
                image.add(address, data)
        return image


class _Ini:
    """One INI file of the snapshot."""

    def __init__(self, folder: Path, name: str) -> None:
        path = _inside(folder, name)
        self.words = ascii(str(path))
        data = read_file(path, "a file of a snapshot", _MAX_INI)
        parser = configparser.ConfigParser(interpolation=None, strict=False, default_section="\0", delimiters=("=",))
        parser.optionxform = str  # type: ignore[assignment,method-assign]
        self._lines = list[str]()
        try:
            text = data.decode("utf-8-sig")
            parser.read_string(text)
            self._lines = text.splitlines()
        except (configparser.Error, ValueError) as error:
            line = getattr(error, "lineno", None)
            where = f" (line {line})" if line else ""
            raise HeadwayError(f"{self.words} is no INI file{where}: export the snapshot again") from None
        self._parser = parser
        self._checked: dict[str, Mapping[str, str]] = {}

    @property
    def sections(self) -> list[str]:
        return self._parser.sections()

    @property
    def kind(self) -> str:
        return self.value("device", "class").lower()

    def section(self, name: str, *, needed: bool = True) -> Mapping[str, str]:
        if name in self._checked:
            return self._checked[name]
        if not self._parser.has_section(name):
            if needed:
                raise HeadwayError(f"{self.words} has no section {_quoted(name)}: export the snapshot again")
            return {}
        found = {key: (value or "").strip() for key, value in self._parser.items(name)}
        for key, value in found.items():
            if not (key + value).isprintable() or len(key) > _LONGEST_NAME or len(value) > _LONGEST_VALUE:
                raise HeadwayError(
                    f"{self.words} has {shown(value)} as {shown(key)} in {_quoted(name)}: export the snapshot again"
                )
        self._checked[name] = found
        return found

    def pairs(self, name: str) -> Iterator[tuple[str, str]]:
        """Yield each (key, value) of a section, where keys may be repeated."""
        self.section(name, needed=False)  # check them
        within = False
        for line in self._lines:
            line = line.strip()
            if line.startswith("["):
                within = line == f"[{name}]"
            elif within and "=" in line and not line.startswith((";", "#")):
                key, _, value = line.partition("=")
                yield key.strip(), value.strip()

    def value(self, section: str, key: str) -> str:
        for found, value in self.section(section).items():
            if found.lower() == key.lower() and value:
                return value
        raise HeadwayError(f"{self.words} has no {key} in {_quoted(section)}: export the snapshot again")

    def number(self, section: str, key: str, default: int | None = None, *, bits: int = 32) -> int:
        """Return a number of so many bits. The key of a register may be followed by its number in brackets."""
        for found, value in self.section(section).items():
            if found.partition("(")[0].strip().lower() == key.lower():
                try:
                    number = int(value, 0)
                except ValueError:
                    number = -1
                if not 0 <= number < 1 << bits:
                    raise HeadwayError(
                        f"{self.words} has {ascii(value)[:40]} as {key} in {_quoted(section)}: "
                        f"give a number of {bits} bits"
                    )
                return number
        if default is None:
            raise HeadwayError(
                f"{self.words} has no {key} in {_quoted(section)}, without which the trace cannot be read"
            )
        return default


def _inside(folder: Path, name: str) -> Path:
    """Return the path of a file inside the folder. Raises HeadwayError for a file outside it."""
    path = Path(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or "\0" in name or not 0 < len(name) <= _LONGEST_NAME:
        raise HeadwayError(
            f"the snapshot {str(folder)!a} names a file outside its folder, or one that cannot be there "
            f"({ascii(name)[:60]}): export it again"
        )
    return folder / path


def _buffers(folder: Path, trace: _Ini) -> dict[str, CapturedBuffer]:
    buffers = {}
    for section in filter(None, map(str.strip, trace.value("trace_buffers", "buffers").split(","))):
        name = trace.value(section, "name")
        style = trace.value(section, "format").lower()
        if style not in {known.value for known in Style}:
            known = ", ".join(known.value for known in Style)
            raise HeadwayError(f"{trace.words} has a buffer of the format {shown(style)}: the known ones are {known}")
        paths = tuple(_inside(folder, file.strip()) for file in trace.value(section, "file").split(","))
        buffers[name] = CapturedBuffer(name, paths, Style(style))
    return buffers


def _source(name: str, device: _Ini, buffer: CapturedBuffer, core: str | None) -> Source:
    kind = device.value("device", "type")
    protocol = next((protocol for protocol, types in _PROTOCOLS.items() if types.fullmatch(kind)), kind)
    if protocol in ("ETMv3", "PTM"):
        registers = [device.number("regs", key) for key in ("ETMCR", "ETMIDR", "ETMCCER")]
        stream = device.number("regs", "ETMTRACEIDR") & 0x7F
        setting: type[etmv3.Setting | ptm.Setting] = etmv3.Setting if protocol == "ETMv3" else ptm.Setting
        return Source(name, protocol, stream, buffer, core, setting.from_registers(*registers))
    if protocol in ("ETMv4", "ETE"):
        trcconfigr, *identities = (
            device.number("regs", key) for key in ("TRCCONFIGR", "TRCIDR0", "TRCIDR1", "TRCIDR2")
        )
        stream = device.number("regs", "TRCTRACEIDR") & 0x7F
        if trcconfigr >> 1 & 3:
            return Source(name, f"{protocol} with loads and stores to commit", stream, buffer, core, None)
        architecture = device.number("regs", "TRCDEVARCH", 0x47705A13) if protocol == "ETE" else None
        found = etmv4.Setting.from_registers(
            trcconfigr, identities[0], identities[1], identities[2], device.number("regs", "TRCIDR8", 0), architecture
        )
        return Source(name, protocol, stream, buffer, core, found)
    found_id = _trace_id(device)
    if protocol == "ITM":
        if found_id is None and buffer.formatted:
            return Source(name, "ITM without a trace ID", None, buffer, core, None)
        return Source(name, protocol, found_id or 0, buffer, core, itm.Setting())
    return Source(name, protocol, found_id, buffer, core, None)


def _trace_id(device: _Ini) -> int | None:
    """Return the trace ID that the registers of a source show, or None."""
    if "regs" in device.sections:
        for register, bit in _ID_REGISTERS:
            value = device.number("regs", register, -1)
            if value >= 0:
                return value >> bit & 0x7F
    return None


def _dumps(folder: Path, device: _Ini) -> tuple[tuple[int, Path, int, int | None], ...]:
    found = []
    for section in device.sections:
        if section.startswith("dump"):
            length = device.number(section, "length", 0)
            place = device.number(section, "address", bits=64), _inside(folder, device.value(section, "file"))
            found.append((*place, device.number(section, "offset", 0), length or None))
    return tuple(found)


def _quoted(section: str) -> str:
    """Return a section's header as it is in the file, on one line whatever characters its name has."""
    return f"[{ascii(section)[1:-1][:60]}]"
