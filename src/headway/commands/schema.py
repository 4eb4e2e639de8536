"""``headway schema``: the JSON Schema of what ``headway stat --json`` prints."""

from __future__ import annotations

import json

import click

__all__ = ["command"]


@click.command("schema")
def command() -> None:
    """The JSON Schema of what stat --json prints.

    \b
    headway schema > stat.schema.json
    """
    from headway.views.json import schema

    click.echo(json.dumps(schema(), indent=2))
