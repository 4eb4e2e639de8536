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
    "python_not_readable": "[frames of Python not readable]",
    "python_no_code": "[no code in a frame of Python]",
    "python_deep": "[cut off: deeper than 128 frames of Python]",
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
    python: tuple[int, ...] = ()
    """The frames of Python, innermost first, as numbers that `PythonFrames` knows."""
    runs: tuple[int, ...] = ()
    """Places of the native frames that execute the runs of these, one each."""
    why_python: str = ""
    """As `why`, of the frames of Python; empty: there are no more."""


def words_of(why: str, module: str) -> str:
    """Return the frame that ends a stack."""
    return STACK_ENDS.get(why, "[cut off]").format(module or "code that no file has")
