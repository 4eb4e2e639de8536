"""``headway mcp``: answers questions of other programs about recordings and saved documents."""

from __future__ import annotations

import click

from headway.extras import need

__all__ = ["command"]


@click.command("mcp")
@click.argument("places", nargs=-1, required=True, metavar="FILE|FOLDER...")
def command(places: tuple[str, ...]) -> None:
    """\b
    headway mcp runs/                        what is in this folder
    headway mcp before.hw after.hw           two recordings
    headway mcp saved.json                   what headway stat --json wrote

    Answer the questions of a client about recordings and saved documents.

    The client is a program that speaks the Model Context Protocol on standard input and output, and starts this
    command. It may ask files, stat, advise, at, query, diff and what_if. It reads nothing but the files and folders
    that are named here, and changes nothing.
    """
    need("mcp")
    from headway.mcp.readable import ReadableFiles
    from headway.mcp.server import serve

    serve(ReadableFiles(places))
