"""The cost of the live screen: ``headway top`` in a terminal of its own with 2,000 real threads, once a second.

The processor time is the kernel's account of all threads of the process (schedstat, ns). It does not include what the
eBPF programs cost the measured threads; cost.py measures that.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import statistics
import struct
import subprocess
import sys
import termios
import threading
import time
from pathlib import Path

from .common import compiled, heading, living, load, table

HEADWAY = [sys.executable, "-c", "from headway.commands import main; main()"]
THREADS = 2_000
SECONDS = 20.0
_PICTURE = re.compile(rb"after [\d.]+ ")


class _Terminal:
    """A program on a pseudo-terminal whose output is read."""

    def __init__(self, words: list[str], columns: int, lines: int) -> None:
        self.pictures = 0
        self.shown = b""
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        environment = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
        environment.pop("NO_COLOR", None)
        self.process = subprocess.Popen(
            words, stdin=slave, stdout=slave, stderr=slave, env=environment, start_new_session=True
        )
        os.close(slave)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                piece = os.read(self._master, 1 << 16)
            except OSError:
                return
            if not piece:
                return
            self.shown += piece
            self.pictures += len(_PICTURE.findall(piece))

    def type(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def processor_time(self) -> int:
        paths = Path(f"/proc/{self.process.pid}/task").glob("*/schedstat")
        return sum(int(path.read_text().split()[0]) for path in paths)

    def close(self) -> int:
        self.type(b"q")
        try:
            status = self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGKILL)
            status = self.process.wait()
        os.close(self._master)
        return status


def share(pid: int, options: list[str], keys: bytes, columns: int, lines: int) -> tuple[float, int, int]:
    """Return the per cent of one processor, the pictures shown meanwhile, and the bytes written for them."""
    terminal = _Terminal([*HEADWAY, "top", "-p", str(pid), *options], columns, lines)
    try:
        deadline = time.monotonic() + 60
        while terminal.pictures < 2:
            assert terminal.process.poll() is None, terminal.shown[-2000:]
            assert time.monotonic() < deadline, "no picture came"
            time.sleep(0.05)
        terminal.type(keys)
        time.sleep(2.5)
        before, start = terminal.processor_time(), time.monotonic()
        pictures, written = terminal.pictures, len(terminal.shown)
        time.sleep(SECONDS)
        used = terminal.processor_time() - before
        found = used / 1e7 / (time.monotonic() - start)
        return found, terminal.pictures - pictures, (len(terminal.shown) - written)
    finally:
        terminal.close()


def main(rounds: int = 3) -> None:
    """Print the table."""
    print(f"\n## The live screen: {THREADS:,} threads that wake ten times a second each, a picture a second\n")
    print(f"Of one processor, over {SECONDS:g} s, start-up left out.\n")
    rows = []
    for title, options, keys, columns, lines, goal in (
        ("80 × 24", ["--by", "thread"], b"", 80, 24, "≤ 5 %"),
        ("200 × 60", [], b"", 200, 60, "≤ 5 %"),
        ("80 × 24, panel", [], b"\r", 80, 24, "–"),
        ("80 × 24, by name", ["--by", "name"], b"", 80, 24, "–"),
        ("80 × 24, by process", ["--by", "process"], b"", 80, 24, "–"),
        ("80 × 24, --why wait", ["--why", "wait"], b"\r", 80, 24, "–"),
        ("80 × 24, --source proc", ["--source", "proc"], b"", 80, 24, "–"),
    ):
        with compiled("many") as path, living(path, THREADS) as pid:
            found = [share(pid, options, keys, columns, lines) for _ in range(rounds if goal != "–" else 1)]
        shares = [part for part, _, _ in found]
        rows.append(
            [
                title,
                f"{statistics.median(shares):.1f} %",
                f"{min(shares):.1f}–{max(shares):.1f} %" if len(shares) > 1 else "one run",
                goal,
                f"{found[-1][1]}",
                f"{found[-1][2] / max(found[-1][1], 1) / 1000:.1f} kB",
            ]
        )
    print(table(["screen", "median", "range", "goal", "pictures", "written for each"], rows))
    print(f"\n({load()} at the end)")


if __name__ == "__main__":
    print(heading())
    main()
