"""CoreSight formatter frames: sources that change anywhere, and buffers that are no frames."""

from __future__ import annotations

from functools import cached_property
from random import Random

from tests.fuzz.target import Target
from tests.trace.encoding import frames

from headway_trace._coresight import Deformatter
from headway_trace.decode import StreamPlaces


class CoreSightTarget(Target):
    """Frames, taken apart in pieces."""

    name = "coresight"

    @cached_property
    def seeds(self) -> list[bytes]:
        """Return frames of one source, of two, and of many."""
        random = Random(1)
        found = []
        for sources, longest in ((1, 60), (2, 20), (2, 3), (100, 4)):
            pieces = [
                (1 + random.randrange(sources), random.randbytes(1 + random.randrange(longest))) for _ in range(8)
            ]
            found.append(frames(pieces))
        return found

    def make(self, random: Random) -> bytes:
        """Change frames, or make a few of any bytes."""
        if random.random() < 0.1:
            return random.randbytes(random.randrange(200))
        return super().make(random)

    def read(self, data: bytes, random: Random) -> None:
        """Take the buffer apart; no byte of it becomes two."""
        deformatter, places = Deformatter(), StreamPlaces(random.choice((2, 8, 1 << 16)))
        sizes = dict[int, int]()
        start = 0
        while start < len(data):
            end = start + random.choice((1, 15, 16, 100, 1000))
            for stream, piece, pairs in deformatter.feed(data[start:end]):
                assert 0 <= stream < 128
                assert len(pairs) % 2 == 0
                assert 0 <= pairs[1] <= pairs[-1] < len(data)
                assert pairs[0] <= pairs[-2] <= pairs[0] + len(piece)
                assert pairs[0] == sizes.get(stream, 0)
                sizes[stream] = sizes.get(stream, 0) + len(piece)
                if piece and stream == 1:
                    places.add(pairs)
            start = end
        assert sum(sizes.values()) + deformatter.unassigned <= len(data)
        first, last = places.span(random.randrange(100), 100 + random.randrange(10_000))
        assert 0 <= first <= last


TARGET = CoreSightTarget
