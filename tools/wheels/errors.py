"""The one exception of this tool."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = ["ToolError", "run"]


class ToolError(Exception):
    """An error that the user can correct: one sentence that says what, where and what to do."""


def run(
    command: Sequence[str | Path],
    what: str,
    *,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> str:
    """Run a command and return its standard output. Raises ToolError with ``what`` and the end of what it printed."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words, env=environment, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        raise ToolError(f"{what}: there is no program {words[0]} on this machine: install it") from None
    if done.returncode:
        said = "\n".join((done.stdout + done.stderr).strip().splitlines()[-40:])
        raise ToolError(f"{what} failed: {' '.join(words)} ended with status {done.returncode}:\n{said}")
    return done.stdout
