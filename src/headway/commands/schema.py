"""``headway schema``: the JSON Schema of what a command prints with ``--json``."""

from __future__ import annotations

import json

import click

__all__ = ["command"]


@click.command("schema")
@click.argument("of", type=click.Choice(["stat", "cpu"]), default="stat", metavar="[stat|cpu]")
def command(of: str) -> None:
    """The JSON Schema of what stat --json, or cpu --json, prints.

    \b
    headway schema > stat.schema.json
    headway schema cpu > cpu.schema.json
    """
    if of == "cpu":
        from headway.views.utilisation_json import cpu_schema as schema
    else:
        from headway.views.json import schema

    click.echo(json.dumps(schema(), indent=2))
