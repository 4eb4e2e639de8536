"""The level of each test: what it touches, whether it may run beside others, and how long it may take.

A test has the level that a mark gives it, on the function or its module, or else the one of its directory. Where that
is unit, a test that is marked ``root`` is a kernel test. Where nothing says it, the test run ends with an error.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Generator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

LEVELS = {"unit": 120, "kernel": 300, "end_to_end": 300}
"""How long a test of each level may take, s; ``@pytest.mark.timeout(seconds)`` on a test is stronger."""
LEVEL_OF_DIRECTORY = {
    **dict.fromkeys(("advice", "binary", "buffers", "comparison", "demo", "fuzz", "kernels", "linux"), "unit"),
    **dict.fromkeys(("machine", "mcp", "model", "processors", "recording", "replay", "serving"), "unit"),
    **dict.fromkeys(("rtl", "session", "testing", "tools", "trace", "verdict", "views"), "unit"),
    **dict.fromkeys(("commands", "deploy", "integration"), "end_to_end"),
}
"""Of the other directories each module says it."""
# What has the mark alone changes what the whole machine shares, or counts it, and runs when no other test does.


@lru_cache(None)
def may_run_alone(module: Path) -> bool:
    """Whether tests of a module can have the mark alone, from its text alone."""
    return "mark.alone" in module.read_text(encoding="utf-8")


_OF_MODULE = re.compile(r"^pytestmark = .*(?:\n[ \])].*)*", re.MULTILINE)
_OTHER_LEVEL = re.compile(r"\bmark\.(?:root|kernel|end_to_end)\b")


@lru_cache(None)
def may_have_unit_tests(module: Path) -> bool:
    """Whether a module can have unit tests, from its text alone: such as cannot need not be imported to run those."""
    text = module.read_text(encoding="utf-8")
    of_module = _OF_MODULE.search(text)
    if of_module and _OTHER_LEVEL.search(of_module[0]):
        return False
    return LEVEL_OF_DIRECTORY.get(_directory(module)) in (None, "unit") or "mark.unit" in text


def _directory(module: Path) -> str:
    """Return the first folder below ``tests/`` of a module, whichever package it is of."""
    parts = module.parts
    return parts[len(parts) - parts[::-1].index("tests")]


def mark_level(item: pytest.Item) -> None:
    """Give a test its level, whether it runs alone, and its timeout.

    Raises:
        pytest.UsageError: It has no level or more than one, or is a unit test in a module whose text denies it.
    """
    marked = {mark.name for mark in item.iter_markers() if mark.name in LEVELS}
    if len(marked) > 1:
        raise pytest.UsageError(f"{item.nodeid} has several levels: {', '.join(sorted(marked))}; keep one")
    level = marked.pop() if marked else LEVEL_OF_DIRECTORY.get(_directory(item.path))
    if level is None:
        words = ", ".join(f"pytest.mark.{name}" for name in LEVELS)
        raise pytest.UsageError(
            f"{item.nodeid} has no level: mark it, or its module with pytestmark, by one of {words}"
        )
    if level == "unit" and item.get_closest_marker("root"):
        level = "kernel"
        if any(item.iter_markers("unit")):
            raise pytest.UsageError(f"{item.nodeid} is marked unit and root: what needs root is a kernel test")
    if level == "unit" and not may_have_unit_tests(item.path):
        raise pytest.UsageError(
            f"{item.nodeid} is a unit test, which -m unit would not find: mark it by pytest.mark.unit"
        )
    if not any(item.iter_markers(level)):
        item.add_marker(level)
    if any(item.iter_markers("alone")) and not may_run_alone(item.path):
        raise pytest.UsageError(f"{item.nodeid} runs alone, which its module does not say: write pytest.mark.alone")
    if not item.get_closest_marker("timeout"):
        item.add_marker(pytest.mark.timeout(LEVELS[level]))


def descendants(pid: int) -> set[int]:
    """Return the processes that a process has started and those have, as far as they are there."""
    found: set[int] = set()
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (task / "children").read_text().split()):
                found |= {child} | descendants(child)
    return found


def kill_at_timeout() -> Generator[None, Any, Any]:
    """Have the processes that the test started killed when its time is over, before it fails.

    pytest-timeout interrupts the test by SIGALRM. Who waits for a process on the way out would wait for ever otherwise.
    """
    before = descendants(os.getpid())
    result = yield
    fail = signal.getsignal(signal.SIGALRM)

    def kill_and_fail(number: int, frame: Any) -> None:
        for pid in descendants(os.getpid()) - before:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if callable(fail):
            fail(number, frame)

    if callable(fail):
        signal.signal(signal.SIGALRM, kill_and_fail)
    return result
