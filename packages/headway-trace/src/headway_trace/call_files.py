"""Call stacks and coverage as files that other programs read: folded stacks, callgrind, lcov."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from .calls import Calls, Node, Place

__all__ = ["WRITERS", "callgrind", "folded", "lcov"]

_MOST_CODE = 1 << 22
"""Bytes of functions whose lines are looked up though nothing of them was executed."""


def folded(calls: Calls) -> Iterator[str]:
    """Yield folded stacks: ``thread;function;function number``, of flamegraph.pl, speedscope and others.

    The number is of cycles, or of instructions where no cycles are counted.
    """
    counted = any(node.cycles for tree in calls.trees.values() for _, node in tree.stacks())
    for thread, tree in calls.trees.items():
        for stack, node in tree.stacks():
            weight = node.cycles if counted else node.instructions
            if weight:
                yield ";".join(_folded(name) for name in (thread, *stack)) + f" {weight}\n"


def callgrind(calls: Calls) -> Iterator[str]:
    """Yield a profile in the format of callgrind, for kcachegrind: instructions and cycles of functions and calls."""
    yield "# callgrind format\nversion: 1\ncreator: headway\npositions: line\nevents: Instructions Cycles\n"
    for thread, tree in calls.trees.items():
        own: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        called: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
        for node, (instructions, cycles) in _inclusive(tree):
            total = own[node.function]
            total[0] += node.instructions
            total[1] += node.cycles
            if node.parent is not None and node.parent.parent is not None:
                edge = called[node.parent.function, node.function]
                edge[0] += node.calls
                edge[1] += instructions
                edge[2] += cycles
        yield f"\nob={_line(thread)}\n"
        for function, (instructions, cycles) in own.items():
            yield f"\nfn={_line(function)}\n0 {instructions} {cycles}\n"
            for (caller, callee), (count, inside, time) in called.items():
                if caller == function:
                    yield f"cfn={_line(callee)}\ncalls={count} 0\n0 {inside} {time}\n"


def _inclusive(tree: Node) -> Iterator[tuple[Node, tuple[int, int]]]:
    """Yield each function of a tree with the instructions and cycles of it and of all that it called."""
    nodes = [node for _, node in tree.stacks()]
    sums: dict[int, list[int]] = {id(node): [node.instructions, node.cycles] for node in nodes}
    for node in reversed(_outermost_first(tree)):
        if node.parent is not None and node.parent is not tree:
            above, mine = sums[id(node.parent)], sums[id(node)]
            above[0] += mine[0]
            above[1] += mine[1]
    for node in nodes:
        yield node, (sums[id(node)][0], sums[id(node)][1])


def _outermost_first(tree: Node) -> list[Node]:
    found, at = list(tree.children.values()), 0
    while at < len(found):
        found += found[at].children.values()
        at += 1
    return found


def lcov(calls: Calls) -> Iterator[str]:
    """Yield coverage in the format of lcov: executed lines, and for each conditional branch how often it was taken.

    A line counts as often as the instruction of it that was executed most often. Lines of functions that were not
    executed are there if the program's functions are known.
    """
    files: dict[str, dict[int, int]] = defaultdict(dict)
    branches: dict[str, list[tuple[int, int, int, int]]] = defaultdict(list)
    functions: dict[str, dict[str, tuple[int, int]]] = defaultdict(dict)
    for code, places in calls.places().items():
        size = sum(end - start for start, end, _ in code.functions)
        for start, end, name in code.functions if size <= _MOST_CODE else ():
            file, line = _source(code.line(start))
            if file:
                functions[file].setdefault(name, (line, 0))
            for address in range(start, end, 2):
                file, line = _source(code.line(address))
                if file:
                    files[file].setdefault(line, 0)
        for number, place in enumerate(places):
            _cover(number, place, files, branches, functions)
    for file in sorted(files):
        yield f"TN:\nSF:{_line(file)}\n"
        for name, (line, count) in sorted(functions[file].items()):
            yield f"FN:{line},{_line(name)}\nFNDA:{count},{_line(name)}\n"
        for line, number, taken, passed in sorted(branches[file]):
            yield f"BRDA:{line},{number},0,{taken}\nBRDA:{line},{number},1,{passed}\n"
        for line, count in sorted(files[file].items()):
            yield f"DA:{line},{count}\n"
        yield "end_of_record\n"


def _cover(
    number: int,
    place: Place,
    files: dict[str, dict[int, int]],
    branches: dict[str, list[tuple[int, int, int, int]]],
    functions: dict[str, dict[str, tuple[int, int]]],
) -> None:
    file, line = _source(place.code.line(place.address))
    if not file:
        return
    files[file][line] = max(files[file].get(line, 0), place.count)
    if place.taken or place.passed:
        branches[file].append((line, number, place.taken, place.passed))
    old = functions[file].get(place.function)
    if old is None or not old[1]:  # the first of its instructions that was executed
        functions[file][place.function] = (line if old is None else old[0], place.count)


def _source(text: str) -> tuple[str, int]:
    file, _, line = text.rpartition(":")
    return (file, int(line)) if line.isdigit() else ("", 0)


def _folded(name: str) -> str:
    return _line(name).replace(";", ":") or "?"


def _line(name: str) -> str:
    """Return a name on one line."""
    return "".join(one if one.isprintable() else "?" for one in name)


WRITERS = {"folded": folded, "callgrind": callgrind, "lcov": lcov}
"""What writes each format."""
