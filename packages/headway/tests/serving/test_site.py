"""What is answered, and to whom."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import threading
from http import HTTPStatus

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.views.metrics.readings import ledger, thread, totals_of

from headway.serving.http import HttpResponse, Request
from headway.serving.site import Site
from headway.views.metrics.openmetrics import CONTENT_TYPE, PLAIN_CONTENT_TYPE
from headway.views.metrics.totals import TotalsSnapshot

TOKEN = b"correct-horse-battery-staple"


class Readings:
    """A feed that has what it was given."""

    def __init__(self, snapshot: TotalsSnapshot | None) -> None:
        self.snapshot, self.period, self.ended = snapshot, 1000.0, asyncio.Event()

    def spend(self, seconds: float) -> None:
        assert seconds >= 0

    async def latest(self) -> tuple[TotalsSnapshot, TotalsSnapshot | None] | None:
        return None if self.snapshot is None else (self.snapshot, None)


def snapshot(name: str = "a") -> TotalsSnapshot:
    return totals_of([ledger(0, 1, *(thread(tid, name, user=1) for tid in range(1, 50)))]).snapshot()


def site(token: bytes | None = None, reading: TotalsSnapshot | None = None) -> Site:
    return Site(Readings(reading or snapshot()), token=token)  # type: ignore[arg-type]


def ask(where: Site, target: str = "/metrics", *headers: tuple[str, str], method: str = "GET") -> HttpResponse:
    given = headers if any(name == "host" for name, _ in headers) else (("host", "localhost:9777"), *headers)
    return asyncio.run(where.respond(Request(method, target, given)))


def header(answer: HttpResponse, name: str) -> str:
    return ", ".join(value for other, value in answer.headers if other.lower() == name)


def figures(body: bytes) -> list[bytes]:
    """All lines but those of what writing them took."""
    return [line for line in body.splitlines() if b'process="serving"' not in line]


def test_metrics_are_openmetrics_for_those_who_take_it_and_plain_for_others() -> None:
    where = site()
    prometheus = (
        "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
        "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
    )
    answer = ask(where, "/metrics", ("accept", prometheus))
    assert header(answer, "content-type") == CONTENT_TYPE
    assert answer.body.endswith(b"# EOF\n")
    answer = ask(where, "/metrics?x=y", ("accept", "*/*"))
    assert header(answer, "content-type") == PLAIN_CONTENT_TYPE
    assert b"# TYPE headway_thread_state_seconds_total counter\n" in answer.body


def test_metrics_are_compressed_for_clients_that_accept_it() -> None:
    where = site()
    plain = ask(where)
    packed = ask(where, "/metrics", ("accept-encoding", "gzip;q=1.0, identity; q=0.5"))
    assert header(packed, "content-encoding") == "gzip"
    assert figures(gzip.decompress(packed.body)) == figures(plain.body)
    for words in ("gzip;q=0", "identity", "", "br", "gzip;q=0.000"):
        assert header(ask(where, "/metrics", ("accept-encoding", words)), "content-encoding") == ""


def test_the_same_reading_is_written_once() -> None:
    where = site()
    assert ask(where).body is ask(where).body


def test_the_page_has_nothing_from_elsewhere_and_may_do_nothing_else() -> None:
    where = site()
    page = ask(where, "/")
    assert header(page, "content-type").startswith("text/html")
    assert b"http" not in page.body.replace(b"http-equiv", b"")
    assert b" style=" not in page.body
    assert b"onclick" not in page.body
    for path in ("/", "/page.js", "/page.css", "/metrics", "/live.json", "/nothing"):
        answer = ask(where, path)
        policy = header(answer, "content-security-policy")
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert header(answer, "x-content-type-options") == "nosniff"
        assert header(answer, "cache-control") == "no-store"
    assert b"innerHTML" not in ask(where, "/page.js").body
    assert json.loads(ask(where, "/live.json").body)["living"] == 49


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_anybody_may_ask_whether_there_are_figures_and_learns_nothing_else(method: str) -> None:
    for where in (site(), site(token=TOKEN)):
        for host in ("10.0.0.7:9777", "localhost", ""):
            answer = ask(where, "/-/healthy?x", ("host", host), method=method)
            assert (answer.status, answer.body) == (HTTPStatus.OK, b"healthy\n")
    assert ask(site(token=TOKEN), "/-/healthy/../metrics").status == HTTPStatus.UNAUTHORIZED


def test_without_a_reading_it_is_not_healthy() -> None:
    assert ask(Site(Readings(None)), "/-/healthy").status == HTTPStatus.SERVICE_UNAVAILABLE  # type: ignore[arg-type]
    feed = Readings(snapshot())
    feed.ended.set()  # the last reading is still served
    where = Site(feed)  # type: ignore[arg-type]
    assert ask(where, "/-/healthy").status == HTTPStatus.SERVICE_UNAVAILABLE
    assert ask(where, "/metrics").status == HTTPStatus.OK


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_nothing_but_asking_is_done_there(method: str) -> None:
    assert ask(site(), "/-/healthy", method=method).status == HTTPStatus.METHOD_NOT_ALLOWED


@pytest.mark.parametrize(
    "target",
    ["/nothing", "/-/ready", "/-/healthy/", "/metrics/", "//", "/..", "/page.js/../..", "http://localhost/x", "*", ""],
)
def test_what_is_not_there_is_404(target: str) -> None:
    assert ask(site(), target).status == HTTPStatus.NOT_FOUND


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "get", "X"])
def test_nothing_can_be_changed(method: str) -> None:
    answer = ask(site(), "/metrics", method=method)
    assert answer.status == HTTPStatus.METHOD_NOT_ALLOWED
    assert header(answer, "allow") == "GET, HEAD"


def test_without_a_reading_it_says_so() -> None:
    where = Site(Readings(None))  # type: ignore[arg-type]
    assert ask(where).status == HTTPStatus.SERVICE_UNAVAILABLE
    assert ask(where, "/").status == HTTPStatus.OK


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:1", "127.0.0.1:9777", "127.1.2.3", "[::1]:80", "a.localhost", "localhost."]
)
def test_on_this_machine_it_answers_to_its_names(host: str) -> None:
    assert ask(site(), "/metrics", ("host", host)).status == HTTPStatus.OK


@pytest.mark.parametrize(
    "host", ["", "evil.example", "localhost.evil.example", "10.0.0.1", "0.0.0.0", "[::]", "::1x", "127.0.0.1.nip.io"]
)
def test_a_request_for_another_host_name_is_refused(host: str) -> None:
    assert ask(site(), "/metrics", ("host", host)).status == HTTPStatus.MISDIRECTED_REQUEST


def basic(user: str, password: bytes) -> str:
    return "Basic " + base64.b64encode(user.encode() + b":" + password).decode()


@pytest.mark.parametrize(
    "words", [f"Bearer {TOKEN.decode()}", f"bearer  {TOKEN.decode()} ", basic("anybody", TOKEN), basic("", TOKEN)]
)
def test_who_has_the_token_is_answered_by_whatever_name(words: str) -> None:
    assert ask(site(TOKEN), "/metrics", ("host", "x.example"), ("authorization", words)).status == HTTPStatus.OK


@given(
    st.sampled_from(
        ["", "Bearer", "Bearer ", "Basic", "Basic =", "Digest x", "Bearer \x00", "Bearer é", basic("a", b"b")]
    )
    | st.text(max_size=60)
    | st.binary(max_size=30).map(lambda data: basic("u", data))
)
def test_without_it_nothing_is_said_not_even_what_there_is(words: str) -> None:
    where = site(TOKEN)
    for target in ("/metrics", "/", "/nothing"):
        for method in ("GET", "POST"):
            answer = ask(where, target, ("authorization", words), method=method)
            assert answer.status == HTTPStatus.UNAUTHORIZED
            assert "Bearer" in header(answer, "www-authenticate")
            assert "Basic" in header(answer, "www-authenticate")


def test_metrics_are_written_though_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    answer = ask(site())
    assert answer.status == HTTPStatus.OK
    assert b"headway_thread_state_seconds_total" in answer.body
