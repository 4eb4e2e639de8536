"""TOML files of the user: the machine's configuration, thresholds of advice, and status checks."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cached_property
from random import Random

from tests.fuzz.mutation import number
from tests.fuzz.texts import TextsTarget
from tests.machine.examples import EXAMPLES

from headway.advice.threshold_files import load_thresholds
from headway.linux.bpf.polling.checks import load as load_checks
from headway_machine.config import Config

_CHECKS = b"""gap_us = 50
[check.recvfrom]
if_flag = [4, 0x40]
about = 1
file = true
not_ready = ["EAGAIN", 0]
[check.poll]
if_zero = 3
not_ready = [0]
gap_us = 7
[check.epoll_wait]
enabled = false
"""
_MACHINE = b"""cores = 2
threads = 4
issue = "skip"
[l1d]
size = 4096
[memory]
ram = 65536
[power]
[[ranges]]
name = "a"
start = 0x80000000
end = 0x80001000
[trace]
enabled = true
sync = 64
[[trace.triggers]]
first = 0x80000000
"""
_VALUES = (
    b"true", b"-1", b"0", b"1.5", b"inf", b"nan", b'""', b'"skip"', b"'a'", b"[]", b"[[]]", b"{}", b"{a = 1}",
    b"0xFFFFFFFFFFFFFFFFFF", b"1979-05-27", b"07:32:00", b'"""\na\nb"""', b'"\\u0007"', b'"\\U0001F600"',
    b"[1, 'a']", b'["EAGAIN", "EAGAIN"]', b"1_000",
)  # fmt: skip
_KEY = re.compile(rb"^([\w.\"' ]+)=(.*)$", re.MULTILINE)


class TomlTarget(TextsTarget):
    """Files of each kind."""

    name = "toml"
    file_name = "file.toml"

    @cached_property
    def seeds(self) -> list[bytes]:
        """Return files of each kind; those of the machine without comments, but for one."""
        examples = [(EXAMPLES / f"{name}.toml").read_bytes() for name in ("uart", "utilisation")]
        short = re.sub(r"\s*#.*", "", Config().to_toml()).encode()
        thresholds = b"td = 0.2\nready = 0.1\nleast_ns = 10_000_000\nmost = 5\n"
        kinds = [(0, _MACHINE), *((0, text) for text in (*examples, short)), (1, thresholds), (2, _CHECKS)]
        return [bytes([kind]) + text for kind, text in kinds]

    def changed(self, random: Random, text: bytes) -> bytes:
        """Change values, and to which keys they belong."""
        for _ in range(random.choice((1, 1, 2, 4))):
            places = list(_KEY.finditer(text))
            if not places:
                break
            place = random.choice(places)
            value = b"%d" % number(random) if random.random() < 0.6 else random.choice(_VALUES)
            key = place[1] if random.random() < 0.95 else random.choice(places)[1]
            text = text[: place.start()] + key + b"= " + value + text[place.end() :]
        return text

    @property
    def readers(self) -> Sequence[Callable[[bytes], object]]:
        """Return what reads each kind of file."""
        return (
            lambda text: _configuration(self.file.fill(text)),
            lambda text: load_thresholds(self.file.fill(text)),
            lambda text: load_checks(self.file.fill(text)),
        )


def _configuration(path: str) -> None:
    """A configuration that is accepted can be written and read again."""
    found = Config.from_toml(path)
    assert Config.from_text(found.to_toml()) == found


TARGET = TomlTarget
