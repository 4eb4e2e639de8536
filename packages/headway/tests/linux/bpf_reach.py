"""Which instructions of an eBPF function the verifier gets to, given what is in read-only memory.

The verifier knows the contents of a frozen read-only map (kernel commit a23740ec43ba, 5.5), follows no branch that they
rule out, and takes out what it did not get to before a JIT compiler sees it (commit e2ae4ca266a1, 5.1). This follows
constants through registers as it does, and less exactly: it forgets what is on the stack, what a function is called
with, and where paths meet, what differs between them. So what it finds not to be reached is not reached.
"""

from __future__ import annotations

from collections.abc import Container, Mapping

from .bpf_objects import CALL, LD_IMM64, SLOT, BpfObject, Function, Instruction, Place

__all__ = ["State", "Value", "reached_by_program", "states"]

Value = int | Place | None
"""What is in a register: a number of 64 bits, the address of data, or None: it is not known."""

State = tuple[Value, ...]
"""What is in the registers."""

_UNKNOWN: State = (None,) * 11

_ALL = (1 << 64) - 1
_LD, _LDX, _ST, _STX, _ALU, _JMP, _JMP32, _ALU64 = range(8)
_EXIT, _JUMP, _LONG_JUMP, _MAY_GOTO = 0x95, 0x05, 0x06, 0xE5
_REGISTER = 8
"""Set where the second operand is a register."""
_LOAD = 0x60
"""The mode of an ordinary load, BPF_MEM."""
_SIZES = (4, 2, 1, 8)
_ATOMIC = 0xC0
_FETCH, _COMPARE_AND_EXCHANGE = 0x01, 0xF1
_LOAD_ACQUIRE = 0x100


def states(
    function: Function, memory: Mapping[Place, int], relocated: Container[tuple[str, int]] = ()
) -> dict[int, State]:
    """Return what is in the registers before each instruction that is reached, whatever the function is called with.

    ``memory``: bytes of read-only data, by their places; what is not there is not known. ``relocated``: instructions
    that libbpf changes before the kernel gets them.
    """
    start = function.place.offset
    found = {start: _UNKNOWN}
    todo = [start]
    while todo:
        at = todo.pop()
        instruction = function.code[at]
        changed = (function.place.section, at) in relocated
        after = _step(instruction, found[at], memory, changed)
        for following in _next(instruction, at, found[at], changed):
            before = found.get(following, after)
            meeting = tuple(a if a == b else None for a, b in zip(after, before, strict=True))
            if following not in found or meeting != before:
                found[following] = meeting
                todo.append(following)
    return found


def reached_by_program(of: BpfObject, program: Function, memory: Mapping[Place, int]) -> set[Place]:
    """Return all that is reached of a program and of the functions that it calls or passes on."""
    found = {program.place: program}
    todo = [program]
    places = set()
    while todo:
        function = todo.pop()
        for at in states(function, memory, of.relocated):
            places.add(Place(function.place.section, at))
            target = function.code[at].target
            callee = of.functions.get(target) if target else None
            if callee and callee.place not in found:
                found[callee.place] = callee
                todo.append(callee)
    return places


def _next(each: Instruction, at: int, state: State, relocated: bool) -> list[int]:
    """Return where it goes on."""
    following = at + each.size
    kind = each.code & 7
    if kind not in (_JMP, _JMP32) or each.code & ~_REGISTER == CALL:
        return [following]
    if each.code == _EXIT:
        return []
    if each.code == _LONG_JUMP:
        return [following + each.immediate * SLOT]
    target = following + each.offset * SLOT
    if each.code == _JUMP:
        return [target]
    if each.code == _MAY_GOTO:
        return [following, target]
    left, right = state[each.destination], _operand(each, state)
    if relocated or not isinstance(left, int) or not isinstance(right, int):
        return [following, target]
    return [target if _holds(each.code >> 4, left, right, 32 if kind == _JMP32 else 64) else following]


def _operand(each: Instruction, state: State) -> Value:
    """Return the second operand of arithmetic or a comparison."""
    return state[each.source] if each.code & _REGISTER else each.immediate & _ALL


def _holds(comparison: int, left: int, right: int, bits: int) -> bool:
    """Whether a jump on a comparison is taken. Raises ValueError if there is no such comparison."""
    left, right = left & (1 << bits) - 1, right & (1 << bits) - 1
    sign = 1 << (bits - 1)
    signed = (left ^ sign) - sign, (right ^ sign) - sign
    match comparison:
        case 0x1:
            return left == right
        case 0x2:
            return left > right
        case 0x3:
            return left >= right
        case 0x4:
            return bool(left & right)
        case 0x5:
            return left != right
        case 0x6:
            return signed[0] > signed[1]
        case 0x7:
            return signed[0] >= signed[1]
        case 0xA:
            return left < right
        case 0xB:
            return left <= right
        case 0xC:
            return signed[0] < signed[1]
        case 0xD:
            return signed[0] <= signed[1]
    raise ValueError(f"there is no comparison {comparison:#x}")


def _step(each: Instruction, state: State, memory: Mapping[Place, int], relocated: bool) -> State:
    """Return what is in the registers after an instruction."""
    kind = each.code & 7
    if each.code & ~_REGISTER == CALL:
        return (None,) * 6 + state[6:]
    value: Value = None
    changed = each.destination
    if kind == _STX and each.code & 0xE0 == _ATOMIC:
        if each.immediate == _COMPARE_AND_EXCHANGE:
            changed = 0
        elif each.immediate != _LOAD_ACQUIRE:
            if not each.immediate & _FETCH:
                return state
            changed = each.source
    elif kind in (_ST, _STX, _JMP, _JMP32):
        return state
    elif relocated:
        pass
    elif each.code == LD_IMM64:
        value = each.target if each.target else each.immediate if not each.source and not each.external else None
    elif kind == _LDX and each.code & 0xE0 == _LOAD:
        base = state[each.source]
        if isinstance(base, Place):
            value = _load(memory, base, each.offset, _SIZES[each.code >> 3 & 3])
    elif kind == _ALU64:
        value = _compute(each, state[each.destination], _operand(each, state), 64)
    elif kind == _ALU:
        value = _compute(each, state[each.destination], _operand(each, state), 32)
    return (*state[:changed], value, *state[changed + 1 :])


def _load(memory: Mapping[Place, int], base: Place, offset: int, size: int) -> int | None:
    """Return a number in memory, if all of its bytes are known."""
    content = [memory.get(Place(base.section, base.offset + offset + i)) for i in range(size)]
    known = [byte for byte in content if byte is not None]
    return int.from_bytes(known, "little") if len(known) == size else None


def _compute(each: Instruction, left: Value, right: Value, bits: int) -> Value:
    """Return the result of arithmetic, as far as all verifiers know it."""
    operation = each.code >> 4
    if each.offset:  # a division with signs, or a move that extends one
        return None
    if operation == 0xB and bits == 64:
        return right
    if operation == 0x0 and bits == 64 and isinstance(left, Place) and isinstance(right, int):
        return Place(left.section, left.offset + _signed(right))
    if not isinstance(right, int) or (operation != 0xB and not isinstance(left, int)):
        return None
    mask = (1 << bits) - 1
    right &= mask
    if operation == 0xB:
        return right
    assert isinstance(left, int)
    left &= mask
    match operation:
        case 0x0:
            return left + right & mask
        case 0x1:
            return left - right & mask
        case 0x2:
            return left * right & mask
        case 0x4:
            return left | right
        case 0x5:
            return left & right
        case 0x6 if right < bits:
            return left << right & mask
        case 0x7 if right < bits:
            return left >> right
    return None


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number
