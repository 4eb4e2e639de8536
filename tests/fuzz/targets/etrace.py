"""E-Trace: descriptions, streams of an encoder and packets in any order, decoded with the program that ran."""

from __future__ import annotations

import json
from functools import cached_property
from random import Random

from tests.fuzz.mutation import mutated, number
from tests.fuzz.target import Target
from tests.trace.etrace import encoding
from tests.trace.etrace.encoding import packet
from tests.trace.etrace.runs import EtraceRun, run_example

from headway.errors import HeadwayError
from headway_trace.etrace.parameters import OPTIONS, EtraceParameters, encoder_parameters
from headway_trace.etrace.reading import EtraceTrace, state_of
from headway_trace.threads.reading import TracedProgram

_EXAMPLES = ("mix", "sort", "interrupt-storm", "six-threads")
_MODES = (0, 0b110101, 0b111001)


class EtraceTarget(Target):
    """A line of JSON with the parameters, and then a stream."""

    name = "etrace"

    @cached_property
    def _runs(self) -> list[EtraceRun]:
        return [run_example(name, (1, 2, "strict"), 8_000, sync=64) for name in _EXAMPLES]

    @cached_property
    def seeds(self) -> list[bytes]:
        """Return traces of example programs."""
        return [_written(run.parameters, run.streams[0][:4000]) for run in self._runs]

    def make(self, random: Random) -> bytes:
        """Change the file or its stream, or make packets."""
        which, kind = random.randrange(len(self._runs)), random.random()
        if kind < 0.15:
            return mutated(random, self.seeds[which], self.seeds)
        run = self._runs[which]
        if kind < 0.5:
            stream = mutated(
                random, run.streams[0][: random.choice((300, 4000))], [one.streams[0] for one in self._runs]
            )
            return _written(run.parameters, stream)
        options = random.choice((*_MODES, random.getrandbits(6)))
        parameters = encoder_parameters(sources=2, timed=random.random() < 0.5, options=options)
        head = packet(*encoding.support(parameters, options), source=0)
        start = packet(*encoding.start(parameters, 0x8000_0000), source=0)
        packets = (self._packet(random, parameters, options) for _ in range(random.randrange(40)))
        return _written(parameters, head + start + b"".join(packets))

    def _packet(self, random: Random, p: EtraceParameters, options: int) -> bytes:
        source, kind = int(random.random() < 0.05), random.randrange(16)
        near = 2 * random.randrange(-40, 400) if random.random() < 0.9 else number(random) & 0xFFFFFFFF
        address = 0x8000_0000 + near & 0xFFFFFFFF
        outcomes = "".join(random.choice("tn") for _ in range(random.choice((0, 1, 2, 5, 31))))
        flags = {"notify": random.random() < 0.2, "updiscon": random.random() < 0.2}
        depth = random.randrange(32) if random.random() < 0.2 else None
        if kind < 6:
            fields = encoding.report(p, near, outcomes, depth=depth, **flags)
        elif kind < 8:
            fields = encoding.report(p, None, (outcomes + "t" * 31)[:31])
        elif kind == 8:
            count = 31 + random.choice((0, 1, 100, number(random) & 0xFFFFFFFF))
            fields = encoding.predicted(p, count, random.choice((None, near)), failed=random.random() < 0.5)
        elif kind == 9:
            fields = encoding.jump_index(p, random.randrange(64), outcomes)
        elif kind < 12:
            fields = encoding.start(p, address, taken=random.random() < 0.5, privilege=random.choice((0, 3)),
                                    time=number(random))  # fmt: skip
        elif kind == 12:
            fields = encoding.trap(p, address, interrupt=random.random() < 0.5, handler=random.random() < 0.7)
        elif kind == 13:
            fields = encoding.context(p, number=random.getrandbits(32), time=number(random))
        elif kind == 14:
            fields = encoding.support(p, random.choice((options, random.getrandbits(6))), status=random.randrange(4))
        else:
            return random.choice((bytes(32) + b"\x80", bytes(40), random.randbytes(3), bytes(5)))
        return packet(*fields, source=source)

    def read(self, data: bytes, random: Random) -> None:
        """Ask for the statistics, for the rows, for text or for one moment."""
        head, _, stream = data.partition(b"\n")
        try:
            values = json.loads(head)
        except (ValueError, RecursionError):
            return
        if not isinstance(values, dict):
            raise HeadwayError("the parameters are missing: give them")
        run = self._runs[random.randrange(len(self._runs))]
        program = TracedProgram(tuple(run.program))
        trace = EtraceTrace(
            "fuzz",
            EtraceParameters.of(values),
            [lambda start: iter((stream[start:999], stream[max(start, 999) :]))],
            program,
        )
        question = random.randrange(4)
        if question == 0:
            trace.statistics()
        elif question == 1:
            for _ in trace.csv(traps=True):
                pass
        elif question == 2:
            trace.at(number(random))
        else:
            for rows, _ in trace.blocks(traps=True):
                for at in range(min(len(rows), 1000)):
                    source, time, _, address, size, _, _ = rows[at]
                    assert 0 <= source < trace.parameters.sources
                    assert time is None or time >= 0
                    assert size in (0, 2, 4)
                    assert 0 <= address < 1 << 64
                    state_of(rows, at)


def _written(parameters: EtraceParameters, stream: bytes) -> bytes:
    values = {**parameters.described(), "ioptions": list(OPTIONS)}
    return json.dumps(values).encode() + b"\n" + stream


TARGET = EtraceTarget
