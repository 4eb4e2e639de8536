"""How far long work is, in a line on the terminal that is gone when it is done."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

__all__ = ["LATENCY", "Display", "display", "patience"]

LATENCY = 1.0
"""Seconds that something may take without a word."""
_REFRESH = 0.2
"""Seconds between two looks at how far it is."""


class Display:
    """The line; not to be seen before `show`, which is for what has lasted so long that it is `due`."""

    def __init__(self, total: float | None = None) -> None:
        """``total``: what is to be done, for a bar; without it there is none."""
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = [BarColumn() if total else SpinnerColumn(), TextColumn("{task.description}", markup=False)]
        self._progress = Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True)
        self._task = self._progress.add_task("", total=total)
        self._began = time.monotonic()
        self._visible = False

    @property
    def seconds(self) -> float:
        """Since the work began."""
        return time.monotonic() - self._began

    @property
    def due(self) -> bool:
        """Whether it has lasted long enough to be shown."""
        return self.seconds >= LATENCY

    def show(self, text: str, completed: float | None = None) -> None:
        """Say how far it is."""
        self._progress.update(self._task, completed=completed, description=text)
        if not self._visible:
            self._progress.start()
            self._visible = True

    def hide(self) -> None:
        """Take it off the terminal; it may be shown again."""
        if self._visible:
            with suppress(OSError):
                self._progress.stop()
            self._visible = False


def display(total: float | None = None) -> Display | None:
    """A display on standard error; None where that is no terminal."""
    return Display(total) if sys.stderr.isatty() else None


@contextmanager
def patience(text: str, share: Callable[[], float | None] = lambda: None) -> Iterator[None]:
    """Say what is done if it takes long, and how much of it is.

    ``share`` is asked for that, from 0 to 1, by another thread; None: not known.
    """
    if not sys.stderr.isatty():
        yield
        return
    done = threading.Event()

    def tell() -> None:
        if done.wait(LATENCY):
            return
        shown = Display(None if share() is None else 1.0)
        while not done.wait(_REFRESH):
            known = share()
            shown.show(text if known is None else f"{text}: {100 * known:.0f} %", known)
        shown.hide()

    thread = threading.Thread(target=tell, name="headway-display", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
