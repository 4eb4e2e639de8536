"""When threads got a processor, according to a recording: what other recordings of the same run can be aligned by."""

from __future__ import annotations

from collections.abc import Collection

from .catalogue import Catalogue, RecordedRun
from .tables import Tables, open_engine

__all__ = ["run_starts"]


def run_starts(run: RecordedRun, tids: Collection[int], most: int = 200_000) -> dict[int, list[int]]:
    """Return tid -> the times at which a time ready ended because the thread got a processor, at most so many in all.

    Raises HeadwayError if the recording cannot be read.
    """
    catalogue = Catalogue((run,))
    found: dict[int, list[int]] = {}
    with Tables(catalogue, open_engine(None, catalogue), ("transitions", "threads")) as tables:
        numbers = {thread: tid for thread, tid in tables.ask("SELECT thread, tid FROM threads").rows if tid in tids}
        if not numbers:
            return {}
        query = f"""
SELECT thread, time + duration FROM transitions
WHERE cpu IS NULL AND duration > 0 AND state LIKE 'ready%' AND thread IN ({", ".join(map(str, sorted(numbers)))})
LIMIT {most}"""
        for thread, time in tables.ask(query).rows:
            found.setdefault(numbers[thread], []).append(time)
    for times in found.values():
        times.sort()
    return found
