"""The undo journal: every change is on disk before it is made, so that it can be taken back whatever happens.

There is one file for each plan: all its steps, and how many have been begun. Before each step the file is replaced,
never overwritten. So an undo after a kill, at any moment, finds every step that may have changed something. A plan that
fails is taken back at once. The folder is locked while something is changed or taken back.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from headway.dataclass import dataclass
from headway.errors import HeadwayError

from .changes import Change
from .controls import Controls
from .documents import change_of, document_of
from .weights import Undoable

__all__ = ["Journal", "journal_folder"]

_SCHEMA = "headway.undo/1"
_ID = re.compile(r"[0-9a-z-]{1,40}", re.ASCII)
_LARGEST = 64 << 20


def journal_folder() -> Path:
    """Return the folder of the journals. Changes last until the next boot, and so does /run."""
    if os.geteuid() == 0:
        return Path("/run/headway")
    state = os.environ.get("XDG_STATE_HOME", "")
    return (Path(state) if os.path.isabs(state) else Path.home() / ".local/state") / "headway"


@dataclass(frozen=True, slots=True)
class _Record:
    id: str
    boot: str
    changes: tuple[Undoable, ...]
    begun: int


class Journal:
    """The journals of one folder, and the machine that they belong to.

    Args:
        folder: where the journals are
        controls: the machine's files
        patience: seconds to wait for another process that changes something
    """

    def __init__(self, folder: Path, controls: Controls, patience: float = 5.0) -> None:
        self._folder, self._controls, self._patience = folder, controls, patience

    def ids(self) -> list[str]:
        """Return the plans that can be taken back, oldest first."""
        try:
            found = [(os.stat(p).st_mtime_ns, p.stem) for p in self._folder.glob("*.json") if _ID.fullmatch(p.stem)]
        except OSError:
            return []
        return [name for _, name in sorted(found)]

    def apply(self, name: str, changes: Sequence[Change]) -> list[str]:
        """Make the changes in order. If one fails, take back those that were made.

        Return sentences on what came out otherwise than planned. Raises HeadwayError that says which one failed, why,
        and what was taken back.
        """
        notes: list[str] = []
        with self._alone():
            record = _Record(name, self._controls.boot(), tuple(changes), 0)
            for number, change in enumerate(changes):
                try:
                    record = replace(record, begun=number + 1)
                    self._write(record)
                    notes += change.do(self._controls)
                except BaseException as error:
                    after = self._roll_back(record)
                    if isinstance(error, HeadwayError | OSError):
                        why = error.strerror if isinstance(error, OSError) else str(error)
                        raise HeadwayError(f"cannot {change.words()}: {why}; {after}") from None
                    raise
        return notes

    def kept(self, name: str) -> tuple[Undoable, ...]:
        """Return what is to be taken back with a plan. Raises HeadwayError if its journal cannot be read."""
        return self._read(name).changes

    def keep(self, name: str, changes: Sequence[Undoable]) -> None:
        """Replace what is to be taken back with a plan, whose changes the caller makes itself, from now on.

        Raises HeadwayError if that cannot be kept: then nothing new may be changed.
        """
        with self._alone():
            self._write(_Record(name, self._controls.boot(), tuple(changes), len(changes)))

    def _roll_back(self, record: _Record) -> str:
        try:
            notes = self._take_back(record)
        except HeadwayError as error:
            return f"what was done before could not all be taken back ({error}): headway advise --undo {record.id}"
        return "; ".join(["what was done before is taken back", *notes])

    def undo(self, name: str) -> list[str]:
        """Take a plan back, the last step first. Return sentences on what had to be left as it is.

        Raises HeadwayError if a step cannot be taken back. The journal stays, and the undo can be tried again.
        """
        if not _ID.fullmatch(name):
            raise HeadwayError(f"{name!r:.60} is not the name of a plan: headway advise --undo lists them")
        with self._alone():
            return self._take_back(self._read(name))

    def _take_back(self, record: _Record) -> list[str]:
        notes: list[str] = []
        if record.boot == self._controls.boot():  # after a boot nothing of it is left
            for change in reversed(record.changes[: record.begun]):
                try:
                    notes += change.undo(self._controls)
                except OSError as error:
                    raise HeadwayError(f"cannot {change.back()}: {error.strerror}") from None
        else:
            notes.append("the machine has been booted since, which has undone everything")
        self._file(record.id).unlink(missing_ok=True)
        return notes

    def _file(self, name: str) -> Path:
        return self._folder / f"{name}.json"

    @contextmanager
    def _alone(self) -> Iterator[None]:
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            fd = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            raise HeadwayError(
                f"{self._folder} cannot be used ({error.strerror}): what is changed could not be taken back"
            ) from None
        try:
            owner = os.fstat(fd)
            if owner.st_uid != os.geteuid() or stat.S_IMODE(owner.st_mode) & 0o022:
                raise HeadwayError(f"{self._folder} can be written by others: remove it, or let only its owner write")
            self._lock(fd)
            yield
        finally:
            os.close(fd)

    def _lock(self, fd: int) -> None:
        """Wait for the turn of this journal. What another one changes takes milliseconds."""
        end = time.monotonic() + self._patience
        while True:
            try:
                return fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= end:
                    raise HeadwayError("another headway advise is changing things: try again when it is done") from None
                time.sleep(0.01)

    def _write(self, record: _Record) -> None:
        document = {
            "schema": _SCHEMA,
            "id": record.id,
            "boot": record.boot,
            "begun": record.begun,
            "changes": [document_of(change) for change in record.changes],
        }
        new = self._folder / f".{record.id}.new"
        try:
            with suppress(FileNotFoundError):
                new.unlink()
            fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            with open(fd, "w", encoding="ascii") as file:
                json.dump(document, file)
                file.flush()
                os.fsync(fd)
            os.rename(new, self._file(record.id))
            folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            raise HeadwayError(f"{new} cannot be written ({error.strerror})") from None

    def _read(self, name: str) -> _Record:
        file = self._file(name)
        try:
            fd = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            raise HeadwayError(f"there is no plan {name} to take back ({file} is not there)") from None
        except OSError as error:
            raise HeadwayError(f"{file} cannot be read ({error.strerror})") from None
        with open(fd, "rb") as stream:
            found = os.fstat(fd)
            if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o022:
                raise HeadwayError(f"{file} can be written by others, so it is not used")
            raw = stream.read(_LARGEST)
        try:
            document = json.loads(raw)
            if not isinstance(document, dict) or document.get("schema") != _SCHEMA:
                raise ValueError(f"its schema is not {_SCHEMA}")
            rows, begun, boot = document.get("changes"), document.get("begun"), document.get("boot")
            if not isinstance(rows, list) or not isinstance(boot, str):
                raise ValueError("it has no changes")
            if type(begun) is not int or not 0 <= begun <= len(rows):
                raise ValueError(f"begun is {begun!r:.40}")
            changes = tuple(change_of(row) for row in rows)
        except (ValueError, RecursionError) as error:
            raise HeadwayError(f"{file} is not an undo journal ({error}): its plan cannot be taken back") from None
        return _Record(name, boot, changes, begun)
