"""Streams of an ITM and a DWT: packets in any order, and what they tell."""

from __future__ import annotations

from functools import cached_property
from random import Random

from tests.fuzz.mutation import mutated
from tests.fuzz.target import Target
from tests.trace.itm import encoding

from headway_trace.itm.events import Event, Happening, events_of
from headway_trace.itm.moment import change_stack
from headway_trace.itm.packets import Parser
from headway_trace.itm.text import lines_of


class ItmTarget(Target):
    """Streams, with and without synchronisation packets."""

    name = "itm"

    @cached_property
    def seeds(self) -> list[bytes]:
        """Return streams of any packets."""
        found = [encoding.packets(Random(seed), 60) for seed in range(6)]
        return [*found, found[0].replace(encoding.SYNC, b"")]

    def make(self, random: Random) -> bytes:
        """Change a stream, or make one of any bytes."""
        if random.random() < 0.1:
            return random.randbytes(random.randrange(200))
        return mutated(random, random.choice(self.seeds), self.seeds)

    def read(self, data: bytes, random: Random) -> None:
        """Read events, text and exceptions; each is of bytes of its own, in order, and time does not go back."""
        parser, blocks, start = Parser(), [], 0
        while start < len(data):
            end = start + random.choice((1, 7, 16, 1000))
            blocks.append(parser.feed(data[start:end]))
            start = end
        blocks.append(parser.finish())
        assert sum(packet.size for block in blocks for packet in block) == len(data)
        events = [one for one in events_of(blocks, synchronises=random.random() < 0.7) if isinstance(one, Event)]
        at = tick = 0
        stack: list[int] = []
        for event in events:
            assert at <= event.start <= event.end <= len(data)
            at = event.start
            if event.tick is not None:
                assert event.tick >= tick
                tick = event.tick
            if event.what in (Happening.ENTER, Happening.EXIT, Happening.RETURN):
                change_stack(stack, event)
                assert len(stack) <= len(events)
        assert sum(len(line.text) for line in lines_of(events)) <= 16 * len(data)


TARGET = ItmTarget
