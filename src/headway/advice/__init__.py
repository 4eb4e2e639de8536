"""Advice: the policy over the figures that says what would help, its thresholds and its remedies."""

from .advise import Advice, advise
from .facilities import Facilities, Interrupt
from .references import MAX_REMARKS, References
from .remedy import Remedy

__all__ = ["MAX_REMARKS", "Advice", "Facilities", "Interrupt", "References", "Remedy", "advise"]
