"""``headway schema``: the JSON Schema of what a command prints with ``--json``."""

from __future__ import annotations

import json

import click

from headway.views.schemas import NAMES, schema_of

__all__ = ["command"]


@click.command("schema")
@click.argument("of", type=click.Choice(NAMES), default="stat", metavar=f"[{'|'.join(NAMES)}]")
def command(of: str) -> None:
    """\b
    headway schema > stat.schema.json
    headway schema cpu > cpu.schema.json
    headway schema profile > profile.schema.json
    headway schema diff > diff.schema.json
    headway schema compare > compare.schema.json
    headway schema critical-path > critical-path.schema.json
    headway schema what-if > what-if.schema.json
    headway schema balance > balance.schema.json

    Print the JSON Schema of what a command writes as JSON: stat, cpu, report (of a profile), diff, compare,
    critical-path, what-if or balance.
    """
    click.echo(json.dumps(schema_of(of), indent=2))
