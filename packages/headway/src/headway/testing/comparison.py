"""Whether a test has become slower: its figures compared with those of a baseline.

EPI, effective progress, is compared, because it depends least on what else the machine did. Where EPI is only sampled
(by /proc, at the kernel's tick), it says little about a short test. Then RPI, all processor time, is compared, which is
not sampled. RPI is also compared if one of the two runs has no EPI.
"""

from __future__ import annotations

from dataclasses import dataclass

from headway.model import Quality

from .baseline import BaselineEntry
from .levels import FigureLevel
from .progress import PhaseProgress

__all__ = ["Verdict", "compare"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of comparing a test or a block."""

    figure: str = ""
    """What was compared: ``epi`` or ``rpi``; empty: nothing."""
    now: int = 0
    before: int = 0
    threshold: float = 0.0
    noise: int = 0
    """A difference up to this is not significant; in the figure's unit."""
    why_not: str = ""
    """Why nothing was compared, in words."""

    @property
    def change(self) -> float | None:
        """The increase as a share of the earlier figure; negative for a decrease. None if nothing was compared."""
        return self.now / self.before - 1 if self.figure and self.before else None

    @property
    def above(self) -> bool:
        """Whether the increase exceeds the threshold."""
        return bool(self.figure) and self.now > self.before * (1 + self.threshold)

    @property
    def slower(self) -> bool:
        """Whether the increase exceeds the threshold and the noise."""
        return self.above and self.now - self.before > self.noise


def compare(now: BaselineEntry, before: BaselineEntry | None, threshold: float, floor: PhaseProgress | None) -> Verdict:
    """Compare two entries. ``floor`` has the figures of an empty span, if they were measured now.

    A difference is significant if it exceeds both spreads together, and the floor.
    """
    if before is None:
        return Verdict(why_not="not in the baseline")
    figure, why_not = _figure(now, before)
    a, b = now.levels.get(figure), before.levels.get(figure)
    if a is None or b is None:
        return Verdict(why_not=why_not)
    least = getattr(floor, figure) if floor is not None and floor.unit == now.unit else 0
    noise = max((a.spread or 0) + (b.spread or 0), least or 0)
    return Verdict(figure, a.median, b.median, threshold, noise)


def _figure(now: BaselineEntry, before: BaselineEntry) -> tuple[str, str]:
    """Return the figure to compare, or why nothing can be compared."""
    if now.unit != before.unit:
        return "", f"in {now.unit}, the baseline's in {before.unit}"
    known = [figure for figure in ("epi", "rpi") if _known(now, figure) and _known(before, figure)]
    if not known:
        return "", "no figure that both runs have"
    told = [figure for figure in known if not _sampled(now, figure) and not _sampled(before, figure)]
    return (told or known[::-1])[0], ""


def _known(entry: BaselineEntry, figure: str) -> bool:
    found: FigureLevel | None = entry.levels.get(figure)
    return found is not None


def _sampled(entry: BaselineEntry, figure: str) -> bool:
    return entry.quality[figure] is Quality.SAMPLED
