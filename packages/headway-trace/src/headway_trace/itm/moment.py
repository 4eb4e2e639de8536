"""What an ITM told of a moment: the exception whose handler ran, and the last sample."""

from __future__ import annotations

from typing import Any

from .answers import place_of_event
from .events import EXCEPTIONS, Event, Happening
from .exceptions import exception_name
from .stream import ItmStream

__all__ = ["change_stack", "moment_row"]


def moment_row(stream: ItmStream, tick: int | None, time: float | None) -> dict[str, Any]:
    """Return what was going on at a tick, or at a common time: the exception, and the last sample.

    Keys are columns; those that are missing are not known.
    """
    stack, sample, known, last = list[int](), None, False, None
    for event in stream.events():
        when = event.tick if time is None else (moment.time if (moment := stream.moment(event)) is not None else None)
        wanted = tick if time is None else time
        if when is not None and wanted is not None:
            if when > wanted:
                break
            last = event
        if event.what is Happening.LOSS:
            stack, sample, known = [], None, False
        elif event.what is Happening.SAMPLE:
            sample = event
        elif event.what in EXCEPTIONS:
            known = True
            change_stack(stack, event)
    else:
        return {"stream": stream.name, "size": 0, "state": "unknown.outside"}
    if last is None:
        return {"stream": stream.name, "size": 0, "state": "unknown.outside"}
    row: dict[str, Any] = {"stream": stream.name, "size": 0, "cycle": last.tick}
    row["state"] = f"in {exception_name(stack[-1])}" if stack else "in Thread" if known else "unknown"
    if (moment := stream.moment(last)) is not None:
        row["time"], row["uncertainty"] = round(moment.time, 3), round(moment.uncertainty, 3)
    if sample is not None and sample.address is not None:
        row["address"], row["symbol"] = place_of_event(stream, sample)
        row["line"] = stream.image.line(sample.address & ~1)
    return row


def change_stack(stack: list[int], event: Event) -> None:
    """Change the exceptions that are active, the innermost last, by what one event says.

    None is active twice: where one is entered again, packets are missing, and it has ended before.
    """
    number = event.source or 0
    if not number:  # Thread mode
        stack.clear()
        return
    entered = stack.index(number) if number in stack else None
    if entered is not None:
        del stack[entered:]
    if event.what is Happening.RETURN and entered is None:  # what it was within is not known
        stack.clear()
    if event.what is not Happening.EXIT:
        stack.append(number)
