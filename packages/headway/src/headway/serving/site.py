"""What is served, and to whom: metrics, the page, and the page's data. No request changes anything.

On loopback every client is answered. The request must name this machine, so that a page from elsewhere cannot have a
browser fetch the figures (DNS rebinding). On other addresses, and if a token was given, only requests with the token
are answered: as ``Authorization: Bearer TOKEN``, as Prometheus sends it, or as the password of any user, as
browsers do. ``/-/healthy`` answers every client with one word: a kubelet, for example, has no token, and asks
by address.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import gzip
import hashlib
import hmac
import ipaddress
import re
import resource
import time
from collections.abc import Mapping
from concurrent.futures.thread import ThreadPoolExecutor
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

from headway.files import packaged
from headway.serving.http import HttpResponse, Request
from headway.views.metrics.families import families
from headway.views.metrics.live import live, stylesheet
from headway.views.metrics.openmetrics import CONTENT_TYPE, PLAIN_CONTENT_TYPE, write
from headway.views.metrics.totals import Cost, TotalsSnapshot

from .feed import Feed

__all__ = ["HEALTH", "Site", "cost_of_ourselves"]

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_ALWAYS = (
    ("Cache-Control", "no-store"),
    ("Content-Security-Policy", _POLICY),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("X-Content-Type-Options", "nosniff"),
)
_OF_PAGES = (
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Referrer-Policy", "no-referrer"),
    ("X-Frame-Options", "DENY"),
)
_PAGE = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
}
HEALTH = "/-/healthy"
_PORT = re.compile(r":\d{1,5}$", re.ASCII)
_GZIP = b"\x1f\x8b"
_MIN_COMPRESSED = 1024
_LEVEL = 1
"""Level of gzip: it compresses such text to a thirtieth, the slowest level to a fortieth."""


def _files_of_the_page() -> Mapping[str, tuple[bytes, str]]:
    """Return the files of the page: path -> content, and its media type."""
    found = {path: (packaged(__package__, f"page/{name}"), sort) for path, (name, sort) in _PAGE.items()}
    styles, sort = found["/page.css"]
    return {**found, "/page.css": (stylesheet().encode() + styles, sort)}


_FILES = _files_of_the_page()
"""They are read at import: the serving process may not be able to read Python's folder later."""

_Form = tuple[str, bool]
"""The format, and whether it is compressed."""


@dataclass(frozen=True, slots=True)
class _Written:
    """A body, the reading that it is of, and when that reading came (s, monotonic)."""

    of: TotalsSnapshot
    since: float
    body: bytes


def cost_of_ourselves() -> Cost:
    """Return what this process has used so far."""
    pages = Path("/proc/self/statm").read_text().split()[1]
    return Cost(time.process_time_ns(), int(pages) * resource.getpagesize())


