"""The colours and letters of the kinds, for all views.

The hues are those of Okabe and Ito ("Color Universal Design", 2008), changed slightly so that everybody can tell ten
kinds apart: in OKLab, times 100, any two on one background are at least 10 apart, for eyes with all three cones and for
those without one of them (Machado, Oliveira and Fernandes 2009, at full severity). Colour is never the only sign: each
kind has a letter too, and a bar has its kinds in a fixed order.
"""

from __future__ import annotations

from headway.dataclass import dataclass
from headway.model import Kind

__all__ = ["OFF_PROCESSOR", "ON_PROCESSOR", "ORDER", "PALETTE", "Look"]


@dataclass(frozen=True, slots=True)
class Look:
    """The look of a kind. Colours are ``#RRGGBB``. The ink beside a colour can be read on it (contrast 4.5:1)."""

    letter: str
    """One ASCII character, different for each kind. It stands for the kind where there is no colour."""
    on_light: str
    """The colour on a light background."""
    ink_on_light: str
    """Black or white: text on that colour."""
    on_dark: str
    """The colour on a dark background."""
    ink_on_dark: str
    """Black or white: text on that colour."""
    words: str
    """A few words for time of this kind."""


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
"""The look of every kind."""

ON_PROCESSOR = (
    Kind.EFFECTIVE,
    Kind.MEMORY,
    Kind.KERNEL,
    Kind.POLL,
    Kind.STALL,
    Kind.STOLEN,
    Kind.OVERHEAD,
)
"""The kinds of a bar's first part, in order."""
OFF_PROCESSOR = (Kind.READY, Kind.WAIT, Kind.UNKNOWN)
"""The kinds of a bar's second part, in order."""
ORDER = ON_PROCESSOR + OFF_PROCESSOR
"""All kinds, in order."""
