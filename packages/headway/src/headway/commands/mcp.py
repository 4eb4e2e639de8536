"""``headway mcp``: answers questions of other programs about recordings and saved documents."""

from __future__ import annotations

import click

from headway.extras import need

__all__ = ["command"]


@click.command("mcp")
@click.option("--measure", is_flag=True, help="Let the client measure processes, units and commands that it starts.")
@click.argument("places", nargs=-1, metavar="FILE|FOLDER...")
def command(measure: bool, places: tuple[str, ...]) -> None:
    """\b
    headway mcp runs/                        what is in this folder
    headway mcp before.hw after.hw           two recordings
    headway mcp saved.json                   what headway stat --json wrote
    headway mcp --measure                    and the client may measure, too

    Answer the questions of a client about recordings and saved documents.

    The client is a program that speaks the Model Context Protocol on standard input and output, and starts this
    command. It may ask files, stat, advise, at, query, diff and what_if. It reads nothing but the files and folders
    that are named here, and changes nothing. With --measure it may also measure for at most a minute at a time, and
    start commands as you: name it only for clients that may do what you may.
    """
    if not places and not measure:
        raise click.UsageError("name recordings, saved documents, or folders with them; or --measure")
    need("mcp")
    from headway.mcp.readable import ReadableFiles
    from headway.mcp.server import serve

    if not measure:
        serve(ReadableFiles(places))
        return
    from headway.mcp.measuring import Measurements

    with Measurements() as measurements:
        serve(ReadableFiles([*places, measurements.place]), measurements.tools())
