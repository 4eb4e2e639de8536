"""Showing a profile, for the commands that take one and those that read one."""

from __future__ import annotations

import json
import os
from typing import Any, TextIO

import click

from headway.model import PARTS, Profile

__all__ = ["SHOWN", "has_profile", "narrowing_options", "show_profile", "show_recorded_profile"]

SHOWN = 8
"""States listed by default; half as many functions are listed of each."""


def narrowing_options(function: Any) -> Any:
    """Add the options that choose a part of a profile; the command gets ``part`` and ``state``."""
    for option in (
        click.option(
            "--state",
            metavar="STATE",
            help="Of a profile: only this state (wait.futex), or states that begin with it (wait).",
        ),
        click.option(
            "--index",
            "part",
            type=click.Choice(list(PARTS)),
            metavar="PART",
            help=f"Of a profile: only this part of the time. One of {', '.join(PARTS)}.",
        ),
    ):
        function = option(function)
    return function


def has_profile(path: str) -> bool:
    """Return whether a recording has a profile. The profile is not read, and the code that reads it is not loaded."""
    return os.path.isdir(os.path.join(path, "samples"))


def show_recorded_profile(
    path: str, stream: TextIO, *, part: str | None, state: str | None, as_json: bool, limit: int
) -> None:
    """Print the profile in a recording. Raises HeadwayError."""
    from headway.recording.profile import open_profile

    profile, _ = open_profile(path)
    if as_json:
        from headway.views.profile_json import profile_document

        json.dump(profile_document(profile, part=part, state=state), stream, indent=1)
        stream.write("\n")
    else:
        show_profile(profile, stream, part=part, state=state, limit=limit)


def show_profile(
    profile: Profile, stream: TextIO, *, part: str | None = None, state: str | None = None, limit: int = SHOWN
) -> None:
    """Print the table."""
    from headway.views.console import Console
    from headway.views.hotspots import print_profile

    print_profile(Console(stream), profile, part=part, state=state, limit=limit)
