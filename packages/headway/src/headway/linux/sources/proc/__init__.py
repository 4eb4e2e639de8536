"""The /proc source, in parts: `headway.linux.sources` lists them."""

from .source import ProcSource

__all__ = ["ProcSource"]
