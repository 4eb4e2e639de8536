"""The colours and signs of the kinds: one place for all views.

The hues are those of Okabe and Ito ("Color Universal Design", 2008), moved a little so that ten kinds can be told apart
by everybody: in OKLab, times 100, any two of one ground are 10 or more apart, for eyes with all three cones and for
those without one of them (Machado, Oliveira and Fernandes 2009, at full severity). Colour is never the only sign: each
kind has a letter too, and a bar has its kinds in one order.
"""

from __future__ import annotations

from dataclasses import dataclass

from headway.model import Kind

__all__ = ["OFF_PROCESSOR", "ON_PROCESSOR", "ORDER", "PALETTE", "Look"]


@dataclass(frozen=True, slots=True)
class Look:
    """How a kind looks. Colours are ``#RRGGBB``; on either of them ink of the colour beside it can be read (4.5:1)."""

    letter: str
    """One ASCII character, a different one for each kind; what stands for it where there is no colour."""
    on_light: str
    """The colour on a light ground."""
    ink_on_light: str
    """Black or white: text on that colour."""
    on_dark: str
    """The colour on a dark ground."""
    ink_on_dark: str
    """Black or white: text on that colour."""
    words: str
    """What time of this kind is, in a few words."""


_BLACK, _WHITE = "#000000", "#FFFFFF"

PALETTE = {
    Kind.EFFECTIVE: Look("E", "#049A64", _BLACK, "#0E9E62", _BLACK, "making progress"),
    Kind.MEMORY: Look("M", "#165FC2", _WHITE, "#0661B4", _WHITE, "waiting for memory that others use too"),
    Kind.KERNEL: Look("K", "#F99725", _BLACK, "#E5AE02", _BLACK, "in the kernel, or in a marked region"),
    Kind.POLL: Look("P", "#BB85AE", _BLACK, "#AA7BB8", _BLACK, "asking again for what is not there yet"),
    Kind.STALL: Look("S", "#62A8FF", _BLACK, "#61B6FF", _BLACK, "stalled for another reason"),
    Kind.STOLEN: Look("X", "#E55600", _BLACK, "#FB4B00", _BLACK, "the hypervisor ran something else"),
    Kind.OVERHEAD: Look("O", "#493515", _WHITE, "#775E71", _WHITE, "the observer's, not the thread's"),
    Kind.READY: Look("R", "#FFCC1D", _BLACK, "#FBFA44", _BLACK, "able to run, without a processor"),
    Kind.WAIT: Look("W", "#DADEE3", _BLACK, "#3D424A", _WHITE, "waiting for something"),
    Kind.UNKNOWN: Look("?", "#53575E", _WHITE, "#C7CCD2", _BLACK, "not seen"),
}
"""Every kind's look."""

ON_PROCESSOR = (
    Kind.EFFECTIVE,
    Kind.MEMORY,
    Kind.KERNEL,
    Kind.POLL,
    Kind.STALL,
    Kind.STOLEN,
    Kind.OVERHEAD,
)
"""The kinds of a bar's first part, in their order there."""
OFF_PROCESSOR = (Kind.READY, Kind.WAIT, Kind.UNKNOWN)
"""Those of its second part."""
ORDER = ON_PROCESSOR + OFF_PROCESSOR
"""All of them."""
