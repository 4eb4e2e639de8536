"""The source at the level `clocks`, in parts: `headway.linux.sources` lists them."""

from .source import ClockSource

__all__ = ["ClockSource"]
