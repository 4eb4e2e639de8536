"""A question that measures: for a bounded time, by ``headway stat`` in a process of its own. The user must allow it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from headway.errors import HeadwayError

from .arguments import Choice, Text, Texts, Whole
from .readable import ReadableFiles
from .tools import TOOLS, Tool, ask

__all__ = ["Measurements"]

_MOST_SECONDS = 60
_TO_BEGIN = 10
"""So many seconds more than are measured pass before a command that goes on is asked to end."""
_TO_END = 20
"""So many seconds it has then."""
_WORDS = 2000
"""The most characters of an error of the process that the client is told."""


class Measurements:
    """The measurements of one server: documents in a folder that is removed at its end. A context manager."""

    def __init__(self) -> None:
        self._folder = TemporaryDirectory(prefix="headway-mcp-")
        self._number = 0

    def __enter__(self) -> Measurements:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    @property
    def place(self) -> str:
        """The folder with the documents, which the other questions may read."""
        return self._folder.name

    def tools(self) -> Mapping[str, Tool]:
        """Return the questions that read, and the one that measures."""
        measure = Tool(
            "measure",
            "Measure a process with its children (pid), a systemd unit, or a command that is started and, if it still "
            "runs then, ended. The answer is that of stat, and file names the document for further questions.",
            {
                "pid": Whole("The process to measure.", 1, 2**31 - 1),
                "unit": Text("The systemd unit to measure, as in nginx.", longest=256),
                "command": Texts("The command to start and measure: its words.", most=64, longest=4096),
                "seconds": Whole("How long at most.", 1, _MOST_SECONDS, 5),
                "detail": Choice(
                    "why: who holds locks, who ends waits, who has the processor. plain: less, for less cost.",
                    ["why", "plain"],
                    "why",
                ),
                "limit": Whole("The number of rows.", 1, 1000, 20),
            },
            self._measure,
            reads=False,
        )
        return {**TOOLS, measure.name: measure}

    def _measure(self, files: ReadableFiles, given: Mapping[str, Any]) -> dict[str, Any]:
        targets = [name for name in ("pid", "unit", "command") if given[name]]
        if len(targets) != 1:
            raise HeadwayError("say what to measure: give one of pid, unit and command")
        self._number += 1
        name = f"measured-{self._number}.json"
        words = ["stat", "--json", "-q", "-o", str(Path(self.place, name)), "-d", str(given["seconds"])]
        if given["detail"] == "why":
            words += ["--why", "wait", "--why", "ready", "--why", "kernel"]
        if given["command"]:
            words += ["--", *given["command"]]
        else:
            words += ["-p", str(given["pid"])] if given["pid"] else ["--unit", given["unit"]]
        _run(words, given["seconds"])
        return ask("stat", {"file": name, "limit": given["limit"]}, files)


def _run(words: Sequence[str], seconds: int) -> None:
    """Run headway. Raises HeadwayError with what it says if it measures nothing.

    A command that goes on after that time is asked to end, by headway, and ended a while later with all that it started
    in its session.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "headway", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    said = b""
    try:
        for patience, at_last in ((seconds + _TO_BEGIN, signal.SIGTERM), (_TO_END, signal.SIGKILL)):
            try:
                _, said = process.communicate(timeout=patience)
                break
            except subprocess.TimeoutExpired:
                process.send_signal(at_last)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    document = words[words.index("-o") + 1]
    if not os.path.exists(document) or not os.path.getsize(document):
        lines = said.decode(errors="replace")[-_WORDS:].strip().splitlines()  # the last one is why nothing was measured
        text = lines[-1].removeprefix("headway: ") if lines else ""
        raise HeadwayError(text or "nothing was measured: headway did not end in time")
