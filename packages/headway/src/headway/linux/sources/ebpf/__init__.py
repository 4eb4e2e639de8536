"""The eBPF source, in parts: `headway.linux.sources` lists them in the order of the path from the kernel to a table."""

from .source import BpfSource

__all__ = ["BpfSource"]
