"""Advice: the policy over the figures that says what would help, its thresholds and its remedies."""

from .effects import Effect, effect
from .facilities import DeviceInterrupt, Facilities
from .policy import Advice, advise
from .remedy import Remedy
from .thresholds import MAX_REMARKS, Thresholds

__all__ = [
    "MAX_REMARKS",
    "Advice",
    "DeviceInterrupt",
    "Effect",
    "Facilities",
    "Remedy",
    "Thresholds",
    "advise",
    "effect",
]
