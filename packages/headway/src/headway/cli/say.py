"""Headway's own messages, one sentence each, on standard error."""

from __future__ import annotations

from contextlib import suppress

import click

__all__ = ["say"]


def say(text: str) -> None:
    """Print ``headway: text``. An error in writing it is ignored."""
    with suppress(OSError):
        click.echo(f"headway: {text}", err=True)
