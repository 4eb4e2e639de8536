"""The recordings that a path names: one, a folder of several, a pattern, or a tree ``host=*/run=*/``.

Everything in a recording is checked before it is used, and no file outside its folder is opened: symbolic links in it
are not followed. pyarrow lists and reads a store that is not a local disk (``s3://…``).
"""

from __future__ import annotations

import glob
import os
import stat
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq

from headway.errors import HeadwayError
from headway.files import read_file
from headway.recording import format as form
from headway.recording.clock import Anchor
from headway.recording.document import MAX_BYTES, parse

__all__ = ["Catalogue", "RecordedRun", "end_of", "find", "rows_of", "sift"]

_DEPTH = 4
"""The number of folder levels below the named one in which recordings are searched."""
_MAX_RUNS = 10_000
_WHAT = "the folder of a recording (headway record -o NAME.hw)"


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """One recording: its name among the others, its window, its clock, and the files of its tables."""

    host: str
    run: str
    place: str
    """The path of its folder."""
    closed: bool
    start: int
    """The window's start, in its time unit."""
    begin: int
    """The time from which on every transition is there. It is later than the start if parts were dropped."""
    end: int | None
    """The window's end; None: the recording was not closed."""
    time_unit: str
    anchors: tuple[Anchor, ...]
    files: Mapping[str, Sequence[str]]
    """Table -> its parts in the order of their numbers."""
    local: bool = True
    command: Sequence[str] = ()
    """The command that was recorded, if one was."""
    program: str = ""
    """As of `headway.recording.document.Document`."""

    @property
    def words(self) -> str:
        """The folder's path, printable."""
        return ascii(self.place)


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The recordings that a path names."""

    runs: tuple[RecordedRun, ...]
    left_out: tuple[str, ...] = ()
    """What was not read and why, one clause each."""

    @property
    def cycles(self) -> bool:
        """Whether times are cycles of the machine."""
        return self.runs[0].time_unit == "cycles"


class _Store(Protocol):
    """The operations on a place where recordings are stored."""

    def folders(self, path: str) -> list[str]: ...

    def files(self, path: str) -> list[str]: ...

    def document(self, path: str) -> bytes | None: ...

    def match(self, pattern: str) -> list[str]: ...


def _forbidden(path: str) -> HeadwayError:
    return HeadwayError(f"{path!a} cannot be read (Permission denied): ask as a user who may read all of it")


class _Local:
    """Folders of this machine."""

    def _entries(self, path: str, wanted: Any) -> list[str]:
        try:
            with os.scandir(path) as entries:
                return sorted(entry.path for entry in entries if wanted(entry))
        except PermissionError:
            raise _forbidden(path) from None
        except OSError:
            return []

    def folders(self, path: str) -> list[str]:
        return self._entries(path, lambda entry: entry.is_dir(follow_symlinks=False))

    def files(self, path: str) -> list[str]:
        if os.path.islink(path):
            return []
        return self._entries(path, lambda entry: entry.is_file(follow_symlinks=False))

    def document(self, path: str) -> bytes | None:
        place = os.path.join(path, form.DOCUMENT)
        try:
            if not stat.S_ISREG(os.lstat(place).st_mode):
                return None
        except PermissionError:
            raise _forbidden(path) from None
        except (OSError, ValueError):
            return None
        return read_file(place, _WHAT, MAX_BYTES)

    def match(self, pattern: str) -> list[str]:
        pattern = os.path.abspath(pattern)
        if os.path.lexists(pattern):
            return [pattern]
        return sorted(path for path in glob.glob(pattern) if os.path.isdir(path))


class _Remote:
    """Folders of a remote store that pyarrow can open."""

    def __init__(self, url: str) -> None:
        self._scheme, _, rest = url.partition("://")
        plain = rest.split("*")[0].split("[")[0].split("?")[0].rpartition("/")[0] if glob.has_magic(rest) else rest
        try:
            self._files, self.root = pa.fs.FileSystem.from_uri(f"{self._scheme}://{plain}")
        except (pa.ArrowException, OSError, ValueError) as error:
            raise HeadwayError(f"{url!a} cannot be opened ({_reason(error)}): give {_WHAT}") from None

    def _entries(self, path: str, kind: Any) -> list[str]:
        try:
            found = self._files.get_file_info(pa.fs.FileSelector(path, allow_not_found=True))
        except (pa.ArrowException, OSError) as error:
            raise HeadwayError(f"{path!a} cannot be listed ({_reason(error)}): look at the store") from None
        return sorted(entry.path for entry in found if entry.type == kind)

    def folders(self, path: str) -> list[str]:
        return self._entries(path, pa.fs.FileType.Directory)

    def files(self, path: str) -> list[str]:
        return self._entries(path, pa.fs.FileType.File)

    def document(self, path: str) -> bytes | None:
        place = f"{path}/{form.DOCUMENT}"
        try:
            with self._files.open_input_stream(place) as stream:
                data: bytes = stream.read(MAX_BYTES + 1)
        except (pa.ArrowException, OSError):
            return None
        return data

    def match(self, pattern: str) -> list[str]:
        parts = pattern.partition("://")[2].strip("/").split("/")
        known = len(self.root.strip("/").split("/"))
        found = [self.root.rstrip("/")]
        for part in parts[known:]:
            found = [
                f
                for path in found
                for f in self.folders(path)
                if glob.fnmatch.fnmatchcase(f.rpartition("/")[2], part)  # type: ignore[attr-defined]
            ]
        return found


def find(path: str, tables: Sequence[str] | None = None) -> Catalogue:
    """Return the recordings that a path, a pattern or a URL names.

    Raises HeadwayError if there is none, if one is of a newer version, or if they have different time units.
    """
    remote = "://" in path
    store: _Store = _Remote(path) if remote else _Local()
    runs: list[RecordedRun] = []
    left_out: list[str] = []
    roots = store.match(path)
    for root in roots:
        for place in _places(store, root, _DEPTH):
            try:
                runs.append(_run(store, place, path, remote))
            except HeadwayError as error:
                if place == root:
                    raise
                left_out.append(str(error))
            if len(runs) > _MAX_RUNS:
                raise HeadwayError(f"{path!a} has more than {_MAX_RUNS} recordings: name fewer")
    if not runs:
        why = left_out[0] if left_out else _nothing(path, bool(roots), remote)
        raise HeadwayError(why)
    if len({run.time_unit for run in runs}) > 1:
        raise HeadwayError(f"{path!a} has recordings in ns and in cycles, which cannot be combined: name one kind")
    return Catalogue(tuple(_named(runs)), tuple(left_out))


def _nothing(path: str, there: bool, remote: bool) -> str:
    if not there and not remote and not glob.has_magic(path):
        return f"{path!a} is not there: give {_WHAT}"
    if not there:
        return f"nothing matches {path!a}: give {_WHAT}, or a pattern of such"
    if not remote and os.path.isfile(path):
        return f"{path!a} is a file, not a recording: give {_WHAT}"
    return f"{path!a} is not a recording and has none in it (there is no {form.DOCUMENT}): give {_WHAT}"


def _places(store: _Store, path: str, depth: int) -> Iterator[str]:
    """Yield the folders that contain a document. Folders below such a folder are not searched."""
    if store.document(path) is not None:
        yield path
    elif depth:
        for folder in store.folders(path):
            yield from _places(store, folder, depth - 1)


def _run(store: _Store, place: str, named: str, remote: bool) -> RecordedRun:
    document = parse(store.document(place) or b"", place)
    words = {key: value for key, _, value in (part.partition("=") for part in place.split("/"))}
    name = place.rstrip("/").rpartition("/")[2]
    window = document.ledger.window
    closed = document.closed
    files = {}
    for table in form.SCHEMAS:
        parts = {form.part_number(file.rpartition("/")[2]): file for file in store.files(f"{place}/{table}")}
        files[table] = tuple(file for number, file in sorted((n, f) for n, f in parts.items() if n is not None))
    scheme = named.partition("://")[0]
    if remote:
        files = {table: tuple(f"{scheme}://{file}" for file in of) for table, of in files.items()}
    begin = window.start if document.complete_from is None else document.complete_from
    if not closed and files["transitions"]:
        _cut(files)
        first, last = (_says(files["transitions"][at], not remote) for at in (0, -1))
        if last.get(form.LAST) == b"1":
            files["open"] = ()  # the recorder was killed after it had written everything
        if document.limited:
            begin = max(_number(first.get(form.FROM)) or begin, window.start)
    return RecordedRun(
        host=_text(urllib.parse.unquote(words["host"]) if words.get("host") else document.host),
        run=_text(urllib.parse.unquote(words["run"]) if words.get("run") else name.removesuffix(".hw")),
        place=place,
        closed=closed,
        start=window.start,
        begin=begin,
        end=window.end if closed else None,
        time_unit=document.ledger.time_unit,
        anchors=document.anchors,
        files=files,
        local=not remote,
        command=document.command or (),
        program=document.program,
    )


def _cut(files: dict[str, tuple[str, ...]]) -> None:
    """Remove from ``files`` what does not belong to a complete part: unfinished parts, and those left by a crash."""
    last = files["transitions"][-1].rpartition("/")[2]
    most = form.part_number(last) or 0
    for table in ("threads", "open", "losses"):
        files[table] = tuple(f for f in files[table] if (form.part_number(f.rpartition("/")[2]) or 0) <= most)


def _text(value: Any) -> str:
    """Return any value as a name that can be written as UTF-8."""
    return str(value or "unknown")[:255].encode(errors="backslashreplace").decode()


def _named(runs: Sequence[RecordedRun]) -> Iterator[RecordedRun]:
    """Make (host, run) unique for each recording, because (host, run, thread) identifies a thread."""
    seen: dict[tuple[str, str], int] = {}
    for run in sorted(runs, key=lambda run: (run.host, run.run, run.place)):
        key = run.host, run.run
        seen[key] = seen.get(key, 0) + 1
        yield replace(run, run=f"{run.run} ({seen[key]})") if seen[key] > 1 else run


def end_of(run: RecordedRun) -> int | None:
    """Return the end of what is known of the run: the window's end, or that of its last complete part.

    Returns None if it has no complete part.
    """
    if run.closed:
        return run.end
    for part in reversed(run.files["transitions"]):
        until = _number(_says(part, run.local).get(form.UNTIL))
        if until is not None:
            return until
    return None


def _says(part: str, local: bool) -> dict[bytes, bytes]:
    """Return the metadata of a part; empty if it cannot be read."""
    try:
        return dict(_metadata(part, local).metadata or {})
    except (pa.ArrowException, OSError, ValueError):
        return {}


def _number(value: bytes | None) -> int | None:
    return int(value) if value is not None and value.isdigit() and len(value) < 20 else None


def rows_of(run: RecordedRun) -> int:
    """Return an estimate of the number of transitions of the run: the rows of the middle part times the number of
    parts.
    """
    parts = run.files["transitions"]
    try:
        return _metadata(parts[len(parts) // 2], run.local).num_rows * len(parts) if parts else 0
    except (pa.ArrowException, OSError, ValueError):
        return 0


def _metadata(part: str, local: bool) -> pq.FileMetaData:
    if local:
        with open(part, "rb") as stream:
            return pq.read_metadata(stream)
    files, path = pa.fs.FileSystem.from_uri(part)
    return pq.read_metadata(path, filesystem=files)


def sift(run: RecordedRun) -> tuple[RecordedRun, tuple[str, ...]]:
    """Return the run without damaged parts, and why each was left out. Reads the footer of every part."""
    left_out = []
    files = {}
    for table, parts in run.files.items():
        good = []
        for part in parts:
            why = _fault(part, form.SCHEMAS[table], run.local)
            if why:
                left_out.append(f"{part!a} is left out: {why}")
            else:
                good.append(part)
        files[table] = tuple(good)
    return replace(run, files=files), tuple(left_out)


def _fault(part: str, wanted: pa.Schema, local: bool) -> str:
    """Return why a part cannot be read, or "" if nothing is wrong with it."""
    try:
        found = _metadata(part, local).schema.to_arrow_schema()
    except PermissionError as error:
        return f"it may not be read ({error.strerror})"
    except (pa.ArrowException, OSError, ValueError) as error:
        return f"it is damaged ({_reason(error)})"
    for field in wanted:
        at = found.get_field_index(field.name)
        if at < 0 and field.name in form.LATER and field.name not in found.names:
            continue
        if at < 0:
            return f"it has no column {field.name}"
        if not pa.types.is_map(field.type) and _plain(found.field(at).type) != _plain(field.type):
            return f"its column {field.name} is of another type"
    return ""


def _plain(kind: pa.DataType) -> str:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return "string" if pa.types.is_string(kind) or pa.types.is_large_string(kind) else str(kind)


def _reason(error: BaseException) -> str:
    return str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__
