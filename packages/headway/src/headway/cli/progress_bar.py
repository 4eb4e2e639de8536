"""A progress bar on the terminal, which disappears when the work is done."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from headway.exhaustion import starts

__all__ = ["LATENCY", "ProgressBar", "progress_bar", "spinner"]

LATENCY = 1.0
"""Seconds after which a progress bar is shown."""
_REFRESH = 0.2
"""Seconds between two updates."""


class ProgressBar:
    """A progress bar. It is not visible before the first `show`, which callers call once it is `due`."""

    def __init__(self, total: float | None = None) -> None:
        """``total``: the amount of work; None: it is not known, and a spinner is shown instead of a bar."""
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = [BarColumn() if total else SpinnerColumn(), TextColumn("{task.description}", markup=False)]
        self._progress = Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True)
        self._task = self._progress.add_task("", total=total)
        self._began = time.monotonic()
        self._visible = False

    @property
    def seconds(self) -> float:
        """Seconds since the work began."""
        return time.monotonic() - self._began

    @property
    def due(self) -> bool:
        """Whether the work has lasted long enough for the bar to be shown."""
        return self.seconds >= LATENCY

    def show(self, text: str, completed: float | None = None) -> None:
        """Show the bar with this text, and how much is done."""
        self._progress.update(self._task, completed=completed, description=text)
        if not self._visible:
            self._progress.start()
            self._visible = True

    def hide(self) -> None:
        """Remove the bar from the terminal. It may be shown again."""
        if self._visible:
            with suppress(OSError):
                self._progress.stop()
            self._visible = False


def progress_bar(total: float | None = None) -> ProgressBar | None:
    """Return a progress bar on standard error; None if that is no terminal."""
    return ProgressBar(total) if sys.stderr.isatty() else None


@contextmanager
def spinner(text: str, share: Callable[[], float | None] = lambda: None) -> Iterator[None]:
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
        shown = ProgressBar(None if share() is None else 1.0)
        while not done.wait(_REFRESH):
            known = share()
            shown.show(text if known is None else f"{text}: {100 * known:.0f} %", known)
        shown.hide()

    thread = threading.Thread(target=tell, name="headway-progress", daemon=True)
    started = starts(thread)
    try:
        yield
    finally:
        done.set()
        if started:
            thread.join()
