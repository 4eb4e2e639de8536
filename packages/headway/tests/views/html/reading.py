"""Pages as a browser takes them apart, in Python: elements, sections, rows. What web/src does, written once more."""

from __future__ import annotations

import base64
import io
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

from headway.model import Ledger, Profile
from headway.views.html.document import Subject
from headway.views.html.page import write_page
from headway.views.html.timeline import PackedTimeline

Row = tuple[int, int, int, int, int, int]
"""Lane, start, end, state, processor, waker."""


@dataclass
class Page(HTMLParser):
    """Elements in their order, with their attributes and their text."""

    text: str
    elements: list[tuple[str, dict[str, str | None], list[str]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.feed(self.text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs), []))

    def handle_data(self, data: str) -> None:
        if self.elements:
            self.elements[-1][2].append(data)

    def of(self, tag: str, **wanted: str) -> str:
        """The text of the only such element."""
        (found,) = (
            "".join(text)
            for name, attributes, text in self.elements
            if name == tag and all(attributes.get(key) == value for key, value in wanted.items())
        )
        return found

    def section(self, name: str) -> bytes:
        """A section of the data."""
        return self._part(*json.loads(self.of("script", id="directory"))["sections"][name])

    def slices(self) -> list[bytes]:
        """The slices of the timeline."""
        return [self._part(*place) for place in json.loads(self.of("script", id="directory"))["slices"]]

    def _part(self, start: int, length: int) -> bytes:
        packed = base64.b64decode(self.of("script", id="data")[start : start + length], validate=True)
        return zlib.decompress(packed, -15)

    @property
    def document(self) -> dict[str, Any]:
        """What it says."""
        found: dict[str, Any] = json.loads(self.section("document"))
        return found


def page_of(
    ledger: Ledger,
    subject: Subject | None = None,
    timeline: PackedTimeline | None = None,
    profile: Profile | None = None,
) -> Page:
    stream = io.StringIO()
    write_page(stream, ledger, subject or Subject("run.hw"), timeline=timeline, profile=profile)
    return Page(stream.getvalue())


class Reader:
    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def number(self) -> int:
        value = shift = 0
        while True:
            byte = self._data[self._at]
            self._at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def signed(self) -> int:
        value = self.number()
        return value >> 1 if value % 2 == 0 else -(value + 1) >> 1

    def low_and_high(self, count: int) -> list[int]:
        low = self._data[self._at : self._at + count]
        self._at += count
        return [self.number() << 8 | byte for byte in low]

    @property
    def done(self) -> bool:
        return self._at == len(self._data)


def rows_of(data: bytes, begin: int, waits: list[bool], off: list[bool]) -> Iterator[Row]:
    """The rows of a slice that was inflated."""
    reader = Reader(data)
    segments, used = reader.number(), reader.number()
    lanes: list[int] = []
    for _ in range(segments):
        lanes.append((lanes[-1] if lanes else 0) + reader.signed())
    counts = [reader.number() for _ in range(segments)]
    heads = [begin + reader.signed() for _ in range(segments)]
    states: list[int] = []
    for _ in range(used):
        states.append((states[-1] if states else 0) + reader.number())
    local = [reader.number() for _ in range(sum(counts))]
    gaps = iter([reader.signed() for _ in range(sum(counts) - segments)])
    processors = iter([reader.number() for _ in local])
    wakers = iter([reader.number() for state in local if waits[states[state]]])
    durations = [iter(reader.low_and_high(local.count(number))) for number in range(used)]
    assert reader.done
    which = iter(local)
    for lane, count, head in zip(lanes, counts, heads, strict=True):
        time, last = head, -1
        for row in range(count):
            time += next(gaps) if row else 0
            number = next(which)
            state = states[number]
            end = time + next(durations[number])
            code = next(processors)
            cpu = code - 2 if code else -1 - lane if lane < 0 else -1 if off[state] else last
            last = cpu if cpu >= 0 else last
            yield lane, time, end, state, cpu, next(wakers) if waits[state] else 0
            time = end
