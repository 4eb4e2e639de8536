"""What a page shows of a run of the machine beside its ledger: progress over time, power, and a window of cycles."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from headway.views.html.sampled import PipelineWindow, Power, SampledTimeline, sampled
from headway_machine.observer import Observer
from headway_machine.series import KINDS, POWER

if TYPE_CHECKING:
    from headway_machine.run import Result

__all__ = ["Observed", "observed"]


class Observed(TypedDict, total=False):
    """Parts of a page, by the names of `headway.cli.pages.write_ledger_page`."""

    timeline: SampledTimeline
    power: Power
    pipeline: PipelineWindow


def observed(observer: Observer, result: Result) -> Observed:
    """Return what was observed of a run that has ended."""
    found: Observed = {}
    ledger, steps, window = result.ledger, observer.steps, observer.window
    if steps is not None and steps.processors and steps.processors[0]:
        lanes = [steps.threads[thread.tid, thread.birth] for thread in ledger.threads]
        lanes += [(0, rows) for rows in steps.processors]
        found["timeline"] = sampled(ledger.window.duration, steps.width, KINDS, lanes)
        found["power"] = Power(
            width=steps.width,
            states=POWER,
            processors=[one.cpu for one in ledger.processors],
            times=steps.power,
            cycles=steps.cycles,
        )
    if window is not None:
        found["pipeline"] = PipelineWindow(
            core=window.core,
            first=window.first,
            harts=window.harts,
            slots=window.slots,
            issued=[(one.cycle, one.hart, one.address, observer.names[one.address]) for one in window.issued],
        )
    return found
