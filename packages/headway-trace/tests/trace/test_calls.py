"""Call stacks and coverage: what was called is the stack, and every instruction is counted once."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.machine.examples import EXAMPLES
from tests.running import headway

from headway_trace.call_files import callgrind, folded, lcov
from headway_trace.calls import Calls
from headway_trace.walk import Kind, Step, kind_of_instruction

SIZE = 0x100
"""Bytes of each function of the program that is made up."""
CALL, RETURN, BRANCH, RESUME = 0x10, 0x20, 0x30, 0x40
"""Where a function has these instructions, from its beginning on."""


class MadeUp:
    """Functions f0, f1 …, which have a call, a return, a branch and a return from an exception."""

    functions: Sequence[tuple[int, int, str]] = [(SIZE * at, SIZE * at + 8, f"f{at}") for at in range(1, 4)]

    def symbol(self, address: int) -> str:
        return f"f{address // SIZE}"

    def line(self, address: int) -> str:
        return f"a.c:{address // 4}"

    def text(self, address: int) -> str:
        return {CALL: "call rax", RETURN: "ret", BRANCH: "jne 0x10", RESUME: "iretq"}.get(address % SIZE, "nop")


CODE = MadeUp()
Tree = list["int | tuple[bool, int, Tree]"]
"""What a function does: a number of instructions, or a call (or an exception: true) of a function."""


def trees() -> st.SearchStrategy[Tree]:
    number = st.integers(1, 3)
    leaf: st.SearchStrategy[Tree] = st.lists(number, max_size=3)
    return st.recursive(
        leaf, lambda inner: st.lists(number | st.tuples(st.booleans(), number, inner), max_size=4), max_leaves=12
    )


def walked(function: int, tree: Tree, back: int = RETURN) -> list[Step]:
    """The steps of a call of a function, which ends with a return; of an exception, from that."""
    base = SIZE * function
    steps = [Step("t", CODE, base, 4, 2)]
    for one in tree:
        if isinstance(one, int):
            steps += [Step("t", CODE, base + 4 * at, 4, 2) for at in range(1, one + 1)]
            continue
        trap, called, inner = one
        steps.append(Step("t", CODE, base + 0x50, 0) if trap else Step("t", CODE, base + CALL, 4, 2))
        steps += walked(called, inner, RESUME if trap else RETURN)
        steps.append(Step("t", CODE, base + (0x50 if trap else CALL + 4), 4, 2))
    return [*steps, Step("t", CODE, base + back, 4, 2)]


def counted(steps: Sequence[Step]) -> Counter[tuple[str, ...]]:
    """How many instructions were executed with each stack, by a stack that is kept by hand."""
    truth, stack = Counter[tuple[str, ...]](), [CODE.symbol(steps[0].address)]
    for before, step in zip([None, *steps], steps, strict=False):
        if before is not None and before.size and before.address % SIZE in (RETURN, RESUME):
            stack.pop()
        if before is not None and (not before.size or before.address % SIZE == CALL):
            stack.append(CODE.symbol(step.address))
        truth[tuple(stack)] += step.size > 0
    return +truth


@given(trees())
def test_a_stack_is_what_was_called(tree: Tree) -> None:
    steps = walked(1, tree)
    calls = Calls.of(steps)
    assert (calls.misfits, calls.gaps) == (0, 0)
    found = {stack: node.instructions for stack, node in calls.trees["t"].stacks() if node.instructions}
    assert found == counted(steps)
    lines = dict(line.rsplit(" ", 1) for line in "".join(folded(calls)).splitlines())
    assert {tuple(stack.split(";")[1:]): int(number) // 2 for stack, number in lines.items()} == found
    whole = sum(step.size > 0 for step in steps)
    assert sum(function.instructions for function in calls.functions("t").values()) == whole
    calls_of_all = sum(function.calls for function in calls.functions("t").values())
    assert calls_of_all == sum(step.address % SIZE == CALL or not step.size for step in steps)


@given(trees(), trees())
def test_a_stack_begins_anew_after_a_gap_and_after_a_return_that_does_not_fit(first: Tree, second: Tree) -> None:
    lost = [Step("t", CODE, SIZE + CALL, 4, 2), *walked(2, first)[:-1]]
    again = walked(3, second)
    calls = Calls.of([*lost, Step("t", None), *again])
    assert (calls.misfits, calls.gaps) == (0, 1)
    expected = counted(again)
    assert calls.trees["t"].children["f3"].instructions == expected[("f3",)]
    misled = Calls.of([*lost, Step("t", CODE, SIZE * 2 + RETURN, 4), *[Step("t", CODE, SIZE * 3 + 0x60, 4)] * 2])
    assert misled.misfits == 1
    assert misled.trees["t"].children["f3"].instructions == 2


def test_threads_that_change_processors_keep_their_stacks() -> None:
    def steps(thread: str, processor: str, *addresses: int) -> list[Step]:
        return [Step(thread, CODE, address, 4, 1, processor) for address in addresses]

    handler = SIZE * 3
    calls = Calls.of([
        *steps("a", "0", SIZE, SIZE + CALL, SIZE * 2, SIZE * 2 + 4), Step("a", CODE, SIZE * 2 + 8, 0, 0, "0"),
        *steps("a", "0", handler, handler + RESUME),
        *steps("b", "0", SIZE, SIZE + 4),  # another thread goes on there
        *steps("a", "0", SIZE * 2 + 8, SIZE * 2 + RETURN, SIZE + CALL + 4),
    ])  # fmt: skip
    assert calls.misfits == 0
    assert {stack: node.instructions for stack, node in calls.trees["a"].stacks()} == {
        ("f1",): 3, ("f1", "f2"): 4, ("f1", "f2", "f3"): 2,
    }  # fmt: skip


def test_a_recursion_without_end_is_read_in_bounded_memory() -> None:
    calls = Calls.of([Step("t", CODE, SIZE + CALL, 4), Step("t", CODE, SIZE, 4)] * 10_000)
    assert calls.gaps == 2
    assert sum(node.instructions for _, node in calls.trees["t"].stacks()) == 20_000
    assert max(len(stack) for stack, _ in calls.trees["t"].stacks()) <= 4097


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        (Kind.CALL, "bl #0x10|blx r3|bleq #0x10|blr x8|call 0x10|callq *rax|jal 0x20|jal ra, 0x20"
            "|jalr a5|c.jalr a0|c.jal 4"),
        (Kind.RETURN, "ret|retq|bx lr|pop {r4, pc}|pop.w {r4, r5, pc}|c.jr ra|jr ra|mov pc, lr|ldm sp!, {r4, pc}"),
        (Kind.RESUME, "eret|iretq|mret|sret|subs pc, lr, #4|rfeia sp!|sysretq|ldm sp!, {r0, pc} ^"),
        (Kind.CONDITIONAL, "beq #0x10|b.ne #8|bls #4|blt #4|ble #4|bne.w #4"
            "|cbz r0, #4|cbnz w1, #8|tbz w0, #1, #8|bltu a0, a1, 8"
         "|beqz a0, 8|c.bnez a0, 4|je 0x10|jne 4|ja 4|jrcxz 4|loop 4"),
        (Kind.PLAIN, "b #0x10|b.w #4|br x1|bx r3|j 8|c.j 8|jr a5|c.jr a5|jmp 4|jmpq *rax"
            "|nop|add x0, x0, x1|jal zero, 8|bic r0, r1, r2"
         "|bfi r0, r1, #1, #2|pop {r4}|ldr x0, [x1]|jalr zero, 0(a0)|"),
    ],
)  # fmt: skip
def test_an_instruction_is_what_its_text_says(kind: Kind, texts: str) -> None:
    assert {text: kind_of_instruction(text) for text in texts.split("|")} == dict.fromkeys(texts.split("|"), kind)


def test_branches_and_lines_are_counted() -> None:
    at = SIZE + BRANCH
    steps = [Step("t", CODE, SIZE, 4), Step("t", CODE, at, 4), Step("t", CODE, at + 4, 4), Step("t", CODE, at, 4)]
    calls = Calls.of([*steps, Step("t", CODE, SIZE, 4), Step("t", CODE, at, 4), Step("t", None)])
    found = "".join(lcov(calls)).splitlines()
    assert found[:2] == ["TN:", "SF:a.c"]
    assert f"DA:{SIZE // 4},2" in found
    assert f"DA:{at // 4},3" in found
    assert f"DA:{SIZE // 2},0" in found, "of f2, which was not executed"
    assert [line.rpartition(",")[2] for line in found if line.startswith("BRDA")] == ["1", "1"]
    assert {"FNDA:2,f1", "FNDA:0,f2"} <= {*found}


# A real trace


def test_an_export_of_a_trace_has_every_instruction_once(tmp_path: Path) -> None:
    trace = EXAMPLES / "sleepers.hwt", "--image", "sleepers"
    made = {}
    for form in ("folded", "callgrind", "lcov"):
        done = headway("trace", "export", *trace, "--to", form, "-o", tmp_path / form)
        assert done.returncode == 0, done.stderr
        made[form] = (tmp_path / form).read_text()
    stacks = dict(line.rsplit(" ", 1) for line in made["folded"].splitlines())
    assert any(stack.startswith("thread 0x6;") and stack.endswith(";sleeper") for stack in stacks)
    rows = csv.DictReader(io.StringIO(headway("trace", "decode", *trace, "--format", "csv").stdout))
    executed = [row for row in rows if row["size"] in ("2", "4")]
    own = [line.split() for line in made["callgrind"].splitlines() if line.startswith("0 ")]
    calls = made["callgrind"].splitlines()
    of_calls = [calls[at + 1].split() for at, line in enumerate(calls) if line.startswith("calls=")]
    assert sum(int(one[1]) for one in own) - sum(int(one[1]) for one in of_calls) == len(executed)
    assert sum(map(int, stacks.values())) == sum(int(row["cycles"] or 0) for row in executed)
    counts = Counter(row["address"] for row in executed)
    most = max(int(line.rpartition(",")[2]) for line in made["lcov"].splitlines() if line.startswith("DA:"))
    assert most <= max(counts.values())
    files = [line for line in made["lcov"].splitlines() if line.startswith("SF:")]
    assert "SF:threads.c" in files
    assert "callgrind format" in "".join(callgrind(Calls()))


def test_functions_are_shown_with_what_they_did() -> None:
    trace = EXAMPLES / "sleepers.hwt", "--image", "sleepers"
    done = headway("trace", "stats", *trace, "--functions", "--format", "json")
    assert done.returncode == 0, done.stderr
    found = {(row["thread"], row["function"]): row for row in json.loads(done.stdout)}
    rows = csv.DictReader(io.StringIO(headway("trace", "decode", *trace, "--format", "csv").stdout))
    symbols = Counter(row["symbol"] for row in rows if row["size"] in ("2", "4"))
    for name in ("sleeper", "main", "choose"):
        assert sum(row["instructions"] for (_, of), row in found.items() if of == name) == symbols[name]
    assert found["thread 0x6", "sleeper"]["calls"] == 1
    assert "give one of them" in headway("trace", "stats", *trace, "--functions", "--windows").stderr
