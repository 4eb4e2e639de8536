"""Files of raw bytes, of which it is to be found out what they are."""

from __future__ import annotations

from functools import cached_property
from random import Random

from tests.fuzz.mutation import mutated
from tests.fuzz.target import Target
from tests.trace.raw.wrapping import framed, made, port

from headway_trace.raw.framing import framings, streams_of
from headway_trace.raw.protocols import recognise


class RawTarget(Target):
    """Bare streams, frames of a buffer, and frames of a port."""

    name = "raw"

    @cached_property
    def seeds(self) -> list[bytes]:
        """Return a trace of each protocol, bare and in frames."""
        random = Random(1)
        bare = {0x10 + at: made(random, name).data[:3000] for at, name in enumerate(("ETMv3", "PTM", "ETMv4", "ITM"))}
        frames = framed(random, bare)
        return [*bare.values(), frames[:6000], port(random, frames[:6000])]

    def make(self, random: Random) -> bytes:
        """Change a file, or make one of any bytes."""
        if random.random() < 0.1:
            return random.randbytes(random.randrange(2000))
        return mutated(random, random.choice(self.seeds), self.seeds)

    def read(self, data: bytes, random: Random) -> None:
        """Try what it may be. What is found has packets."""
        for framing in random.sample(framings(data), 2):
            for number, stream in streams_of(data, framing).items():
                assert 0 <= number < 0x70
                found = recognise(stream, None, {})
                assert found is None or (found.sure and 0 <= found.evidence.share <= 1)


TARGET = RawTarget
