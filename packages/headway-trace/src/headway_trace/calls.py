"""Call stacks of an instruction trace, and how often each instruction, branch and function was executed.

A stack follows calls and returns: a call puts the function that it leads to upon the stack, a return takes away all
down to the call that it goes back to, and a jump into another function puts that in place of the innermost one. An
exception is a call of its handler. Where a trace begins, or goes on after a gap, the stack begins anew, with the
function that is executed there. So does it after a return that leads to no call on the stack (`Calls.misfits`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from .edges import name_of
from .walk import Code, Kind, Step, kind_of_instruction

__all__ = ["Calls", "Function", "Node", "Place"]

_DEEPEST = 1 << 12
"""Frames of a stack; a deeper one begins anew."""


@dataclass(slots=True, eq=False)
class Place:
    """An instruction: how often it was executed; of a branch also how often it was ``taken``, and how often not."""

    code: Code
    address: int
    end: int
    kind: Kind
    function: str
    count: int = 0
    taken: int = 0
    passed: int = 0


@dataclass(slots=True, eq=False)
class Node:
    """A function in a call tree: what it did itself there, and how often it was called."""

    function: str
    parent: Node | None = None
    calls: int = 0
    instructions: int = 0
    cycles: int = 0
    children: dict[str, Node] = field(default_factory=dict)

    def child(self, function: str) -> Node:
        """Return the node of a function that this one called."""
        found = self.children.get(function)
        if found is None:
            found = self.children[function] = Node(function, self)
        return found

    def stacks(self) -> Iterator[tuple[tuple[str, ...], Node]]:
        """Yield each node below this one, with the functions that lead to it, the outermost first."""
        waiting: list[tuple[tuple[str, ...], Node]] = [((name,), child) for name, child in self.children.items()]
        while waiting:
            stack, node = waiting.pop()
            yield stack, node
            waiting += [((*stack, name), child) for name, child in node.children.items()]


@dataclass(frozen=True, slots=True)
class Function:
    """What all calls of a function did, without those that it called."""

    calls: int
    instructions: int
    cycles: int


@dataclass(slots=True, eq=False)
class _Frame:
    back: int
    node: Node
    trap: bool


@dataclass(slots=True, eq=False)
class _Thread:
    root: Node
    node: Node
    before: Place | None = None
    trap: int | None = None
    frames: list[_Frame] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class _Running:
    thread: _Thread
    place: Place


class Calls:
    """The call trees of all threads of a trace, and the counts of its instructions."""

    def __init__(self) -> None:
        self.trees: dict[str, Node] = {}
        """The root of each thread's call tree; it is no function."""
        self.misfits = 0
        """Returns that lead to no call on their stack."""
        self.gaps = 0
        """How often a stack begins anew after something that is not known."""
        self._places: dict[int, dict[int, Place]] = {}
        self._codes: dict[int, Code] = {}
        self._threads: dict[str, _Thread] = {}
        self._running: dict[str, _Running] = {}

    @classmethod
    def of(cls, steps: Iterable[Step]) -> Calls:
        """Follow the steps of a trace."""
        found = cls()
        for step in steps:
            found.add(*step)
        return found

    def add(
        self, thread: str, code: Code | None, address: int = 0, size: int = 0, cycles: int = 0, processor: str = ""
    ) -> None:
        """Take the next step of a thread (`Step`)."""
        now = self._threads.get(thread)
        if now is None:
            root = self.trees[thread] = Node("")
            now = self._threads[thread] = _Thread(root, root)
        if code is None:
            self.gaps += now.before is not None
            now.before, now.trap = None, None
            now.frames.clear()
            return
        if not size:
            if address:
                # The flow has come so far; the instruction there is counted only if it is executed.
                place = Place(code, address, address, Kind.PLAIN, name_of(code, address))
                self._arrive(now, place, processor)
                now.before = place
            now.trap = address or (0 if now.before is None else now.before.end)
            return
        place = self._places.get(id(code), {}).get(address) or self._place(code, address, size)
        place.count += 1
        self._arrive(now, place, processor)
        now.before = place
        now.node.instructions += 1
        now.node.cycles += cycles

    def _arrive(self, now: _Thread, place: Place, processor: str) -> None:
        """Follow the flow of a thread to a place, on a processor."""
        before = now.before
        if processor:
            last = self._running.get(processor)
            if last is None:
                self._running[processor] = _Running(now, place)
            else:
                switched, led = last.thread is not now, last.place
                last.thread, last.place = now, place
                if switched and now.trap is None:
                    self._switch(now, led, place)
                    return
        if before is None or now.trap is not None or before.kind or before.function != place.function:
            self._move(now, before, place)

    def places(self) -> Mapping[Code, list[Place]]:
        """Return the instructions that were executed, of each program, by address."""
        return {
            self._codes[key]: sorted(places.values(), key=lambda one: one.address)
            for key, places in self._places.items()
        }

    def functions(self, thread: str) -> Mapping[str, Function]:
        """Return what each function did in a thread."""
        found: dict[str, Function] = {}
        for _, node in self.trees[thread].stacks():
            old = found.get(node.function, Function(0, 0, 0))
            found[node.function] = Function(
                old.calls + node.calls, old.instructions + node.instructions, old.cycles + node.cycles
            )
        return found

    def rows(self) -> list[tuple[str, str, int, int, int | None]]:
        """Return (thread, function, calls, instructions, cycles), the most first; cycles None: they are not counted."""
        found = [
            (thread, name, one.calls, one.instructions, one.cycles)
            for thread in self.trees
            for name, one in self.functions(thread).items()
        ]
        found.sort(key=lambda row: (-row[3], row[:2]))
        return list(found) if any(row[4] for row in found) else [(*row[:4], None) for row in found]

    def _place(self, code: Code, address: int, size: int) -> Place:
        self._codes[id(code)] = code
        place = Place(code, address, address + size, kind_of_instruction(code.text(address)), name_of(code, address))
        self._places.setdefault(id(code), {})[address] = place
        return place

    def _move(self, now: _Thread, before: Place | None, place: Place) -> None:
        """Follow the flow from an instruction to the next one of the thread, where it may leave the function."""
        if now.trap is not None:
            self._push(now, now.trap, place.function, trap=True)
            now.trap = None
        elif before is None:
            now.node = now.root.child(place.function)
        elif before.kind is Kind.RESUME:
            self._resume(now, place)
        else:
            self._step(now, before, place)

    def _switch(self, now: _Thread, before: Place, place: Place) -> None:
        """Let a thread go on after a switch: in what handles its innermost exception, or where that returns to.

        ``before`` is the last instruction of the processor, in the thread that it had before.
        """
        traps = [at for at, frame in enumerate(now.frames) if frame.trap]
        if before.kind is Kind.RESUME and traps:
            self._resume(now, place)
            return
        if any(place.address == frame.back for frame in now.frames):
            self._return(now, place)
            return
        kept = traps[-1] + 1 if traps else 0
        del now.frames[kept:]
        now.node = (now.frames[-1].node if now.frames else now.root).child(place.function)

    def _step(self, now: _Thread, before: Place, place: Place) -> None:
        jumped = before.end != place.address
        if before.kind is Kind.CONDITIONAL:
            before.taken += jumped
            before.passed += not jumped
        if before.kind is Kind.CALL and jumped:
            self._push(now, before.end, place.function)
        elif before.kind is Kind.RETURN and jumped:
            self._return(now, place)
        elif now.node.function != place.function:
            now.node = (now.node.parent or now.root).child(place.function)

    def _push(self, now: _Thread, back: int, function: str, *, trap: bool = False) -> None:
        if len(now.frames) >= _DEEPEST:
            now.frames.clear()
            now.node = now.root
            self.gaps += 1
        now.frames.append(_Frame(back, now.node, trap))
        now.node = now.node.child(function)
        now.node.calls += 1

    def _return(self, now: _Thread, place: Place) -> None:
        """Go back to the innermost call that a return leads to."""
        for at in range(len(now.frames) - 1, -1, -1):
            frame = now.frames[at]
            if place.address == frame.back:
                del now.frames[at:]
                self._back(now, frame, place)
                return
        self._lose(now, place)

    def _resume(self, now: _Thread, place: Place) -> None:
        """Go back to where the innermost exception was taken."""
        at = next((at for at in range(len(now.frames) - 1, -1, -1) if now.frames[at].trap), -1)
        if at < 0:
            self._lose(now, place)
            return
        frame = now.frames[at]
        del now.frames[at:]
        self._back(now, frame, place)

    def _back(self, now: _Thread, frame: _Frame, place: Place) -> None:
        now.node = frame.node
        if now.node.function != place.function:  # it was left by a jump in the meantime
            now.node = (now.node.parent or now.root).child(place.function)

    def _lose(self, now: _Thread, place: Place) -> None:
        """Begin the stack anew; where it had no frames, the trace did not see the call."""
        self.misfits += bool(now.frames)
        now.frames.clear()
        now.node = now.root.child(place.function)
