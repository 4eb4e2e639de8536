"""How far a stack was walked, and why not further."""

from __future__ import annotations

from headway.dataclass import dataclass

__all__ = ["STACK_ENDS", "Walked", "words_of"]

STACK_ENDS = {
    "no_mappings": "[not walked: what the process has mapped was not known yet]",
    "no_information": "[no unwind information: {}]",
    "not_supported": "[unwind information of a kind that is not supported: {}]",
    "not_readable": "[stack memory not readable]",
    "no_code": "[no return address on the stack: {}]",
    "deep": "[cut off: deeper than 128 frames]",
    "backwards": "[no caller further up the stack: {}]",
    "32_bit": "[32-bit code is not unwound]",
    "made": "[no unwind information: code made at run time]",
    "no_room": "[no room for the unwind information of {}]",
}
"""The frame that ends a stack, by the reason; ``{}`` is the module in which that was."""


@dataclass(frozen=True, slots=True)
class Walked:
    """What a walk by call frame information tells beside the addresses."""

    why: str
    """One of `STACK_ENDS`; empty: the stack is whole."""
    unsure: tuple[int, ...] = ()
    """Places of frames whose caller was found by a frame pointer, which the frame may not have set up."""
    at: int = 0
    """The address at which the walk ended, as far as 48 bits tell."""


def words_of(why: str, module: str) -> str:
    """Return the frame that ends a stack."""
    return STACK_ENDS.get(why, "[cut off]").format(module or "code that no file has")
