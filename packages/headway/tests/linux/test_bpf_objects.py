"""The reader of eBPF objects finds what they contain, and follows constants as a processor does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests import compiling

from headway.errors import HeadwayError
from headway.linux.bpf.programs.libbpf import Library, Object

from .bpf_building import build
from .bpf_objects import LD_IMM64, SLOT, BpfObject, Function, Instruction, Map, Place, decode
from .bpf_reach import states
from .bpf_uses import features_of

SOURCE = compiling.PROGRAMS / "bpf_constructs.c"
PROGRAMS = {
    "at_switch": ("tp_btf/sched_switch", {"outer", "inner"}),
    "at_event": ("perf_event", {"body"}),
    "at_other_event": ("perf_event", set()),
    "at_task": ("iter/task", set()),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("object")


@pytest.fixture(scope="module")
def made(folder: Path) -> BpfObject:
    return build(SOURCE, folder, "x86_64")


def test_programs_and_the_functions_that_they_call_are_found(made: BpfObject) -> None:
    assert {name: each.place.section for name, each in made.programs.items()} == {
        name: section for name, (section, _) in PROGRAMS.items()
    }
    for name, (_, called) in PROGRAMS.items():
        assert {each.name for each in made.loaded_with(made.programs[name])} == {name} | called
    static = {each.name: each.static for each in made.functions.values()}
    assert static == {**dict.fromkeys(PROGRAMS, False), "outer": False, "not_called": False} | dict.fromkeys(
        ("inner", "body", "lonely"), True
    )


def test_every_instruction_is_in_one_function(made: BpfObject) -> None:
    for place, function in made.functions.items():
        assert min(function.code) == place.offset
        last = max(function.code)
        assert function.code[last].code in (0x95, 0x05), "it ends, or goes back"
    places = [Place(each.place.section, at) for each in made.functions.values() for at in each.code]
    assert len(places) == len(set(places))


def test_libbpf_finds_the_same_programs(made: BpfObject, folder: Path) -> None:
    try:
        library = Library()
    except HeadwayError as error:
        pytest.skip(str(error))
    with Object(library, (folder / f"{SOURCE.stem}.x86_64.o").read_bytes()) as opened:
        assert {name: each.section for name, each in opened.programs.items()} == {
            name: section for name, (section, _) in PROGRAMS.items()
        }


def test_maps_data_and_settings_are_found(made: BpfObject) -> None:
    assert made.maps() == [Map("numbers", 2, 1 << 10), Map("ring", 27, 0)]
    assert {".rodata.settings", ".bss"} == {*made.data_sections()}
    assert made.constants("settings", {"second": 0x01020304, "first": 7}) == {
        (".rodata.settings", 4): 4,
        (".rodata.settings", 5): 3,
        (".rodata.settings", 6): 2,
        (".rodata.settings", 7): 1,
        (".rodata.settings", 0): 7,
    }
    for variable, member in (("settings", "fourth"), ("no_settings", "first")):
        with pytest.raises(KeyError):
            made.constants(variable, {member: 0})


def test_each_line_is_found(made: BpfObject, folder: Path) -> None:
    lines = SOURCE.read_text().splitlines()
    for name in PROGRAMS:
        place = made.programs[name].place
        file, _, number = made.line(place).partition(":")
        assert file == SOURCE.name
        assert f"int {name}(" in lines[int(number) - 1]


def test_relocated_instructions_are_known(made: BpfObject) -> None:
    changed = [at for at in made.programs["at_task"].code if ("iter/task", at) in made.relocated]
    assert len(changed) == 1
    assert not any(section == "perf_event" for section, _ in made.relocated)


@pytest.mark.parametrize("image", [b"", b"\x7fELF", Path("/bin/true").read_bytes()])
def test_other_files_are_refused(image: bytes) -> None:
    with pytest.raises(ValueError, match="eBPF"):
        BpfObject(image)


# ---- instructions ----

CODES = st.integers(0, 255)
INSTRUCTIONS = st.builds(
    Instruction,
    CODES.filter(lambda code: code != LD_IMM64),
    st.integers(0, 15),
    st.integers(0, 15),
    st.integers(-(1 << 15), (1 << 15) - 1),
    st.integers(-(1 << 31), (1 << 31) - 1),
) | st.builds(
    Instruction, st.just(LD_IMM64), st.integers(0, 15), st.integers(0, 15), st.just(0), st.integers(0, (1 << 64) - 1)
)


@given(st.lists(INSTRUCTIONS, max_size=20))
def test_encoded_instructions_are_decoded(code: list[Instruction]) -> None:
    image = b"".join(each.encode() for each in code)
    decoded = [*decode(image)]
    assert [each for _, each in decoded] == code
    assert [at for at, _ in decoded] == [sum(each.size for each in code[:i]) for i in range(len(code))]


@given(st.lists(INSTRUCTIONS, min_size=1, max_size=5), st.integers(1, 7))
def test_an_instruction_that_is_cut_off_is_refused(code: list[Instruction], missing: int) -> None:
    image = b"".join(each.encode() for each in code)
    with pytest.raises(ValueError, match="ends within"):
        list(decode(image[:-missing]))


@pytest.mark.parametrize(
    ("instruction", "needs"),
    [
        (Instruction(0xBF, 1, 2), set()),
        (Instruction(0xB4, 1, 0, 0, 5), set()),
        (Instruction(0xDC, 1, 0, 0, 64), set()),
        (Instruction(0x79, 1, 2, -8), set()),
        (Instruction(0x55, 1, 0, 3, 5), set()),
        (Instruction(0x55, 1, 0, -3, 5), {"loop"}),
        (Instruction(0x05, 0, 0, -3), {"loop"}),
        (Instruction(0x56, 1, 0, 3, 5), {"32-bit jump"}),
        (Instruction(0x06, 0, 0, 0, 300), {"32-bit jump offset"}),
        (Instruction(0x06, 0, 0, 0, -300), {"32-bit jump offset", "loop"}),
        (Instruction(0xE5, 0, 0, 3), {"may_goto"}),
        (Instruction(0xDB, 1, 2), {"atomic add"}),
        (Instruction(0xC3, 1, 2, 0, 0x01), {"atomic fetch"}),
        (Instruction(0xC3, 1, 2, 0, 0x41), {"atomic fetch"}),
        (Instruction(0xDB, 1, 2, 0, 0xA0), {"atomic and, or, xor"}),
        (Instruction(0xDB, 1, 2, 0, 0xE1), {"atomic exchange"}),
        (Instruction(0xDB, 1, 2, 0, 0xF1), {"atomic exchange"}),
        (Instruction(0xD3, 1, 2, 0, 0x100), {"load-acquire, store-release"}),
        (Instruction(0xD3, 1, 2), {"atomic add of less than 32 bits"}),
        (Instruction(0xDB, 1, 2, 0, 0x77), {"atomic 0x77"}),
        (Instruction(0x91, 1, 2), {"sign-extending load"}),
        (Instruction(0x99, 1, 2), {"opcode 0x99"}),
        (Instruction(0xBF, 1, 2, 8), {"sign-extending move"}),
        (Instruction(0xBF, 1, 2, 1, 1), {"opcode 0xbf with offset 1"}),
        (Instruction(0x3F, 1, 2, 1), {"signed division"}),
        (Instruction(0x94, 1, 2, 1, 7), {"signed division"}),
        (Instruction(0xD7, 1, 0, 0, 16), {"unconditional byte swap"}),
        (Instruction(0xDF, 1, 0, 0, 16), {"opcode 0xdf"}),
        (Instruction(0x8F, 1, 1), {"opcode 0x8f"}),
        (Instruction(0x8D, 1), {"call through a register"}),
        (Instruction(0x85, 0, 0, 0, 181), {"181"}),
        (Instruction(0x85, 0, 1, 0, 5), {"call of a function"}),
        (Instruction(0x85, 0, 1, 0, -1, None, "bpf_x"), {"call of a kernel function", "bpf_x"}),
        (Instruction(0x85, 0, 2, 0, 5), {"call with source 2"}),
    ],
)
def test_the_features_of_an_instruction_are_known(instruction: Instruction, needs: set[str]) -> None:
    assert {feature.key for feature in features_of(instruction)} == needs


# ---- what is reached ----

DATA, BASE, SIZE = ".rodata.settings", 0xFFFF_8880_0000_0000, 32
"""A section of read-only data, where it is, and how large."""
ALL = (1 << 64) - 1

REGISTERS = st.sampled_from([0, 1, 1, 2, 2, 5, 6, 6, 9])
CLASSES, JUMP_CLASSES = st.sampled_from([4, 7]), st.sampled_from([5, 6])
OPERATIONS = st.sampled_from([0x00, 0x10, 0x20, 0x40, 0x50, 0x60, 0x70, 0xA0, 0xB0, 0xB0, 0xC0])
COMPARISONS = st.sampled_from([0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70, 0xA0, 0xB0, 0xC0, 0xD0])
SIZES = st.sampled_from([0x00, 0x08, 0x10, 0x18])
ATOMICS = st.sampled_from([0x00, 0x01, 0xE1, 0xF1])
SMALL = st.integers(-3, 40)
AHEAD = st.integers(-1, 6)


def combined(each: st.SearchStrategy[int], other: st.SearchStrategy[int], more: int = 0) -> st.SearchStrategy[int]:
    """An opcode of its parts."""
    return st.builds(lambda a, b: a | b | more, each, other)


ARITHMETIC = st.builds(Instruction, combined(OPERATIONS, CLASSES), REGISTERS, immediate=SMALL)
LOADS = st.builds(Instruction, combined(SIZES, st.just(0x61)), REGISTERS, REGISTERS, SMALL)
STEPS = st.one_of(
    st.builds(Instruction, st.just(0xB7), REGISTERS, immediate=SMALL),
    ARITHMETIC,
    ARITHMETIC,
    st.builds(Instruction, combined(OPERATIONS, CLASSES, 8), REGISTERS, REGISTERS),
    st.builds(
        Instruction, st.just(LD_IMM64), REGISTERS, target=st.builds(Place, st.just(DATA), st.integers(0, SIZE - 1))
    ),
    LOADS,
    LOADS,
    st.builds(Instruction, combined(COMPARISONS, JUMP_CLASSES, 8), REGISTERS, REGISTERS, AHEAD),
    st.builds(Instruction, combined(COMPARISONS, JUMP_CLASSES), REGISTERS, offset=AHEAD, immediate=SMALL),
    st.builds(Instruction, st.just(0x05), offset=AHEAD),
    st.builds(Instruction, st.just(0x85), immediate=st.integers(1, 200)),
    st.builds(Instruction, st.just(0xDB), REGISTERS, REGISTERS, immediate=ATOMICS),
)
SWITCH = [
    Instruction(LD_IMM64, 1, target=Place(DATA, 0)),
    Instruction(0x61, 2, 1),
    Instruction(0x56, 2, offset=2),
    Instruction(0xB7),
]
"""Leave out what follows unless the word that the data begins with is zero."""


def function(steps: list[Instruction]) -> Function:
    """A function of these instructions, whose jumps go to instructions of it, and that ends."""
    steps = [*steps, Instruction(0x95)]
    starts = [sum(each.size for each in steps[:i]) for i in range(len(steps))]
    code = {}
    for i, each in enumerate(steps):
        if each.code & 7 in (5, 6) and each.code not in (0x85, 0x95):
            to = starts[min(max(i + each.offset, 0), len(steps) - 1)]
            each = Instruction(
                each.code, each.destination, each.source, (to - starts[i] - SLOT) // SLOT, each.immediate
            )
        code[starts[i]] = each
    return Function("made", Place("made", 0), code, False)


def signed(number: int, bits: int) -> int:
    return (number & (1 << bits) - 1) - ((number >> bits - 1 & 1) << bits)


def run(
    of: Function, memory: Mapping[int, int], registers: list[int], noise: list[int]
) -> Iterator[tuple[int, list[int]]]:
    """Run a function, with what nobody can know taken from `noise` in turn: what is executed, with which registers."""
    arithmetic = {
        0x0: int.__add__, 0x1: int.__sub__, 0x2: int.__mul__, 0x4: int.__or__, 0x5: int.__and__, 0xA: int.__xor__,
    }  # fmt: skip
    compare = {0x1: int.__eq__, 0x2: int.__gt__, 0x3: int.__ge__, 0x5: int.__ne__, 0xA: int.__lt__, 0xB: int.__le__}
    signed_compare = {0x6: int.__gt__, 0x7: int.__ge__, 0xC: int.__lt__, 0xD: int.__le__}
    at, steps = 0, 0

    def unknown() -> int:
        noise.append(noise.pop(0))
        return noise[-1]

    while steps < 300:
        steps += 1
        yield at, [*registers]
        each = of.code[at]
        kind, operation = each.code & 7, each.code >> 4
        bits = 32 if kind in (4, 6) else 64
        mask = (1 << bits) - 1
        at += each.size
        left = registers[each.destination] & mask
        right = (registers[each.source] if each.code & 8 else each.immediate) & mask
        if each.code == 0x95:
            return
        if each.code == 0x85:
            registers[:6] = [unknown() for _ in range(6)]
        elif each.code == LD_IMM64:
            registers[each.destination] = BASE + each.target.offset if each.target else each.immediate
        elif kind == 1:
            place = registers[each.source] + each.offset - BASE
            size = (4, 2, 1, 8)[each.code >> 3 & 3]
            content = bytes(memory[place + i] if place + i in memory else unknown() & 255 for i in range(size))
            registers[each.destination] = int.from_bytes(content, "little")
        elif kind == 3 and each.immediate:
            registers[0 if each.immediate == 0xF1 else each.source] = unknown()
        elif kind in (4, 7):
            if operation in arithmetic:
                result = arithmetic[operation](left, right)
            elif operation == 0x6:
                result = left << right % bits
            elif operation == 0x7:
                result = left >> right % bits
            elif operation == 0xC:
                result = signed(left, bits) >> right % bits
            else:
                result = right
            registers[each.destination] = result & mask
        elif kind in (5, 6):
            if operation == 0:
                taken = True
            elif operation == 0x4:
                taken = bool(left & right)
            elif operation in compare:
                taken = compare[operation](left, right)
            else:
                taken = signed_compare[operation](signed(left, bits), signed(right, bits))
            at += each.offset * SLOT * taken


MEMORY = st.dictionaries(st.integers(0, SIZE - 1), st.integers(0, 3), max_size=SIZE)
NUMBERS = st.lists(st.integers(0, 5) | st.integers(0, ALL), min_size=10, max_size=10)
KNOWN = st.tuples(
    *[
        st.builds(
            Instruction,
            st.just(0xB7) | st.just(0xB4),
            st.just(register),
            immediate=SMALL | st.sampled_from([-1, -2, 1 << 30]),
        )
        | st.builds(
            Instruction,
            st.just(LD_IMM64),
            st.just(register),
            target=st.builds(Place, st.just(DATA), st.integers(0, 20)),
        )
        for register in range(10)
    ]
)
"""Instructions after which it is known what is in each register."""


@given(st.just(()) | KNOWN, st.lists(STEPS, max_size=30), MEMORY, NUMBERS, NUMBERS)
@example((), SWITCH, dict.fromkeys(range(4), 0), [0] * 10, [0])
@settings(max_examples=500)
def test_executed_instructions_are_reached_with_the_values_that_are_known(
    known: tuple[Instruction, ...],
    steps: list[Instruction],
    memory: dict[int, int],
    registers: list[int],
    noise: list[int],
) -> None:
    of = function([*known, *steps])
    found = states(of, {Place(DATA, at): byte for at, byte in memory.items()})
    for at, there in run(of, memory, [*registers], [*noise]):
        assert all(each is None or address(each) == there[i] for i, each in enumerate(found[at][:10]))
    nothing_known = states(of, {})
    assert found.keys() <= nothing_known.keys() <= of.code.keys()


@given(KNOWN, STEPS, MEMORY, NUMBERS)
@settings(max_examples=500)
def test_registers_that_an_instruction_changes_are_not_taken_for_known(
    known: tuple[Instruction, ...], step: Instruction, memory: dict[int, int], noise: list[int]
) -> None:
    of = function([*known, step, step])
    found = states(of, {Place(DATA, at): byte for at, byte in memory.items()})
    for at, there in run(of, memory, [0] * 10, noise):
        assert all(each is None or address(each) == there[i] for i, each in enumerate(found[at][:10]))


def address(value: int | Place) -> int:
    return BASE + value.offset if isinstance(value, Place) else value


LARGE = st.sampled_from([ALL, ALL - 2, 1 << 63, (1 << 40) + 5, (1 << 32) - 1, 1 << 31])


@given(combined(OPERATIONS, CLASSES, 8), LARGE | SMALL, LARGE | st.integers(0, 70))
@settings(max_examples=500)
def test_arithmetic_on_known_values_gives_what_a_processor_gives(code: int, left: int, right: int) -> None:
    steps = [Instruction(LD_IMM64, 1, immediate=left & ALL), Instruction(LD_IMM64, 2, immediate=right)]
    of = function([*steps, Instruction(code, 1, 2)])
    *_, (at, there) = run(of, {}, [0] * 10, [0])
    assert states(of, {})[at][1] in (None, there[1])


@given(st.integers(0, 5), COMPARISONS, JUMP_CLASSES, st.sampled_from([0xB4, 0xB7]), st.integers(-6, 6))
@settings(max_examples=300)
def test_only_one_branch_is_reached_where_the_condition_is_known(
    byte: int, comparison: int, kind: int, move: int, other: int
) -> None:
    steps = [
        Instruction(LD_IMM64, 1, target=Place(DATA, 8)),
        Instruction(0x07, 1, immediate=-4),
        Instruction(0x71, 2, 1, 2),
        Instruction(0x17, 2, immediate=3),
        Instruction(move, 3, immediate=other),
        Instruction(comparison | 8 | kind, 2, 3, 2),
        Instruction(0xB7),
    ]
    of, known = function(steps), {Place(DATA, 6): byte}
    assert states(of, {}).keys() == of.code.keys()
    assert states(of, known).keys() == {at for at, _ in run(of, {6: byte}, [0] * 10, [0])}
    for i in (2, 3, 4, 5):
        changed = ("made", sum(each.size for each in steps[:i]))
        assert states(of, known, {changed}).keys() == of.code.keys(), "libbpf may change it"