class Site:
    """Answers requests from the readings of a feed."""

    def __init__(self, feed: Feed, *, token: bytes | None = None, counts: bool = False) -> None:
        """``token``: requests must have it; None: every request from this machine is answered."""
        self._feed, self._counts = feed, counts
        self._token = None if token is None else hashlib.sha256(token).digest()
        self._written: dict[_Form, _Written] = {}
        self._writing: dict[_Form, asyncio.Task[bytes]] = {}
        self._writer = ThreadPoolExecutor(1)

    async def respond(self, request: Request) -> HttpResponse:
        """Return the answer to a request."""
        path = request.target.partition("?")[0]
        if path == HEALTH and request.method in ("GET", "HEAD"):
            return await self._health()
        refused = self._refusal(request)
        if refused is not None:
            return refused
        if path in _FILES:
            body, sort = _FILES[path]
            return HttpResponse(HTTPStatus.OK, body, (("Content-Type", sort), *_ALWAYS, *_OF_PAGES))
        if path not in ("/metrics", "/live.json"):
            return _said(HTTPStatus.NOT_FOUND, "there is nothing here: try / or /metrics")
        readings = await self._feed.latest()
        if readings is None:
            return _NO_READING
        now, before = readings
        packed = _accepts_gzip(request.header("accept-encoding"))
        if path == "/live.json":
            name, sort = "live", "application/json"
        elif "application/openmetrics-text" in request.header("accept"):
            name, sort = "open", CONTENT_TYPE
        else:
            name, sort = "plain", PLAIN_CONTENT_TYPE
        body = await self._body(now, before, (name, packed))
        encoding = (("Content-Encoding", "gzip"),) if packed and body.startswith(_GZIP) else ()
        varies = ("Vary", "Accept, Accept-Encoding")
        return HttpResponse(HTTPStatus.OK, body, (("Content-Type", sort), varies, *encoding, *_ALWAYS))

    async def _health(self) -> HttpResponse:
        """Answer 200 if there is a reading that is not too old, which shows that both processes work."""
        if self._feed.ended.is_set() or await self._feed.latest() is None:
            return _NO_READING
        return _said(HTTPStatus.OK, "healthy")

    async def _body(self, now: TotalsSnapshot, before: TotalsSnapshot | None, form: _Form) -> bytes:
        """Return the body for a reading, which is written once for all who ask for it.

        While it is being written in another thread, requests get the previous body, unless that is too old.
        """
        written = self._written.get(form)
        if written is not None and written.of is now:
            return written.body
        writing = self._writing.get(form)
        if writing is None:
            writing = self._writing[form] = asyncio.create_task(self._write(now, before, form))
        if written is not None and time.monotonic() - written.since < self._feed.period:
            return written.body
        return await asyncio.shield(writing)

    async def _write(self, now: TotalsSnapshot, before: TotalsSnapshot | None, form: _Form) -> bytes:
        since = time.monotonic()
        try:
            body, spent = await self._text_beside(now, before, form)
            self._written[form] = _Written(now, since, body)
            self._feed.spend(spent)
            return body
        finally:
            del self._writing[form]

    async def _text_beside(
        self, now: TotalsSnapshot, before: TotalsSnapshot | None, form: _Form
    ) -> tuple[bytes, float]:
        """Return what `_text` does, by another thread; if none can be started, others wait meanwhile."""
        try:
            writing = asyncio.get_running_loop().run_in_executor(self._writer, self._text, now, before, form)
        except RuntimeError:
            return self._text(now, before, form)
        return await writing

    def _text(self, now: TotalsSnapshot, before: TotalsSnapshot | None, form: _Form) -> tuple[bytes, float]:
        """Return the body, and the processor time in s that it took."""
        start = time.thread_time()
        name, packed = form
        if name == "live":
            body = live(now, before).encode()
        else:
            found = families(now, counts=self._counts, serving=cost_of_ourselves())
            body = write(found, plain=name == "plain").encode()
        if packed and len(body) >= _MIN_COMPRESSED:
            body = gzip.compress(body, _LEVEL, mtime=0)
        return body, time.thread_time() - start

    def _refusal(self, request: Request) -> HttpResponse | None:
        """Return the answer that refuses a request; None: it is not refused."""
        if self._token is None:
            if not _means_this_machine(request.header("host")):
                return _said(HTTPStatus.MISDIRECTED_REQUEST, "only localhost, 127.0.0.1 and [::1] are answered")
        elif not hmac.compare_digest(hashlib.sha256(_token_of(request.header("authorization"))).digest(), self._token):
            return _said(
                HTTPStatus.UNAUTHORIZED,
                "give the token: Authorization: Bearer TOKEN, or as the password of any user",
                ("WWW-Authenticate", 'Bearer realm="headway"'),
                ("WWW-Authenticate", 'Basic realm="headway", charset="UTF-8"'),
            )
        if request.method not in ("GET", "HEAD"):
            return _said(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD are allowed here", ("Allow", "GET, HEAD"))
        return None


def _said(status: HTTPStatus, words: str, *headers: tuple[str, str]) -> HttpResponse:
    return HttpResponse(
        status, f"{words}\n".encode(), (("Content-Type", "text/plain; charset=utf-8"), *headers, *_ALWAYS)
    )


_NO_READING = _said(HTTPStatus.SERVICE_UNAVAILABLE, "there is no reading, yet or any more", ("Retry-After", "1"))


def _means_this_machine(host: str) -> bool:
    """Return whether a Host header names this machine from its own view. Any port is accepted; it may be forwarded."""
    name = _PORT.sub("", host.strip()).lower().rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):  # RFC 6761, 6.3
        return True
    try:
        return ipaddress.ip_address(name.removeprefix("[").removesuffix("]")).is_loopback
    except ValueError:
        return False


def _token_of(authorization: str) -> bytes:
    """Return the token in an Authorization header; empty if there is none."""
    scheme, _, rest = authorization.strip().partition(" ")
    rest = rest.strip()
    if scheme.lower() == "bearer":
        return rest.encode("utf-8", "replace")
    if scheme.lower() == "basic":
        try:
            return base64.b64decode(rest, validate=True).partition(b":")[2]
        except (binascii.Error, ValueError):
            return b""
    return b""


def _accepts_gzip(header: str) -> bool:
    """Return whether an Accept-Encoding header accepts gzip (RFC 9110, 12.5.3)."""
    for part in header.lower().split(","):
        name, _, parameters = part.partition(";")
        if name.strip() in ("gzip", "*"):
            weight = re.fullmatch(r"\s*q\s*=\s*(0(\.0{0,3})?)\s*", parameters, re.ASCII)
            return weight is None
    return False
