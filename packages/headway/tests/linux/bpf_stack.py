"""How much stack the functions of an eBPF program need together.

The kernel gives a program and all that it calls 512 bytes (MAX_BPF_STACK), and counts each function with a multiple of
32 (kernel/bpf/verifier.c, check_max_stack_depth). Linux 6.1 refuses a chain of 544 bytes; 6.18 loads it. A chain has at
most 8 functions (MAX_CALL_FRAMES).
"""

from __future__ import annotations

from .bpf_objects import CALL, BpfObject, Function

__all__ = ["MAX_FRAMES", "MAX_STACK", "deepest", "longest"]

MAX_STACK = 512
MAX_FRAMES = 8
_FRAME = 10
"""The register with the address of a function's part of the stack."""
_LAST_ARGUMENT = 5
_STEP = 32
_LD, _LDX, _ST, _STX, _ALU, _ALU64 = 0, 1, 2, 3, 4, 7
_MOVE, _ADD = 0xBF, 0x07


def deepest(of: BpfObject, function: Function) -> tuple[int, tuple[str, ...]]:
    """Return the bytes that a function and the deepest chain of calls from it need, and the names in the chain."""
    callees = {each.target for each in function.code.values() if each.is_call and each.target}
    below, chain = max((deepest(of, of.functions[callee]) for callee in callees), default=(0, ()))
    own = max(_used(function), 1)
    return -(-own // _STEP) * _STEP + below, (function.name, *chain)


def longest(of: BpfObject, function: Function) -> tuple[str, ...]:
    """Return the names of the functions in the longest chain of calls from a function."""
    callees = {each.target for each in function.code.values() if each.is_call and each.target}
    return (function.name, *max((longest(of, of.functions[callee]) for callee in callees), key=len, default=()))


def _used(function: Function) -> int:
    """Return the bytes of its own part that a function uses; addresses of it are followed from line to line."""
    lowest = 0
    pointers = {_FRAME: 0}
    for each in function.code.values():
        kind = each.code & 7
        base = each.source if kind == _LDX else each.destination if kind in (_ST, _STX) else None
        if base is not None and base in pointers:
            lowest = min(lowest, pointers[base] + each.offset)
        if each.code == _MOVE and each.source in pointers:
            pointers[each.destination] = pointers[each.source]
        elif each.code == _ADD and each.destination in pointers:
            pointers[each.destination] += each.immediate
            lowest = min(lowest, pointers[each.destination])
        elif each.code == CALL:
            pointers = {register: at for register, at in pointers.items() if register > _LAST_ARGUMENT}
        elif kind in (_LD, _LDX, _ALU, _ALU64):
            pointers.pop(each.destination, None)
    return -lowest
