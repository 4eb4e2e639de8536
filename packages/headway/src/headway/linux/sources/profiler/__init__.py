"""A source that takes a profile beside its ledger, in parts: `headway.linux.sources` lists them."""

from .source import DEFAULT_FREQUENCY, Buffers, ProfileSource

__all__ = ["DEFAULT_FREQUENCY", "Buffers", "ProfileSource"]
