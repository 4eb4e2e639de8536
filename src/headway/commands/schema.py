"""``headway schema``: the JSON Schema of what ``headway stat --json`` prints."""

from __future__ import annotations

import click

__all__ = ["command"]


@click.command("schema")
def command() -> None:
    """The JSON Schema of what stat --json prints.

    \b
    headway schema > stat.schema.json
    """
    from headway.views.schema import schema_text

    click.echo(schema_text())
