"""Advice: the policy over the figures that says what would help, its thresholds and its remedies.

The policy is imported when it is first used: a report of a short command has nothing to advise.
"""

from typing import TYPE_CHECKING

from headway.lazy import lazily

from .facilities import DeviceInterrupt, Facilities
from .thresholds import MAX_REMARKS, Thresholds

if TYPE_CHECKING:
    from .effects import Effect, effect
    from .policy import Advice, advise
    from .remedy import Remedy
else:
    __getattr__ = lazily(__name__, {".effects": "Effect effect", ".policy": "Advice advise", ".remedy": "Remedy"})

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
