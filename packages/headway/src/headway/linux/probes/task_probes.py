"""Tasks at static probes (USDT): from the user's words to places in files, and what the name of a task is made of.

``[NAME=]LIB:BEGIN..END`` is a task that begins at one probe of a program or library, and ends at another one. A bare
word is a ready-made set (tasks.toml). In NAME, ``{1}`` stands for the text of the first argument of the probe BEGIN.
Without END the task ends where one with another name begins, and an empty name is none.

The probe must be at an instruction that does nothing, as all of them are: a breakpoint anywhere else, as a damaged file
might have it, could harm the program.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from headway.binary.elf import ElfError, ElfFile
from headway.binary.usdt import Operand, UsdtProbe, operands_of, probes_of
from headway.dataclass import dataclass
from headway.errors import SelectionError
from headway.files import packaged
from headway.linux.regions.functions import Scope, similar

__all__ = ["MAX_ARGUMENTS", "MAX_PLACES", "ProbePlace", "Set", "TaskWords", "listed", "resolve", "sets"]

MAX_PLACES = 255
"""The largest number of places in files."""
MAX_ARGUMENTS = 4
"""The largest number of different arguments in the name of a task."""
_MAX_NAME = 63
"""The largest length of the name of a task in bytes, with one byte for each argument."""
_WORDS = re.compile(r"(?:(?P<name>.*?)=)?(?P<library>[^:=]+):(?P<begin>[^=]+?)(?:\.\.(?P<ends>[^=]+))?")
_WITHOUT = "has no static probes (USDT): it was built without them"
_ARGUMENT = re.compile(r"\{(\d{1,2})\}")
_NOTHING = re.compile(rb"\x90|\x66\x90|\x66?\x0f\x1f|\x1f\x20\x03\xd5", re.DOTALL)
"""The instructions under probes: ``nop`` of x86-64, short and long, and of arm64."""


@dataclass(frozen=True, slots=True)
class ProbePlace:
    """A place in a file where a task begins or ends."""

    path: str
    """The path by which this process can open the file."""
    offset: int
    """The offset of the probe's instruction in the file, in bytes."""
    semaphore: int
    """The offset of the probe's semaphore in the file; 0: it has none."""
    probe: str
    """Its name, for errors."""
    task: int
    """The place of its task among those that the user named, from 1 on."""
    begins: bool
    name: bytes = b""
    """The name of the task that begins: a byte of 1 to `MAX_ARGUMENTS` stands for the text of an argument."""
    arguments: tuple[Operand, ...] = ()
    """Where these arguments are: addresses of texts."""
    goes_on: bool = False
    """It has no end: where it begins anew with the same name, it goes on."""


@dataclass(frozen=True, slots=True)
class Set:
    """Ready-made tasks."""

    about: str
    tasks: tuple[str, ...]


@cache
def sets() -> Mapping[str, Set]:
    """Return the ready-made tasks by name, from tasks.toml in this package."""
    text = packaged(__package__, "tasks.toml").decode()
    return {name: Set(table["about"], tuple(table["tasks"])) for name, table in tomllib.loads(text).items()}


@dataclass(frozen=True, slots=True)
class TaskWords:
    """A task as the user wrote it."""

    library: str
    begin: str
    """``probe`` or ``provider:probe``."""
    ends: tuple[str, ...]
    template: bytes
    """As `ProbePlace.name`."""
    wanted: tuple[int, ...]
    """Which arguments of the probe the bytes stand for, from 1 on."""

    @staticmethod
    def parse(words: str) -> TaskWords:
        """Return what the words mean. Raises SelectionError."""
        found = _WORDS.fullmatch(words)
        if found is None:
            raise SelectionError(
                f"{words!r} is no task: write it like query=postgres:query__start..query__done, or one of "
                f"{', '.join(sets())}"
            )
        begin, *ends = (_spelt(word) for word in (found["begin"], *(found["ends"] or "").split(",")) if word)
        name = found["name"] or begin.rpartition(":")[2]
        wanted = tuple(dict.fromkeys(int(number) for number in _ARGUMENT.findall(name)))
        if len(wanted) > MAX_ARGUMENTS or not all(1 <= number <= 12 for number in wanted):
            raise SelectionError(f"{name!r}: a name has up to {MAX_ARGUMENTS} arguments, {{1}} to {{12}}")
        plain = _ARGUMENT.sub(lambda argument: chr(1 + wanted.index(int(argument[1]))), name)
        template = plain.encode(errors="surrogateescape")
        if len(template) > _MAX_NAME or any(byte < 0x20 and not 1 <= byte <= len(wanted) for byte in template):
            raise SelectionError(f"{name!r} is no name of a task: up to {_MAX_NAME} bytes that can be printed")
        return TaskWords(found["library"], begin, tuple(ends), template, wanted)


