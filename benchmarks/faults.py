"""Do the answers of ``headway mcp`` name the cause? 20 programs with one fault each are recorded and asked about.

Each program (`faults.c`, and one in Python) runs for a second or two under ``headway stat --json`` with the causes of
waits and of being ready, and again under ``headway record``. Then the benchmark starts ``headway mcp`` and asks, by the
official library's client over standard input and output, as any client would: advise about the saved document, and
query the recording with the question wait-chains. The words that name the cause are written down beforehand, with the
question that is to be answered by them. The table has the place of the answer that names it among the answers to that
question: 1 is the first.

``python -m benchmarks.faults [--seconds 1.5] [--fault WORD]``, as root. What else runs on the machine is one more
fault, and advice that names it first is right. A fault that cannot be made here is left out, and that is said.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mcp import Client, StdioServerParameters
from rich.progress import Progress

from .common import compiled, heading, load

SECONDS = 1.5
QUOTA = 0.3
"""Of a processor, for the program that is throttled."""
PERIOD = 100_000
"""In which the quota is given, in microseconds."""
_GIL = """
import threading, time
until = time.monotonic() + {seconds}
def work():
    while time.monotonic() < until:
        sum(range(1000))
threads = [threading.Thread(target=work) for _ in range(3)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""
ADVICE, CHAIN = "advise", "wait-chains"


@dataclass(frozen=True)
class Fault:
    """A fault, and the words by which an answer names it."""

    name: str
    what: str
    question: str
    words: str
    """A regular expression."""


FAULTS = (
    Fault("contended", "three threads want one lock nearly all the time", CHAIN, r"wait\.futex <- locker"),
    Fault("convoy", "a thread sleeps while it holds a lock", CHAIN, r"wait\.futex <- holder wait\.sleep"),
    Fault("epoll", "asks epoll with a timeout of 0 in a loop", ADVICE, r"polling, most in epoll_wait"),
    Fault("receive", "asks a socket that does not block in a loop", ADVICE, r"polling, most in recvfrom"),
    Fault("yields", "spins with sched_yield until another thread is done", ADVICE, r"spins and yields"),
    Fault("small-writes", "writes single bytes to a file", ADVICE, r"kernel\.write.*larger buffers"),
    Fault("forced", "forces each small write to the disk", ADVICE, r"forced to the disk|for the disk"),
    Fault("page-faults", "gives memory back and touches it anew", ADVICE, r"kernel\.fault.*new memory is touched"),
    Fault("mappings", "maps and unmaps memory in a loop", ADVICE, r"taken from the kernel and given back"),
    Fault("processes", "starts a process for each little thing", ADVICE, r"processes and threads begin and end"),
    Fault("neighbour", "another process wants the same processor", ADVICE, r"meanwhile [^:]*neighbour"),
    Fault("own-threads", "four threads that compute on one processor", ADVICE, r"its own threads have work for"),
    Fault("quota", "the group's quota is a third of a processor", ADVICE, r"quota|throttled"),
    Fault("naps", "wakes up all the time for nothing", ADVICE, r"wakes up often for little work"),
    Fault("slow-pipe", "a pipe is filled too slowly", CHAIN, r"consumer wait\.pipe <- producer"),
    Fault("slow-child", "waits for one child after the other", CHAIN, r"parent wait\.child <- child"),
    Fault("slow-server", "the server sleeps before it answers", CHAIN, r"client wait\.net <- server wait\.sleep"),
    Fault("gil", "three Python threads compute", ADVICE, r"interpreter lock"),
    Fault("cold-file", "reads a file that is never in memory", CHAIN, r"reader wait\.disk"),
    Fault("file-lock", "two processes share a file by its lock", CHAIN, r"writer wait\.flock <- keeper"),
)


@contextmanager
def _throttled() -> Iterator[Path | None]:
    """Make a control group with a quota. Yield the file that takes processes; None: there can be none here."""
    folder = _group_with_quota()
    try:
        yield None if folder is None else folder / "cgroup.procs"
    finally:
        if folder is not None:
            folder.rmdir()


def _group_with_quota() -> Path | None:
    for root, quota, words in (
        ("/sys/fs/cgroup", "cpu.max", f"{int(QUOTA * PERIOD)} {PERIOD}"),
        ("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", str(int(QUOTA * PERIOD))),
    ):
        folder = Path(root) / f"headway-faults-{os.getpid()}"
        try:
            folder.mkdir()
        except OSError:
            continue
        if (folder / quota).exists():
            (folder / quota).write_text(words)
            return folder
        folder.rmdir()
    return None


def _record(fault: Fault, program: Path, seconds: float, folder: Path, group: Path | None) -> None:
    """Measure and record the program. Raises RuntimeError if that fails."""
    words = [str(program), fault.name, str(seconds), str(folder / "scratch")]
    if fault.name == "gil":
        words = [sys.executable, "-c", _GIL.format(seconds=seconds)]
    if fault.name == "quota":
        if group is None:
            raise RuntimeError("no control group with a quota can be made here")
        words = ["sh", "-c", f'echo $$ > {group} && exec "$@"', "sh", *words]
    for more in (
        ["stat", "--json", "--why", "wait", "--why", "ready", "-o", str(folder / f"{fault.name}.json")],
        ["record", "-o", str(folder / f"{fault.name}.hw")],
    ):
        measure = [sys.executable, "-m", "headway", *more, "--", *words]
        done = subprocess.run(measure, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr.strip() or f"exit status {done.returncode}")
        with suppress(OSError):
            (folder / "scratch").unlink()


async def _asked(folder: Path, fault: Fault) -> dict[str, list[str]]:
    """Return the first answers to both questions, in words."""
    server = StdioServerParameters(command=sys.executable, args=["-m", "headway", "mcp", str(folder)])
    async with Client(server) as client:

        async def ask(name: str, ending: str, **arguments: Any) -> dict[str, Any]:
            said = await client.call_tool(name, {"file": f"{fault.name}.{ending}", **arguments})
            if said.is_error:
                raise RuntimeError(said.content[0].text)  # type: ignore[union-attr]
            found: dict[str, Any] = json.loads(said.content[0].text)  # type: ignore[union-attr]
            return found

        advice = await ask("advise", "json")
        chains = await ask("query", "hw", question="wait-chains", limit=5)
    chain = chains["columns"].index("chain")
    return {ADVICE: [piece["text"] for piece in advice["advice"]], CHAIN: [row[chain] for row in chains["rows"]]}


def main(words: Sequence[str] = ()) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.faults", description=__doc__)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--fault", action="append", default=[])
    parser.add_argument("-v", "--verbose", action="store_true", help="print all answers")
    given = parser.parse_args(words)
    chosen = [fault for fault in FAULTS if not given.fault or any(word in fault.name for word in given.fault)]
    print(f"\n## Faults\n\n{heading()}; {load()} at the beginning\n")
    print("| fault | asked | place | the answer, or the first one |\n|---|---|---|---|")
    places: list[int] = []
    with (
        compiled("faults") as program,
        TemporaryDirectory() as scratch,
        _throttled() as group,
        Progress(disable=not sys.stderr.isatty()) as bar,
    ):
        task = bar.add_task("faults", total=len(chosen))
        for fault in chosen:
            folder = Path(scratch)
            try:
                _record(fault, program, given.seconds, folder, group)
                answers = asyncio.run(_asked(folder, fault))
            except RuntimeError as error:
                print(f"| {fault.what} | | not made | {error} |", flush=True)
                continue
            texts = answers[fault.question]
            place = next((at for at, text in enumerate(texts, 1) if re.search(fault.words, text)), 0)
            places.append(place)
            said = texts[max(place - 1, 0)] if texts else "(none)"
            print(f"| {fault.what} | {fault.question} | {place or 'not named'} | {said} |", flush=True)
            if given.verbose:
                for question, all_of_them in answers.items():
                    for text in all_of_them:
                        print(f"    {question}: {text}", file=sys.stderr)
            bar.advance(task)
    first, second = places.count(1), places.count(2)
    print(f"\nOf {len(places)} causes {first} are named by the first answer, {second} by the second one.")


if __name__ == "__main__":
    main(sys.argv[1:])
