"""CoreSight snapshots: a folder with captured trace, memory dumps, and INI files that describe them.

``snapshot.ini`` names the files of the devices and ``trace.ini``. That file says which file holds which buffer, which
source writes into which buffer, and which core a source traces. Every file is untrusted: sizes are limited, names must
stay inside the folder, and anything missing or impossible is reported in one sentence.

Source: the snapshot format of Arm DS-5 as "CoreSight Access Library" writes it (docs/specs/ABI of OpenCSD).
"""

from __future__ import annotations

import configparser
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headway.errors import HeadwayError
from headway.files import read_file
from headway.values import shown

from .etmv3 import Setting
from .image import TracedImage

__all__ = ["CapturedBuffer", "Source", "TraceSnapshot"]

_MAX_INI = 1 << 20
_MAX_DUMP = 1 << 30
_MAX_DEVICES = 4096
_LONGEST_NAME, _LONGEST_VALUE = 255, 4096
_ETMV3 = re.compile(r"ETM-?v?3(\.\d+)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class CapturedBuffer:
    """A trace buffer and its files. ``formatted`` tells whether it is in frames that several sources share."""

    name: str
    paths: tuple[Path, ...]
    formatted: bool


@dataclass(frozen=True, slots=True)
class Source:
    """A trace source. ``setting`` is None if it is not ETMv3; ``stream`` is its trace ID, None if that is unknown."""

    name: str
    kind: str
    stream: int | None
    buffer: CapturedBuffer
    core: str | None
    setting: Setting | None


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
        cores = {source: core for core, source in trace.section("core_trace_sources", needed=False).items()}
        sources = []
        for name, buffer in trace.section("source_buffers").items():
            if name not in devices:
                raise HeadwayError(
                    f"{trace.words} has a source {shown(name)} that no device file describes: add it to device_list"
                )
            if buffer not in buffers:
                raise HeadwayError(f"{trace.words} has no buffer {shown(buffer)}, into which {shown(name)} writes")
            sources.append(_source(name, devices[name], buffers[buffer], cores.get(name)))
        dumps = {name: _dumps(path, device) for name, device in devices.items() if device.kind == "core"}
        return cls(path, tuple(sources), dumps)

    def image(self, core: str | None) -> TracedImage:
        """Return the dumped memory of a core. Raises HeadwayError."""
        image = TracedImage()
        for address, path, offset, length in self.dumps.get(core or "", ()):
            data = read_file(path, "a memory dump", _MAX_DUMP)
            data = data[offset:] if length is None else data[offset : offset + length]
            if not data:
                raise HeadwayError(f"{str(path)!a} has nothing at its byte {offset}: the dump is empty or cut off")
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
        try:
            parser.read_string(data.decode("utf-8-sig"))
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

    def value(self, section: str, key: str) -> str:
        for found, value in self.section(section).items():
            if found.lower() == key.lower() and value:
                return value
        raise HeadwayError(f"{self.words} has no {key} in {_quoted(section)}: export the snapshot again")

    def number(self, section: str, key: str, default: int | None = None) -> int:
        """Return a number of 32 bits. The key of a register may be followed by its number in brackets."""
        for found, value in self.section(section).items():
            if found.partition("(")[0].strip().lower() == key.lower():
                try:
                    number = int(value, 0)
                except ValueError:
                    number = -1
                if not 0 <= number < 1 << 32:
                    raise HeadwayError(
                        f"{self.words} has {ascii(value)[:40]} as {key} in {_quoted(section)}: give a number of 32 bits"
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
    for section in trace.value("trace_buffers", "buffers").split(","):
        section = section.strip()
        name = trace.value(section, "name")
        style = trace.value(section, "format").lower()
        if style not in ("coresight", "source_data"):
            raise HeadwayError(
                f"{trace.words} has a buffer of the format {shown(style)}: only coresight and source_data are known"
            )
        paths = tuple(_inside(folder, file.strip()) for file in trace.value(section, "file").split(","))
        buffers[name] = CapturedBuffer(name, paths, style == "coresight")
    return buffers


def _source(name: str, device: _Ini, buffer: CapturedBuffer, core: str | None) -> Source:
    kind = device.value("device", "type")
    if not _ETMV3.fullmatch(kind):
        stream = device.number("regs", "ETMTRACEIDR", -1) if "regs" in device.sections else -1
        return Source(name, kind, stream & 0x7F if stream >= 0 else None, buffer, core, None)
    registers = [device.number("regs", key) for key in ("ETMCR", "ETMIDR", "ETMCCER")]
    stream = device.number("regs", "ETMTRACEIDR") & 0x7F
    return Source(name, kind, stream, buffer, core, Setting.from_registers(*registers))


def _dumps(folder: Path, device: _Ini) -> tuple[tuple[int, Path, int, int | None], ...]:
    found = []
    for section in device.sections:
        if re.fullmatch(r"dump\d*", section):
            length = device.number(section, "length", 0)
            place = device.number(section, "address"), _inside(folder, device.value(section, "file"))
            found.append((*place, device.number(section, "offset", 0), length or None))
    return tuple(found)


def _quoted(section: str) -> str:
    """Return a section's header as it is in the file, on one line whatever characters its name has."""
    return f"[{ascii(section)[1:-1][:60]}]"