def _spelt(word: str) -> str:
    """Return a probe's name as the file has it: documents write ``query-start`` for ``query__start``."""
    return word.strip().replace("-", "__")


def resolve(
    tasks: Sequence[str],
    pids: Sequence[int] = (),
    command: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> tuple[ProbePlace, ...]:
    """Return the places where tasks begin and end, each place once for each task.

    The files are those of `functions.resolve`. Raises SelectionError with one sentence if words, a library or a probe
    are wrong.
    """
    scope = Scope.of(pids, command, environment)
    found: list[ProbePlace] = []
    for number, words in enumerate(tasks, 1):
        try:
            found += _places_of_set(words, scope, number) if words in sets() else _places(words, scope, number)
        except (ElfError, SelectionError) as error:
            raise SelectionError(f"--task: {error}") from None
    if len(found) > MAX_PLACES:
        raise SelectionError(
            f"--task: {len(found)} places would be probed, {MAX_PLACES} are possible: choose fewer tasks"
        )
    return tuple(found)


def _places_of_set(name: str, scope: Scope, number: int) -> list[ProbePlace]:
    """Return the places of the first task of a set whose library is there and has its probes."""
    first: Exception | None = None
    for words in sets()[name].tasks:
        try:
            return list(_places(words, scope, number))
        except (ElfError, SelectionError) as error:
            first = first or error
    raise SelectionError(f"{name}: {first}")


def _places(words: str, scope: Scope, number: int) -> Iterator[ProbePlace]:
    task = TaskWords.parse(words)
    for file in scope.named(task.library):
        with file.image() as image:
            known = probes_of(image)
            for probe in _named(image, known, task.begin):
                yield _place(image, probe, number, task)
            for end in task.ends:
                for probe in _named(image, known, end):
                    yield _place(image, probe, number, None)


def _named(image: ElfFile, known: Sequence[UsdtProbe], wanted: str) -> list[UsdtProbe]:
    """Return the places of a probe in a file. Raises SelectionError if there are none."""
    found = [probe for probe in known if wanted in (probe.name, probe.shown)]
    if found:
        return found
    names = {probe.name for probe in known}
    if not names:
        raise SelectionError(f"{image.shown} {_WITHOUT}")
    hint = similar(wanted, names) or f"it has {', '.join(sorted(names)[:8])}{' …' * (len(names) > 8)}"
    raise SelectionError(f"{image.shown} has no probe {wanted!r}: {hint}")


def _place(image: ElfFile, probe: UsdtProbe, number: int, begins: TaskWords | None) -> ProbePlace:
    offset = image.file_offset(probe.address)
    code = image.contents(probe.address, 4) if offset is not None else b""
    if offset is None or not _NOTHING.match(code):
        raise SelectionError(f"{probe.shown} of {image.shown} is at no instruction for probes: its notes are wrong")
    semaphore = _semaphore(image, probe)
    if begins is None:
        return ProbePlace(image.path, offset, semaphore, probe.shown, number, False)
    arguments = operands_of(probe.arguments)
    texts = []
    for wanted in begins.wanted:
        if wanted > len(arguments):
            raise SelectionError(f"{probe.shown} of {image.shown} has {len(arguments)} arguments, and no {{{wanted}}}")
        operand = arguments[wanted - 1]
        if operand is None or abs(operand.size) != 8:
            raise SelectionError(
                f"argument {wanted} of {probe.shown} is no text, or not where headway can read it: it is written "
                f"{probe.arguments!a}"
            )
        texts.append(operand)
    return ProbePlace(
        image.path, offset, semaphore, probe.shown, number, True, begins.template, tuple(texts), not begins.ends
    )


def _semaphore(image: ElfFile, probe: UsdtProbe) -> int:
    """Return the offset of a probe's semaphore in the file; 0: it has none."""
    if not probe.semaphore:
        return 0
    start, contents = image.section(".probes", 1 << 20)
    offset = image.data_offset(probe.semaphore)
    if offset is None or not start <= probe.semaphore <= start + len(contents) - 2:
        raise SelectionError(f"{probe.shown} of {image.shown} has no place for its semaphore: its notes are wrong")
    return offset


def listed(library: str) -> Iterator[str]:
    """Yield a line for each probe of a program or library, which is named as in a task: ``provider:name``, arguments.

    Raises ElfError, SelectionError.
    """
    for file in Scope.of((), (), None).named(library):
        with file.image() as image:
            known = {f"{probe.shown} {probe.arguments}".strip() for probe in probes_of(image)}
        if not known:
            raise SelectionError(f"{file.shown} {_WITHOUT}")
        yield from sorted(known)
