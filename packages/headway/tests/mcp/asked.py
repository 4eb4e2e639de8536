"""Recordings to ask about: each thread has a processor of its own, so that those add up too."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random

from tests.recording.queries.runs import lawful, write

__all__ = ["recorded_in"]


def recorded_in(folder: Path, seed: int, names: Sequence[str] = ("worker", "main", "reader", "writer")) -> Path:
    """Write a recording of threads of these names, and return its folder."""
    found = lawful(Random(seed), threads=len(names), steps=40)
    found.threads = [thread._replace(name=names[thread.thread]) for thread in found.threads]
    found.rows = [
        row if row.cpu is None else row._replace(cpu=row.thread) for row in found.rows if row.thread is not None
    ]
    return write(found, folder)
