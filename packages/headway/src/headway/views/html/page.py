"""A page: one HTML file with everything in it, the built front end and the data that it shows.

The front end is one file, ``front.html`` (built from web/ by ``make web``), with a place for the title and one for the
data. Its content security policy names the digests of the scripts that may run, and nothing is loaded, so names in the
data can do no harm. The data are sections, each deflated and in base64, so that the page unpacks a section only when it
needs it.
"""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TextIO

from headway.files import packaged
from headway.model import Ledger, Profile
from headway.views.printable import visible

from .deflate import deflate
from .document import Subject, document
from .sampled import SampledTimeline

if TYPE_CHECKING:
    from .timeline import PackedTimeline

__all__ = ["MAX_BYTES", "front", "room_for_timeline", "write_page"]

MAX_BYTES = 20_000_000
"""The default size limit of a page, in bytes."""
_TITLE, _DATA = "<!--headway:title-->", "<!--headway:data-->"


def front() -> str:
    """Return the front end as it is installed."""
    return packaged(__package__, "front.html").decode()


def room_for_timeline(most: int, ledger: Ledger) -> int:
    """Return how many deflated bytes a page of at most ``most`` bytes has left for its timeline."""
    beside = len(front()) + 200 * len(ledger.threads) + 300_000
    return max((most - beside) * 3 // 4, 100_000)


def write_page(
    stream: TextIO,
    ledger: Ledger,
    subject: Subject,
    *,
    timeline: PackedTimeline | SampledTimeline | None = None,
    profile: Profile | None = None,
    wakers: Profile | None = None,
) -> None:
    """Write the page. Raises OSError if the stream does.

    ``wakers``: of the same recording as ``profile``, with the stacks of those who ended the waits.
    """
    before, rest = front().split(_TITLE)
    between, after = rest.split(_DATA)
    sections: dict[str, bytes] = {"document": _json(document(ledger, subject, timeline))}
    rows: tuple[bytes, ...] = ()
    if timeline is not None:
        sections["levels"] = timeline.cells
        if not isinstance(timeline, SampledTimeline) and timeline.slices is not None:
            sections["over_edges"] = timeline.slices.over_edges
            rows = timeline.slices.slices
    if profile is not None:
        from .flames import flames_document

        sections["profile"] = _json(flames_document(profile, wakers))
    place, directory = 0, {}
    for name, data in sections.items():
        directory[name], place = [place, _length(data)], place + _length(data)
    slices = []
    for data in rows:
        slices.append([place, _length(data)])
        place += _length(data)
    stream.write(before)
    stream.write(html.escape(visible(subject.title, 200)))
    stream.write(between)
    stream.write('<script type="application/json" id="directory">')
    stream.write(_harmless({"sections": directory, "slices": slices}))
    stream.write('</script>\n<script type="text/plain" id="data">')
    for data in (*sections.values(), *rows):
        stream.write(base64.b64encode(data).decode("ascii"))
    stream.write("</script>\n")
    stream.write(after)


def _length(data: bytes) -> int:
    return -(-len(data) // 3) * 4


def _json(value: Mapping[str, Any]) -> bytes:
    return deflate(json.dumps(value, separators=(",", ":"), allow_nan=False).encode("ascii"))


def _harmless(value: Mapping[str, Any]) -> str:
    """Return JSON that is safe within a script element: <, > and & are escaped."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
