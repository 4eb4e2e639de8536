"""The page of a recording: the time to write it, its size, the time to open it, and the time of a zoom step.

The recording has made-up transitions (`benchmarks.made_up`), and the page is opened in headless Chromium. Run
``python -m benchmarks.html [ROWS [FILE]]``; the default is 10^7 rows, and FILE keeps the page.
"""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.browser import ask, browser, load, missing

from headway.cli.pages import write_recording_page
from headway.model import Ledger, Precision, Quality, Window
from headway.recording.document import Document
from headway.recording.reader import Recording
from headway.recording.writer import RecordingWriter

from .common import heading, table
from .common import load as busy
from .made_up import batches

ROWS = 10**7
TIMES = 5
STEPS = 24


def write_recording(path: Path, rows: int, *, cpus: int = 4, threads: int = 6) -> None:
    """Write a closed recording of about ``rows`` rows, with the ledger to which its rows add up."""
    made = batches(rows, cpus=cpus, threads=threads)
    first = next(made)
    precision = Precision(effective=Quality.BOUND, memory=Quality.UNAVAILABLE)

    def empty_ledger(end: int) -> Ledger:
        return Ledger("bpf", Window(first.start, end), precision=precision, reasons={"epi": "stalls are in it"})

    writer = RecordingWriter(path, Document(empty_ledger(first.start), host="made-up"))
    writer.add(first)
    end = first.end
    for batch in made:
        writer.add(batch)
        end = batch.end
    writer.close(empty_ledger(end))


def _write(recorded: Path, page: Path) -> tuple[float, float]:
    """Write the page in a process of its own; return seconds and the peak memory in MiB."""
    read, write = os.pipe()
    began = time.perf_counter()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            with Recording(recorded) as recording:
                write_recording_page(str(page), str(recorded), recording.ledger(), recording, ())
            os.write(write, str(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024).encode())
            status = 0
        finally:
            os._exit(status)
    os.close(write)
    _, status = os.waitpid(pid, 0)
    if status:
        raise SystemExit("the page was not written")
    return time.perf_counter() - began, float(os.read(read, 20))


def _opened(page: Path) -> tuple[float, list[float], list[float]]:
    """Return the seconds until all is drawn, and the ms until each zoom step is drawn and until it is complete."""
    with browser() as driver:
        began = time.perf_counter()
        load(driver, page)
        opened = time.perf_counter() - began
        drawn, complete = ask(
            driver,
            """
            const { timeline, store } = page;
            const drawn = [], complete = [];
            const middle = store.length * 0.43;
            for (let step = 0; step < given[0] && timeline.end - timeline.start > 2000; step++) {
              const began = performance.now();
              const span = (timeline.end - timeline.start) / 2;
              const whole = timeline.show(middle - span / 2, middle + span / 2);
              await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
              drawn.push(performance.now() - began);
              await whole;
              complete.push(performance.now() - began);
            }
            return [drawn, complete];
            """,
            STEPS,
        )
    return opened, drawn, complete


def main() -> None:
    """Print the table."""
    given = sys.argv[1:] if __name__ == "__main__" else []
    rows = int(float(given[0])) if given else ROWS
    print("\n## Page\n")
    if missing():
        print(missing())
        return
    with TemporaryDirectory() as scratch:
        recorded, page = Path(scratch) / "run.hw", Path(scratch) / "run.html"
        write_recording(recorded, rows)
        with Recording(recorded) as recording:
            rows = recording.rows
        size = sum(path.stat().st_size for path in recorded.rglob("*") if path.is_file())
        taken, memory = _write(recorded, page)
        rounds = [_opened(page) for _ in range(TIMES)]
        if len(given) > 1:
            shutil.copy(page, given[1])
        opened = [one for one, _, _ in rounds]
        drawn = [step for _, steps, _ in rounds for step in steps]
        complete = [step for _, _, steps in rounds for step in steps]
        found = [
            ["the recording", f"{size / 1e6:.1f} MB", "–"],
            ["the page", f"{page.stat().st_size / 1e6:.1f} MB", "20 MB"],
            ["written in", f"{taken:.1f} s", "–"],
            ["memory at most", f"{memory:.0f} MiB", "–"],
            [
                "opened, median and most of " + str(TIMES),
                f"{statistics.median(opened):.2f}, {max(opened):.2f} s",
                "3 s",
            ],
            ["a zoom step until it is drawn, median", f"{statistics.median(drawn):.0f} ms", "100 ms"],
            ["the slowest", f"{max(drawn):.0f} ms", "100 ms"],
            ["a zoom step until all is unpacked too, median", f"{statistics.median(complete):.0f} ms", "–"],
            ["the slowest", f"{max(complete):.0f} ms", "–"],
        ]
    print(f"{rows:,} made-up transitions of 24 threads on 4 processors:\n")
    print(table(["what", "figure", "goal"], found))
    print(f"\n({busy()} at the end)")


if __name__ == "__main__":
    print(heading())
    main()
