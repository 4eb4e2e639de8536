"""A sentence of headway's own, on standard error."""

from __future__ import annotations

from contextlib import suppress

import click

__all__ = ["say"]


def say(text: str) -> None:
    """Print ``headway: text``. That it cannot be written is no reason to fail."""
    with suppress(OSError):
        click.echo(f"headway: {text}", err=True)
