"""``headway serve``: what is measured now, for Prometheus, OpenTelemetry and a browser."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import click

from headway.cli.ending import end_as
from headway.cli.options import BUDGET_OF_A_MACHINE, MeasuringCommand, TargetOptions, measuring_options, when_option
from headway.cli.parameters import Milliseconds, Seconds
from headway.cli.say import say
from headway.cli.work import check_work, followed, work_option
from headway.errors import HeadwayError
from headway.linux.options import Selection
from headway.linux.procfs.cgroups import read_origin
from headway.linux.procfs.status import status as status_of
from headway.linux.sources.choose import start_source
from headway.serving.addresses import DEFAULT, listen, parse_address
from headway.serving.listener import Push, start_listener
from headway.serving.notify import Notifier
from headway.serving.rights import reduce_rights, rights_in_words, user_to_become
from headway.serving.served import Served
from headway.serving.token import read_token
from headway.session.measure import observe
from headway.views.metrics.otlp import PushExporter, interval_seconds
from headway.views.metrics.totals import By, Totals

if TYPE_CHECKING:
    from headway.conditions import Condition
    from headway.model.work import Work

__all__ = ["command"]

_SOURCES = {"bpf": "eBPF", "proc": "/proc"}


@click.command("serve", cls=MeasuringCommand)
@measuring_options
@click.option(
    "--listen",
    "where",
    default=DEFAULT,
    show_default=True,
    metavar="HOST:PORT",
    help="Address to listen on; port 0 is any free port.",
)
@click.option("--token-file", metavar="FILE", help="Answer only requests with the token in FILE.")
@click.option(
    "--by",
    "--group-by",
    "by",
    type=click.Choice([by.value for by in By]),
    default="process",
    show_default=True,
    help="Add threads up: by process and thread name; by process id and thread name; by container or systemd unit and "
    "names; by pod, container or unit alone; by control group; or not at all (thread).",
)
@click.option("--counts", is_flag=True, help="Serve also how often each state was entered.")
@click.option(
    "--durations",
    is_flag=True,
    help="Serve also how long the occurrences of each state lasted, as histograms. Each takes 28 of the series.",
)
@click.option(
    "--max-series",
    type=click.IntRange(min=100, max=10_000_000),
    default=20_000,
    show_default=True,
    metavar="N",
    help="Serve at most N series of threads, and the sum of the others.",
)
@click.option(
    "--metric-expiration",
    "expire",
    type=Seconds(),
    default=300.0,
    metavar="SECONDS",
    help="Serve the series of threads that have ended for this long.  [default: 300]",
)
@click.option(
    "-I",
    "--interval",
    type=Milliseconds(),
    default=1.0,
    metavar="MS",
    help="Measure at most every MS milliseconds; requests in between get the same reading.  [default: 1000]",
)
@when_option
@work_option
@click.option("-d", "--duration", type=Seconds(), metavar="SECONDS", help="Stop after this many seconds.")
@click.option("--otlp", metavar="URL", help="Push to this OpenTelemetry collector as well.")
@click.option(
    "--user",
    "user_name",
    metavar="NAME",
    help="Run as this user.  [default, if started as root: headway, or an id that nothing else has]",
)
@click.option("-q", "--quiet", is_flag=True, help="Print only errors and warnings.")
@click.argument("argv", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND [ARG...]]")
def command(
    where: str,
    token_file: str | None,
    by: str,
    counts: bool,
    durations: bool,
    max_series: int,
    expire: float,
    interval: float,
    when: tuple[Condition, ...],
    work: Work | None,
    duration: float | None,
    otlp: str | None,
    user_name: str | None,
    quiet: bool,
    argv: tuple[str, ...],
    wanted: TargetOptions,
) -> None:
    """\b
    headway serve -a                          on http://127.0.0.1:9777/
    headway serve -p 4711 --by thread         a process, each thread by itself
    headway serve --listen :9777 --token-file token -a    for other machines
    headway serve -- ./server                 a command, as long as it runs
    headway serve -a --by pod --why ready     pods, and their noisy neighbours
    headway serve -a --when 'ready > 20 %'    cheap, and calls of the threads that wait for a processor

    Serve what every thread and processor does: OpenMetrics for Prometheus at /metrics, and a live page at /.

    By default only requests from this machine are answered; on other addresses, set by --listen, a token is needed. The
    process that listens has no privileges. The process that measures keeps those that it needs. Serving ends with the
    command or the measured processes, after -d, or with Ctrl-C. docs/serve.md lists the metrics.
    """
    if set(wanted.why) - {"ready"}:
        raise click.UsageError("of the causes only the neighbours are served: give --why ready, or ask headway stat")
    address = parse_address(where)
    selection = wanted.selection(argv)
    if not quiet:
        wanted.tell_others()
    check_work(work, wanted)
    budget = None if work is not None and work.tag else BUDGET_OF_A_MACHINE
    options = wanted.options(causes=False, when=when, default_budget=budget, durations=int(durations))
    token = None if token_file is None else read_token(token_file)
    user = user_to_become(user_name)
    push = None if otlp is None else Push(PushExporter(otlp), interval_seconds())
    totals = Totals(
        By(by),
        most=max_series,
        expire=round(expire * 1e9),
        process_name=_process_name,
        place_of=_cgroup_of if By(by) is By.CGROUP else _place_of,
    )
    manager = None if argv else Notifier()  # a command may tell the manager itself
    sockets = listen(address, guarded=token is not None)
    names = [_url(one) for one in sockets]
    listener = start_listener(sockets, user, interval=interval, token=token, counts=counts, push=push)
    source: list[Served] = []

    def start(chosen: Selection) -> Served:
        prefer = "bpf" if when else wanted.source  # /proc cannot do that, so it is no way out
        measuring, why = start_source(chosen, prefer, intervals=True, forget=True, options=options)
        served = Served(measuring, totals, listener.channel, interval, manager, followed(work))
        source.append(served)
        try:
            kept = reduce_rights(measuring, user, selection, options, command=bool(argv))
        except BaseException:
            measuring.close()
            raise
        how = wanted.by_proc(why) if why else f"measuring with {_SOURCES[measuring.name]}"
        if manager is not None:
            manager.ready(f"serving {' and '.join(names)}, {how}")
        if not quiet:
            if why:
                say(how)
            say(f"serving {' and '.join(names)}; {rights_in_words(user, kept)}")
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
        raise HeadwayError(f"the process that listens has ended ({said}): start headway serve again")
    end_as(observation.exit_status)


def _process_name(pid: int) -> str:
    return status_of(f"/proc/{pid}").get("Name", "")


def _place_of(pid: int) -> tuple[tuple[str, str], ...] | None:
    origin = read_origin(pid)
    return None if origin is None else origin.labels()


def _cgroup_of(pid: int) -> tuple[tuple[str, str], ...] | None:
    origin = read_origin(pid)
    return None if origin is None else (("cgroup", origin.path),)


def _url(one: socket.socket) -> str:
    host, port = one.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"
