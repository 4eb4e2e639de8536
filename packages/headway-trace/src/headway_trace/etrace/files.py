"""Files of E-Trace: a trace file of the machine (``.hwt``), or a TOML file that describes streams of any encoder.

Such a TOML file has a table ``etrace`` with the encoder's parameters, and with ``streams``, the names of files beside
it that hold encapsulated packets. ``program`` may name an ELF file. Files are untrusted.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from headway.errors import HeadwayError
from headway.files import open_file, read_file
from headway.values import shown
from headway_trace.threads.container import FileDamage, TraceFile

from .parameters import EtraceParameters

__all__ = ["DESCRIPTION", "EtraceFile"]

DESCRIPTION = ".toml"
"""How the name of a description of streams ends."""
_MAX_DESCRIPTION = 1 << 16
_MAX_STREAMS = 256
_PIECE = 1 << 18


@dataclass(frozen=True, slots=True)
class EtraceFile:
    """The parameters and the streams of a trace. ``name``: the program, or what it is called."""

    parameters: EtraceParameters
    streams: tuple[Callable[[int], Iterator[bytes]], ...]
    """What gives the bytes of each from a byte on."""
    name: str
    digest: str = ""
    """Of the program, as `headway_trace.threads.container.digest_of` makes it; empty if the trace has none."""
    images: tuple[str, ...] = ()
    """The programs that the description names."""
    remarks: tuple[str, ...] = ()
    """What is to be said of the file before any answer, in one line each."""
    damage: FileDamage = field(default_factory=FileDamage)

    @classmethod
    def of_machine(cls, recording: TraceFile) -> EtraceFile:
        """Take a trace of the machine with packets of E-Trace. Raises HeadwayError if its parameters are impossible."""
        shape = recording.shape
        streams = tuple(partial(recording.pieces, core) for core in range(shape.cores) if recording.sizes[core])
        parameters = EtraceParameters.of(recording.etrace or {})
        return cls(parameters, streams, shape.name, shape.program, (), recording.remarks, recording.damage)

    @classmethod
    def described(cls, path: str) -> EtraceFile:
        """Read a description. Raises HeadwayError if it is none."""
        data = read_file(Path(path), "a description of E-Trace streams", _MAX_DESCRIPTION)
        try:
            found = tomllib.loads(data.decode()).get("etrace")
        except (ValueError, RecursionError) as error:
            raise HeadwayError(f"{path!a} is no TOML ({str(error)[:80]}): correct it") from None
        if not isinstance(found, dict):
            raise HeadwayError(f"{path!a} has no table [etrace]: give one with streams and the encoder's parameters")
        names, program = found.pop("streams", None), found.pop("program", "")
        if not isinstance(names, list) or not names or not all(isinstance(name, str) and name for name in names):
            raise HeadwayError(f"{path!a}: etrace.streams is {shown(names)}: give a list of files of packets")
        if len(names) > _MAX_STREAMS:
            raise HeadwayError(f"{path!a}: etrace.streams has {len(names)} files: give at most {_MAX_STREAMS}")
        if not isinstance(program, str):
            raise HeadwayError(f"{path!a}: etrace.program is {shown(program)}: give the name of an ELF file")
        try:
            parameters = EtraceParameters.of(found)
        except HeadwayError as error:
            raise HeadwayError(f"{path!a}: etrace.{error}") from None
        folder = os.path.dirname(path)
        streams = tuple(partial(_pieces, os.path.join(folder, name)) for name in names)
        images = (os.path.join(folder, program),) if program else ()
        return cls(parameters, streams, program or "the program", "", images)


def _pieces(path: str, start: int) -> Iterator[bytes]:
    with open_file(path, "a stream of E-Trace") as stream:
        while True:
            try:
                if start:
                    stream.seek(start)
                    start = 0
                piece = stream.read(_PIECE)
            except OSError as error:
                raise HeadwayError(f"{path!a} cannot be read ({error.strerror})") from None
            if not piece:
                return
            yield piece
