"""From return addresses to frames with names, and whether a stack is complete.

The eBPF programs walk a user stack by call frame information, and say where it ends and why (`walked`). Elsewhere the
kernel walks it by frame pointers. A function that sets up no frame pointer leaves its caller's in place, so that walk
skips that caller, or ends early. Both are shown: a frame says where callers were skipped, and a stack that does not end
where threads begin gets a last frame that says so, and why.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Protocol

from headway.binary.kallsyms import KernelSymbols
from headway.binary.module import Module
from headway.binary.perf_map import PerfMap, read
from headway.linux.procfs.ids import ids_in
from headway.linux.procfs.living import with_memory
from headway.linux.procfs.status import status
from headway.model import Frame

from .modules import Modules, Space
from .python import CodeObject
from .walked import Walked, words_of

__all__ = ["Stacks", "frames_made_code"]

_STARTS = frozenset(
    {
        "_start",
        "__libc_start_main",
        "__libc_start_main_impl",
        "__libc_start_call_main",
        "start_thread",
        "clone",
        "clone3",
        "__clone",
        "__clone3",
        "thread_start",
        "_dl_start_user",
        "runtime.goexit",
        "runtime.goexit.abi0",
        "runtime.rt0_go",
        "runtime.rt0_go.abi0",
        "runtime.mstart",
        "runtime.mstart.abi0",
        "runtime.mcall",
        "runtime.systemstack",
        "runtime.systemstack.abi0",
    }
)
"""The functions in which threads begin: of the C libraries, and of Go."""
_C_LIBRARY = re.compile(r"(libc|ld|libpthread|ld-linux[^/]*|ld-musl[^/]*|libc\.musl[^/]*)(-[0-9.]+)?\.so(\.\d+)*")
_LAST = 3
"""The number of last frames among which the beginning is searched. What follows it may come from values that are not
frame pointers.
"""
_LEFT_IN = frozenset({"__schedule", "try_to_wake_up"})
"""The functions of the kernel in which a thread leaves its processor, or wakes another one."""
_SKIPPED = Frame("[skipped callers]", None, None, None, None, "none")
_RUNTIMES = (
    (re.compile(r"node(js)?|libnode\.so.*"), "Node.js", "start it with --perf-basic-prof"),
    (re.compile(r"libjvm\.so"), "Java", "--java-maps (jcmd PID Compiler.perfmap, 17 and later), or an agent"),
    (re.compile(r"libcoreclr\.so"), ".NET", "start it with DOTNET_PerfMapEnabled=1"),
    (re.compile(r"(lib)?python3.*"), "Python", "start it with -X perf (3.12 and later)"),
)
"""Files by which a runtime is recognised, its name, and how the code that it makes gets names."""
_ANY_RUNTIME = "a just-in-time compiler", "let it write /tmp/perf-PID.map"
_PYTHON = re.compile(r"py::(.+?):(.*)", re.DOTALL)

_FRAMED = re.compile(r"node(js)?|libnode\.so.*|libcoreclr\.so")
"""Runtimes whose compilers set up a frame pointer in all that they make: V8, and that of .NET."""

_EVALUATING = "_PyEval_EvalFrameDefault"
"""The function of the interpreter that executes frames of Python."""
_SHIMS = frozenset({"<shim>", "__init__"})
"""The files of code that the interpreter itself puts around that of the program (Python/specialize.c)."""


class PythonFrames(Protocol):
    """Knows the frames of Python by the numbers that stand for them."""

    def frame(self, word: int) -> tuple[CodeObject | None, int | None, bool]:
        """Return what a frame executes, the number of its instruction, and whether a run of frames ends with it."""
        ...


_Key = tuple[Space | None, tuple[int, ...], tuple[int, ...], bool, Walked | None]


class Stacks:
    """Stacks in the order in which they come, each once; `resolve` gives them names."""

    def __init__(self, modules: Modules, kernel: KernelSymbols | None = None) -> None:
        self.modules = modules
        self.kernel = kernel or KernelSymbols()
        self.python: PythonFrames | None = None
        """Knows frames of Python; None: they are not read."""
        self.notes: list[str] = []
        self._numbers: dict[_Key, int] = {}
        self._places: dict[tuple[Space | None, int], tuple[Module | None, int] | None] = {}
        self._frames: dict[Frame, int] = {}
        self._maps: dict[int, PerfMap | None] = {}
        self._users: dict[int, tuple[int, int | None]] = {}
        self._cut: dict[int, str] = {}
        self._skipped: dict[int, str] = {}
        self._made: dict[int, tuple[str, str]] = {}
        self._ended: dict[int, tuple[str, str]] = {}
        self._whole: set[int] = set()
        self._most = 0

    def __len__(self) -> int:
        """Return the number of stacks."""
        return len(self._numbers)

    def add(
        self,
        space: Space | None,
        user: Sequence[int],
        kernel: Sequence[int],
        *,
        most: int,
        left: bool = False,
        walked: Walked | None = None,
    ) -> int:
        """Return the number of a stack. Return addresses are innermost first; the kernel gives at most ``most``.

        ``space``: the process's; None: a kernel thread's. ``left``: the stack was taken when the thread left its
        processor or woke another one, so the innermost frames are the scheduler's and headway's. ``walked``: how far
        the user stack was walked by call frame information; None: the kernel walked it, by frame pointers. The modules
        are looked up now, while the process lives.
        """
        if walked is not None and walked.why == "no_code" and space is not None and space.at(walked.at) is not None:
            walked = replace(walked, why="no_mappings")  # it is known by now
        key = space, tuple(user), tuple(kernel), left, walked
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._numbers)
            for i, address in enumerate(user):
                place = space, address - (i > 0)
                if place not in self._places:
                    self._places[place] = space.at(place[1]) if space is not None else None
        self._most = most
        return number

    def places(self) -> list[tuple[Space, int] | None]:
        """Return for each stack where the user code was; None: it was in the kernel, or that is not known."""
        return [
            (space, user[0]) if space is not None and user and not kernel and not left else None
            for space, user, kernel, left, _ in self._numbers
        ]

    def know(self, pid: int) -> None:
        """Remember the owner of this process while it lives."""
        if pid not in self._users:
            with suppress(OSError, KeyError, ValueError, IndexError):
                said = status(f"/proc/{pid}")
                inner = ids_in(said)
                self._users[pid] = int(said["Uid"].split()[1]), inner[-1] if inner else None

    def resolve(self) -> tuple[tuple[tuple[int, ...], ...], tuple[Frame, ...]]:
        """Return all stacks as numbers of frames, innermost first, and the frames."""
        stacks: list[tuple[int, ...]] = []
        for number, (space, user, kernel, left, walked) in enumerate(self._numbers):
            frames = [self._kernel_frame(address - (i > 0)) for i, address in enumerate(kernel)]
            if left:
                frames = _behind_the_switch(frames)
            if walked is not None and space is not None:
                inside, why, module = self._walked_frames(number, space, user, walked), "", ""
            else:
                inside, why, module = self._user_frames(space, user)
            if space is not None and inside and inside[0].module is None:
                self._made[number] = _runtime(space)
            if why:
                inside.append(_reason(why))
                self._cut[number] = module
            if _SKIPPED in inside:
                self._skipped[number] = inside[inside.index(_SKIPPED) - 1].module or ""
            stacks.append(tuple(self._number(frame) for frame in [*frames, *inside]))
        return tuple(stacks), tuple(self._frames)

    def _number(self, frame: Frame) -> int:
        return self._frames.setdefault(frame, len(self._frames))

    def _kernel_frame(self, address: int) -> Frame:
        found = self.kernel.at(address)
        if found is None:
            return Frame(None, None, None, "[kernel]", None if self.kernel.hidden else address, "kernel")
        return Frame(found[0], None, None, found[1], address, "kernel")

    def _user_frames(self, space: Space | None, user: tuple[int, ...]) -> tuple[list[Frame], str, str]:
        """Return the frames, why they are incomplete, and the module at which the walk ended."""
        if space is None or not user:
            return [], "", ""
        frames: list[Frame] = []
        modules: list[Module | None] = []
        places: list[int] = []
        for i, address in enumerate(user):
            at = address - (i > 0)
            place = self._places.get((space, at))
            if place is None and i:
                break  # no frame pointer was followed: the walk ends where nothing is mapped
            module, inside = place if place is not None else (None, at)
            frames.append(self._frame(space, module, inside, at))
            modules.append(module)
            places.append(inside)
        whole = _is_whole(frames, modules)
        for i in reversed(range(1, len(frames))):
            called = modules[i - 1]
            if called is not None and called.sets_frame(places[i - 1]) is False:
                frames.insert(i, _SKIPPED)
        if len(user) >= self._most and len(modules) == len(user):
            return frames, f"[cut off: deeper than {self._most} frames]", ""
        if whole:
            return frames, "", ""
        last = modules[-1]
        name = last.name if last is not None else ""
        if last is not None and last.keeps_frame_pointers is False:
            return frames, f"[cut off: {name} keeps no frame pointers]", name
        return frames, "[cut off: no frame pointer]", name

    def _walked_frames(self, number: int, space: Space, user: tuple[int, ...], walked: Walked) -> list[Frame]:
        """Return the frames of a stack that the programs have walked, and one that says why it ends early."""
        frames: list[Frame] = []
        module: Module | None = None
        runs, rest = self._python_runs(walked)
        for i, address in enumerate(user):
            at = address - (i > 0)
            place = self._places.get((space, at))
            module, inside = place if place is not None else (None, at)
            if i in walked.runs and runs:
                frames += runs.pop(0)
                continue
            frame = self._frame(space, module, inside, at)
            if rest and not runs and frame.function == _EVALUATING:
                frames += rest if rest[0].kind == "python" else [frame, *rest]
                rest = []
                continue
            if frame.kind == "python" and walked.python:  # what a perf map says of a frame that is there already
                continue
            frames.append(frame)
            if i in walked.unsure and i + 1 < len(user) and not (module is not None and module.sets_frame(inside)):
                frames.append(_SKIPPED)
        if not walked.why or (frames and frames[-1].function in _STARTS):
            self._whole.add(number)
        else:
            name = module.name if module is not None else ""
            self._ended[number] = walked.why, name
            frames.append(_reason(words_of(walked.why, name)))
        for run in (*runs, rest):  # whose native frames are further up
            frames += run
        return frames

    def _python_runs(self, walked: Walked) -> tuple[list[list[Frame]], list[Frame]]:
        """Return the frames of Python, innermost first, of each native frame that executes some.

        The second is what is known of a last one of which not all is known, and why.
        """
        runs: list[list[Frame]] = []
        run: list[Frame] = []
        for word in walked.python if self.python is not None else ():
            assert self.python is not None
            code, instruction, ended = self.python.frame(word)
            if code is None or code.file not in _SHIMS:
                run.append(_python_frame(code, instruction))
            if ended:
                runs.append(run)
                run = []
        return runs, [*run, _reason(words_of(walked.why_python, ""))] if walked.why_python else run

    def _frame(self, space: Space, module: Module | None, inside: int, address: int) -> Frame:
        if module is None:
            return self._made_frame(space, address)
        function = module.function(inside)
        line = module.line(inside)
        file, number = line if line is not None else (None, None)
        return Frame(function, file, number, module.path, inside, "user")

    def _made_frame(self, space: Space, address: int) -> Frame:
        """Return the frame of code that no file holds: code of a just-in-time compiler."""
        if space.pid not in self._maps:
            uid, inner = self._users.get(space.pid, (0, None))
            self._maps[space.pid], problem = read(
                space.pid, uid, inner=inner, root=f"/proc/{with_memory(space.pid)}/root"
            )
            if problem:
                self.notes.append(f"{problem}: code made at run time has no names")
        known = self._maps[space.pid]
        found = known.at(address) if known is not None else None
        if found is None:
            return Frame(None, None, None, None, address, "user")
        name, start = found
        python = _PYTHON.fullmatch(name)
        if python is not None:
            return Frame(
                python.group(1), os.path.basename(python.group(2)) or None, None, python.group(2), start, "python"
            )
        return Frame(name, None, None, f"[perf-{space.pid}.map]", start, "user")

    def describe(self, weights: Counter[int]) -> list[str]:
        """Return sentences on the names and stacks that a reader must know. ``weights``: the time of each stack."""
        notes = [*dict.fromkeys(self.notes), *self._on_walks(weights)]
        advice = "build with -fno-omit-frame-pointer"
        for stacks, what, cure in (
            (self._cut, "are cut off because of missing frame pointers in", advice),
            (
                self._skipped,
                "lack a caller of functions without a frame pointer in",
                f"{advice} -mno-omit-leaf-frame-pointer",
            ),
        ):
            lost: Counter[str] = Counter()
            for number, module in stacks.items():
                lost[module.rpartition("/")[2]] += weights.get(number, 0)
            of, without = sum(weights.values()), sum(lost.values())
            if without * 100 >= of > 0:
                parts = ", ".join(
                    f"{name or 'code that is not known'} ({n / of:.0%})"
                    for name, n in lost.most_common(4)
                    if n * 100 >= of
                )
                notes.append(f"stacks of {without / of:.0%} of the time {what} {parts}: {cure}")
        notes += self._without_names(weights)
        if self.kernel.hidden and any(kernel for _, _, kernel, _, _ in self._numbers):
            notes.append("the kernel hides its symbols (kernel.kptr_restrict): its functions are not named")
        problems = self.modules.problems()
        notes += problems[:3]
        if len(problems) > 3:
            notes.append(f"and {len(problems) - 3} more files whose functions are not named")
        return notes

    def _on_walks(self, weights: Counter[int]) -> Iterator[str]:
        """Yield the share of the time whose user stacks are whole, and why others are not."""
        ended: Counter[str] = Counter()
        for number, reason in self._ended.items():
            ended[words_of(*reason)] += weights.get(number, 0)
        whole = sum(weights.get(number, 0) for number in self._whole)
        of = whole + sum(ended.values())
        if of <= 0:
            return
        why = "; ".join(f"{reason} {time / of:.1%}" for reason, time in ended.most_common(3) if time * 1000 >= of)
        yield f"user stacks are whole, to where their thread began, in {_share(whole, of)} of the time" + (
            f"; the others end in {why}" if why else ""
        )

    def _without_names(self, weights: Counter[int]) -> Iterator[str]:
        """Yield what gives names to the code that a just-in-time compiler has made, where much of the time is in it."""
        lost: Counter[tuple[str, str]] = Counter()
        for number, runtime in self._made.items():
            lost[runtime] += weights.get(number, 0)
        of = sum(weights.values())
        for (who, cure), time in lost.most_common(4):
            if time * 1000 >= of > 0:  # of all the time, and waits may be most of that
                share = f"{time / of:.0%}" if time * 100 >= of else "less than 1%"
                yield f"code that {who} made at run time has no names in {share} of the time: {cure}"


def _reason(why: str) -> Frame:
    return Frame(why, None, None, None, None, "none")


def _python_frame(code: CodeObject | None, instruction: int | None) -> Frame:
    """Return a frame of Python; None: what it executes is not known."""
    if code is None or (code.name is None and code.file is None):
        return Frame("[a function of Python that could not be read]", None, None, None, None, "python")
    file = os.path.basename(code.file) if code.file is not None else None
    return Frame(code.name, file, code.line(instruction), code.file, None, "python")


def _share(part: int, of: int) -> str:
    """Return a share in per cent; never 100 % of less than all."""
    return "100%" if part == of else f"{min(part / of, 0.999):.1%}"


def frames_made_code(space: Space) -> bool:
    """Return whether the code that a process makes at run time keeps frame pointers."""
    return any(map(_FRAMED.fullmatch, space.files()))


def _runtime(space: Space) -> tuple[str, str]:
    """Return the name of the runtime that makes code in a process, and how that gets names."""
    files = set(space.files())
    return next(
        ((who, cure) for name, who, cure in _RUNTIMES if any(map(name.fullmatch, files))),
        _ANY_RUNTIME,
    )


def _behind_the_switch(frames: list[Frame]) -> list[Frame]:
    for i, frame in enumerate(frames):
        if (frame.function or "").partition(".")[0] in _LEFT_IN:
            return frames[i + 1 :]
    return frames


def _is_whole(frames: list[Frame], modules: list[Module | None]) -> bool:
    if any(frame.function in _STARTS for frame in frames[-_LAST:]):
        return True
    # A C library without .symtab does not name its start functions: a call from there is the beginning.
    last = modules[-1]
    return (
        len(frames) > 1
        and last is not None
        and frames[-1].function is None
        and _C_LIBRARY.fullmatch(last.name) is not None
        and modules[-2] is not last
    )
