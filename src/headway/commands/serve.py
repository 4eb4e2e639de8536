"""``headway serve``: what is measured now, for Prometheus, OpenTelemetry and a browser."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterable
from contextlib import suppress

import click

from headway.cli.options import TargetOptions, measuring_options
from headway.cli.parameters import Milliseconds, Seconds
from headway.cli.report import die_of
from headway.errors import HeadwayError
from headway.linux.options import MeasureOptions, Selection
from headway.linux.privileges import Capability, User, give_up, permitted, user_named
from headway.linux.procfs.cgroups import read_origin
from headway.linux.procfs.status import status as status_of
from headway.linux.sources.choose import start_source
from headway.linux.sources.source import LinuxSource, SourceAround
from headway.model import Ledger
from headway.serving.addresses import DEFAULT, listen, parse_address, read_token
from headway.serving.listener import Push, start_listener
from headway.serving.notify import Notifier
from headway.session.measure import observe
from headway.views.metrics.feed import hand_over
from headway.views.metrics.otlp import PushExporter, interval_seconds
from headway.views.metrics.site import cost_of_ourselves
from headway.views.metrics.totals import By, Totals

__all__ = ["command"]

NOBODY = "nobody"
_SOURCES = {"bpf": "eBPF", "proc": "/proc"}
IDLE_SECONDS = 10.0
"""Between two readings when nobody asks, at most: so often what has ended is taken in."""
AT_ONCE = 5_000
"""Ended threads that are taken in at once, about: each takes a kilobyte until then."""


@click.command("serve")
@measuring_options
@click.option(
    "--listen",
    "where",
    default=DEFAULT,
    show_default=True,
    metavar="HOST:PORT",
    help="Where; port 0: any that is free.",
)
@click.option("--token-file", metavar="FILE", help="Answer only who has the token in FILE.")
@click.option(
    "--by",
    type=click.Choice(["name", "container", "process", "thread"]),
    default="process",
    show_default=True,
    help="Threads are added up by the names of process and thread, by container or systemd unit and names, by process "
    "and name, or not at all.",
)
@click.option("--counts", is_flag=True, help="How often each state was entered, too.")
@click.option(
    "--max-series",
    type=click.IntRange(min=100, max=10_000_000),
    default=20_000,
    show_default=True,
    metavar="N",
    help="Series of threads at most; the rest is added up.",
)
@click.option(
    "--expire", type=Seconds(), default=300.0, metavar="SECONDS", help="So long what has ended stays.  [default: 300]"
)
@click.option(
    "-I",
    "--interval",
    type=Milliseconds(),
    default=1.0,
    metavar="MS",
    help="Who asks within MS gets the same reading.  [default: 1000]",
)
@click.option("-d", "--duration", type=Seconds(), metavar="SECONDS", help="Stop after so long.")
@click.option("--otlp", metavar="URL", help="Push to this OpenTelemetry collector, too.")
@click.option("--user", "user_name", metavar="NAME", help="Become this user.  [default: nobody, if started as root]")
@click.option("-q", "--quiet", is_flag=True, help="Say nothing but what goes wrong.")
@click.argument("argv", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND [ARG...]]")
@click.pass_context
def command(
    context: click.Context,
    /,
    where: str,
    token_file: str | None,
    by: str,
    counts: bool,
    max_series: int,
    expire: float,
    interval: float,
    duration: float | None,
    otlp: str | None,
    user_name: str | None,
    quiet: bool,
    argv: tuple[str, ...],
    wanted: TargetOptions,
) -> None:
    """\b
    headway serve -a                         the machine, on http://127.0.0.1:9777/
    headway serve -p 4711 --by thread        a process, each thread by itself
    headway serve --listen :9777 --token-file token -a     for other machines, with a token
    headway serve -- ./server                a command, as long as it runs

    Serve what every thread and processor does: OpenMetrics for Prometheus at /metrics, and a page with a live picture.

    Only this machine is answered unless --listen says otherwise, and then only who has the token. What listens runs
    without privileges in a process of its own; what measures keeps those that it needs. It ends with the command or the
    processes measured, after -d, or with Ctrl-C. docs/serve.md has the metrics.
    """
    if wanted.why:
        raise click.UsageError("what is behind the states is not served: --why belongs to headway stat")
    address = parse_address(where)
    selection = wanted.selection(argv)
    options = wanted.options(causes=False)
    token = None if token_file is None else read_token(token_file)
    user = _user(user_name)
    push = None if otlp is None else Push(PushExporter(otlp), interval_seconds())
    totals = Totals(
        By(by),
        most=max_series,
        expire=round(expire * 1e9),
        process_name=_process_name,
        place_of=_place_of,
    )
    manager = None if argv else Notifier()  # a command may tell the manager itself
    sockets = listen(address, guarded=token is not None)
    names = [_url(one) for one in sockets]
    listener = start_listener(sockets, user, interval=interval, token=token, counts=counts, push=push)
    source: list[Served] = []

    def start(chosen: Selection) -> Served:
        measuring, why = start_source(chosen, wanted.source, intervals=True, forget=True, options=options)
        served = Served(measuring, totals, listener.channel, interval, manager)
        source.append(served)
        try:
            kept = _settle_down(measuring, user, selection, options, command=bool(argv))
        except BaseException:
            measuring.close()
            raise
        how = f"measuring with /proc, sampled: {why}" if why else f"measuring with {_SOURCES[measuring.name]}"
        if manager is not None:
            manager.ready(f"serving {' and '.join(names)}, {how}")
        if not quiet:
            if why:
                _say(f"{how}; headway doctor says more")
            _say(f"serving {' and '.join(names)}; {_rights(user, kept)}")
        return served

    said = ""

    def enough() -> bool:
        nonlocal said
        if source and source[0].alone and not said:
            said = listener.why_ended(1.0) or "it closed its channel"
        return bool(said)

    try:
        observation = observe(selection, argv, seconds=duration, start=start, enough=enough)
    finally:
        listener.close()
    if said:
        raise HeadwayError(f"what serves has ended ({said}): start headway serve again")
    status = observation.exit_status
    if status is not None and status < 0:
        die_of(-status)
    context.exit(status or 0)


class Served(SourceAround):
    """A source (`LinuxSource`) of which readings are handed over when they are asked for."""

    def __init__(
        self,
        source: LinuxSource,
        totals: Totals,
        channel: socket.socket,
        interval: float,
        manager: Notifier | None = None,
    ) -> None:
        """``source``: begun; ``channel``: to the process that listens; ``interval``: s between readings, at least.

        ``manager``, if there is one, is told that headway is alive.
        """
        super().__init__(source)
        self._totals, self._channel, self._interval, self._manager = totals, channel, interval, manager
        self._last = float("-inf")
        self._idle = IDLE_SECONDS
        self._asked = False
        self.alone = False
        """Whether nobody is left to hand readings to."""

    def begin(self) -> None:
        """Nothing: the source has begun."""

    def poll_fds(self) -> Iterable[int]:
        """The source's, and the channel's."""
        return (*super().poll_fds(), self._channel.fileno())

    def service(self) -> float | None:
        """Let the source do its work, and read it where somebody has asked, or nobody has for long."""
        pause = self._source.service()
        self._hear()
        due = self._last + (self._interval if self._asked else self._idle)
        if (now := time.monotonic()) >= due:
            self._take(self._source.interval(), now - self._last)
            self._last = now
            due = now + (self._interval if self._asked else self._idle)
        pauses = (pause, max(due - now, 0.0), None if self._manager is None else self._manager.alive())
        return min(seconds for seconds in pauses if seconds is not None)

    def end(self) -> Ledger:
        """What came last is taken in, and handed over."""
        if self._manager is not None:
            self._manager.stopping()
        ledger = self._source.end_interval()
        self._asked = True
        self._take(ledger, IDLE_SECONDS)
        return ledger

    def end_interval(self) -> Ledger:
        """The same."""
        return self.end()

    def _hear(self) -> None:
        """Whether a reading is wanted; what the bytes say does not matter."""
        while not self.alone:
            try:
                self.alone = not self._channel.recv(16)
            except BlockingIOError:
                return
            except OSError:
                self.alone = True
            else:
                self._asked = True

    def _take(self, ledger: Ledger, seconds: float) -> None:
        """The interval of so many seconds."""
        self._totals.add(ledger)
        ended = sum(thread.end is not None for thread in ledger.threads)
        self._idle = max(self._interval, min(IDLE_SECONDS, AT_ONCE * seconds / max(ended, 1)))
        if self._asked and not self.alone:
            epoch = time.time_ns() - time.monotonic_ns()
            if hand_over(self._channel, self._totals.snapshot(epoch=epoch, cost=cost_of_ourselves())):
                self._asked = False


def _user(name: str | None) -> User | None:
    """Who we shall be; None: who we are. Raises HeadwayError."""
    if os.geteuid() == 0:
        user = user_named(name or NOBODY)
        if not {Capability.SETUID, Capability.SETGID} <= permitted():
            raise HeadwayError(
                f"becoming {user.name} needs CAP_SETUID and CAP_SETGID, which this root user does not have: give it "
                "both, or start headway as another user"
            )
        return user
    if name is None or user_named(name).uid == os.geteuid():
        return None
    raise HeadwayError("becoming another user needs root: leave --user out, or run as root (sudo headway serve ...)")


def _settle_down(
    source: LinuxSource, user: User | None, selection: Selection, options: MeasureOptions, *, command: bool
) -> frozenset[Capability]:
    """Keep what measuring goes on to need, and nothing else; what is kept."""
    import headway.linux.regions.blocks  # noqa: F401  # what is loaded later may lie where the other user cannot read

    keep = set()
    if command:
        keep.add(Capability.KILL)  # signals are passed on
    if source.name == "bpf":
        keep.add(Capability.PERFMON)  # page faults on a processor that was off and comes back
        if not source.tells_without_privileges:  # type: ignore[attr-defined]
            keep.add(Capability.BPF)
        if selection.name or selection.cgroup:  # whose regions are to be found when they come to be measured
            keep |= {Capability.SYS_PTRACE, Capability.DAC_READ_SEARCH}
    else:
        keep |= {Capability.SYS_PTRACE, Capability.DAC_READ_SEARCH}  # what others' threads wait for
        if options.events:
            keep.add(Capability.PERFMON)
    return give_up(user, keep & permitted())


def _rights(user: User | None, kept: Iterable[Capability]) -> str:
    who = f"as {user.name}" if user is not None else "as this user"
    names = ", ".join(sorted(f"CAP_{one.name}" for one in kept)) or "no capabilities"
    return f"what listens runs {who} without capabilities, what measures with {names}"


def _process_name(pid: int) -> str:
    return status_of(f"/proc/{pid}").get("Name", "")


def _place_of(pid: int) -> tuple[tuple[str, str], ...] | None:
    origin = read_origin(pid)
    return None if origin is None else origin.labels()


def _url(one: socket.socket) -> str:
    host, port = one.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def _say(text: str) -> None:
    with suppress(OSError):
        click.echo(f"headway: {text}", err=True)
