"""Regions from Python: ``headway stat -- python regions.py``."""

from __future__ import annotations

import headway


def work(n: int) -> int:
    """Be busy."""
    return sum(range(n))


@headway.noneffective("parse")
def parse() -> int:
    """Every call is in the region."""
    return work(40_000)


def main() -> None:
    """Parse, poll and make progress."""
    ring = headway.poll("ring")
    for _ in range(500):
        parse()
        with ring:
            work(10_000)
        with headway.state("draw"):
            work(50_000)


if __name__ == "__main__":
    main()
