"""Equal progress by weights: who gets how much of the processors so that parties make progress in given shares.

`controller` takes what each party did in an interval and returns the weights of the next one; it knows nothing of the
system. `steps` turns weights into nice values.
"""

from .controller import Controller, Limits, Place, Seen
from .steps import steps_for

__all__ = ["Controller", "Limits", "Place", "Seen", "steps_for"]
