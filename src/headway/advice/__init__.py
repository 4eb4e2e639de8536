"""What would help: the policy over the figures, its thresholds and remedies (T10)."""

from .advise import Advice, advise
from .facilities import Facilities, Interrupt
from .references import MAX_REMARKS, References
from .remedy import Remedy

__all__ = ["MAX_REMARKS", "Advice", "Facilities", "Interrupt", "References", "Remedy", "advise"]
