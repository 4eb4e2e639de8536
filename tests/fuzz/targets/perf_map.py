"""Lists of functions: perf maps, and the kernel's symbols."""

from __future__ import annotations

from functools import cached_property
from random import Random

from tests.fuzz.mutation import mutated_text, number
from tests.fuzz.target import Target

from headway.binary.kallsyms import parse as parse_kernel
from headway.binary.perf_map import parse


class PerfMapTarget(Target):
    """Perf maps as Python, Node.js and Java write them, and /proc/kallsyms."""

    name = "perf_map"

    @cached_property
    def seeds(self) -> list[bytes]:
        """Return three maps and some of the kernel's symbols."""
        return [
            b"".join(b"%x %x py::function_%d:/tmp/a b.py\n" % (0x7F0000000000 + 64 * at, 64, at) for at in range(12)),
            b"3ef414c0 398 RegExp:[{(]\n3ef418a0 398 LazyCompile:~read fs.js:1\n3ef418a0 10 Builtin:\xff\xfe\n",
            b"0x7f00 0x10 Ljava/lang/String;::hash\r\n7f10 10 Interpreter\r\n",
            b"ffffffff81000000 T _text\nffffffff81000040 t secondary\tname\nffffffff81000100 D data\n"
            b"ffffffffc0000000 t inner\t[module]\n",
        ]

    def make(self, random: Random) -> bytes:
        """Change a list."""
        return mutated_text(random, random.choice(self.seeds), self.seeds)

    def read(self, data: bytes, random: Random) -> None:
        """Look up addresses; a function that is found contains its address."""
        found = parse(data)
        for address in (0x7F0000000000, 0x3EF418A0, number(random)):
            function = found.at(address)
            assert function is None or function[1] <= address
            assert function is None or len(function[0]) <= 4000
        addresses, names = parse_kernel(data.decode(errors="replace"))
        assert len(addresses) == len(names)
        assert list(addresses) == sorted(addresses)


TARGET = PerfMapTarget
