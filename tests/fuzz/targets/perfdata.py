"""perf.data files with Intel PT and with CoreSight: damaged ones, and records of any content in any order."""

from __future__ import annotations

import struct
from functools import cached_property
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from tests.fuzz.instructions import RememberedInstructions
from tests.fuzz.mutation import mutated, number
from tests.fuzz.target import MemoryFile, Target, replaced
from tests.trace.perfdata import test_coresight, test_threads
from tests.trace.perfdata.writing import Writer, record

from headway.errors import HeadwayError
from headway_trace.hosts import HostStream, open_host
from headway_trace.perfdata import coresight
from headway_trace.perfdata.recorded import Recorded
from headway_trace.pt import library
from headway_trace.records import Gap, Instruction

_MOST = 20_000
"""Records of a stream that are looked at: a few bytes of trace can stand for any number of instructions."""
_TYPES = (1, 2, 3, 4, 7, 10, 11, 12, 13, 14, 15, 21, 64, 70, 71, 79, 80, 81)


class PerfDataTarget(Target):
    """Recordings of two processes, whose programs are files that no input changes."""

    name = "perfdata"

    def __init__(self) -> None:
        self._file = MemoryFile("fuzz.data")
        self._folder = TemporaryDirectory(prefix="headway-fuzz-")
        self._instructions = RememberedInstructions()
        self._place = self._folder.name.encode()
        self._anywhere = b"/fuzz".ljust(len(self._place), b"-")
        """What inputs have instead of the folder, whose name is another one each time."""

    @cached_property
    def seeds(self) -> list[bytes]:
        """Return recordings of Intel PT, if libipt is here, and of CoreSight, in frames and without."""
        folder, found = Path(self._folder.name), list[bytes]()
        for seed in range(3):
            place = folder / f"{seed}"
            place.mkdir()
            found.append(
                Path(test_coresight.made(place, seed, 4, raw=seed == 1, hardware_ids=seed == 2)[0]).read_bytes()
            )
            if library.available():
                made = test_threads.recording(folder / f"pt{seed}", seed, 4, pieces=1 + seed)
                found.append(Path(made.path).read_bytes())
        return [seed.replace(self._place, self._anywhere) for seed in found]

    def make(self, random: Random) -> bytes:
        """Change a recording; or put records of any content before its own."""
        seed = random.choice(self.seeds)
        if random.random() < 0.7:
            return mutated(random, seed, self.seeds)
        start, size = struct.unpack_from("<QQ", seed, 40)
        more = b"".join(self._record(random) for _ in range(random.randrange(1, 8)))
        data = bytearray(seed[:start] + more + seed[start:])
        struct.pack_into("<Q", data, 48, size + len(more))
        return bytes(data)

    def _record(self, random: Random) -> bytes:
        words = [number(random) & (1 << 64) - 1 for _ in range(random.randrange(12))]
        body = struct.pack(f"<{len(words)}Q", *words)
        pid, tid = (random.choice((0, 100, 101, -1)) for _ in range(2))
        end = Writer().end(pid, tid, number(random) & (1 << 63) - 1, 0)
        return record(random.choice(_TYPES), body + (end if random.random() < 0.7 else b""), random.getrandbits(16))

    def read(self, data: bytes, random: Random) -> None:
        """Read everything: what threads there are, and what they executed."""
        with replaced(coresight, "Code", self._instructions.code):
            self._read(data, random)

    def _read(self, data: bytes, random: Random) -> None:
        path = self._file.fill(data.replace(self._anywhere, self._place))
        if not library.available():
            Recorded(path)
        capture = open_host(path)
        for stream in capture.chosen(())[:4]:
            try:
                stream.check()
            except HeadwayError:
                continue
            stream.statistics()
            self._follow(stream, one_by_one=random.random() < 0.1)
            if random.random() < 0.3:
                stream.last(random.randrange(1 << 20))
        assert "\n" not in capture.left_out

    def _follow(self, stream: HostStream, *, one_by_one: bool) -> None:
        """Look at the records of a stream: at the numbers of them that a table has, or at each."""
        left = _MOST
        for records, _ in stream.parts():
            assert all(size <= 15 for _, size, _ in records.instructions())
            for one in records if one_by_one else ():
                assert not isinstance(one, Instruction) or one.size <= 15
                assert not isinstance(one, Gap) or one.start <= one.end
            left -= len(records)
            if left < 0:
                break

    def close(self) -> None:
        """Remove the files."""
        self._file.close()
        self._folder.cleanup()


TARGET = PerfDataTarget
