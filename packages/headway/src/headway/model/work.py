"""Work of a known amount, and when it will be done by the progress that ledgers show.

The amount is EPI, or a number of steps: how often the program enters one of its regions that are marked as progress.
"""

from __future__ import annotations

from dataclasses import replace

from headway.dataclass import dataclass

from .forecast import Expectation, Forecast
from .ledger import Ledger
from .quality import Quality

__all__ = ["FollowedWork", "Work"]


@dataclass(frozen=True, slots=True)
class Work:
    """What is to be done."""

    amount: int
    """EPI in ns, or the number of steps."""
    tag: str = ""
    """A step is to enter the region ``user.TAG``; empty: the amount is EPI."""

    @property
    def state(self) -> str | None:
        """The state that a step enters; None: the amount is EPI."""
        return f"user.{self.tag}" if self.tag else None

    def made(self, ledger: Ledger) -> tuple[int, str]:
        """Return how much of it the threads of a ledger did; and, as a clause, why that is not known, if it is not."""
        if self.tag and ledger.precision.effective is Quality.SAMPLED:
            return 0, "not every step is seen where progress is sampled"
        if self.tag:
            counts = [
                thread.states[f"user.{self.tag}"].count for thread in ledger.threads if self.state in thread.states
            ]
            known = [count for count in counts if count is not None]
            return sum(known), "" if len(known) == len(counts) else f"{ledger.source} does not count steps"
        if ledger.unit != "ns":
            return 0, "EPI is in cycles here, not in time"
        epi = ledger.indices(*ledger.threads).epi if ledger.threads else 0  # none was seen yet, or any more
        return epi or 0, "" if epi is not None else "EPI is not known here"


class FollowedWork:
    """Work whose progress is followed from one ledger of an interval to the next."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self._forecast = Forecast(work.amount)

    def take(self, ledger: Ledger) -> Expectation:
        """Return what is expected after this interval too."""
        made, unknown = self.work.made(ledger)
        if unknown:
            return replace(self._forecast.expect(), left=None, least=None, most=None, reason=unknown)
        self._forecast.add(made, ledger.window.duration)
        return self._forecast.expect()
