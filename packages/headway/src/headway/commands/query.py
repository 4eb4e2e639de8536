"""``headway query``: SQL, or a ready-made question, to recordings of one machine or many."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from headway.cli.ending import tidy_end
from headway.cli.options import format_option
from headway.cli.progress_bar import spinner
from headway.cli.say import say
from headway.extras import need
from headway.views.printable import clean
from headway.views.rows import print_rows

if TYPE_CHECKING:
    from headway.recording.queries.tables import Tables

__all__ = ["command", "say_left_out"]


@click.command("query")
@click.argument("path", metavar="RECORDING", required=False)
@click.argument("sql", metavar="[SQL]", required=False)
@click.option("--question", "name", metavar="NAME", help="Ask this ready-made question instead of SQL.")
@click.option("--questions", "listed", is_flag=True, help="List the ready-made questions, and exit.")
@click.option(
    "--depth", type=click.IntRange(1, 16), default=3, show_default=True, help="Links of a wait chain, at most."
)
@click.option(
    "--engine", metavar="URL", help="Query engine, as in spark://local[2] (docs/queries.md).  [default: DuckDB]"
)
@format_option
@tidy_end()
def command(
    path: str | None, sql: str | None, name: str | None, listed: bool, depth: int, engine: str | None, style: str
) -> None:
    """\b
    headway query run.hw "SELECT name, sum(time) FROM states GROUP BY ALL"
    headway query run.hw --question lost-progress
    headway query 'runs/host=*/run=*/' --question processors

    Query recordings by SQL: one run, a folder of runs, or the runs of many machines.

    Tables are transitions, threads, states, processors, losses, samples and more (docs/queries.md). Times are in ns, of
    the reference machine in cycles.
    """
    need("recording")
    from headway.recording.queries.questions import QUESTIONS, question
    from headway.recording.queries.tables import open_tables

    if listed:
        print_rows(("question", "what it answers"), [(q.name, q.what) for q in QUESTIONS.values()], style)
        return
    if path is None or (sql is None) == (name is None):
        raise click.UsageError("give a recording, and SQL or --question NAME (--questions lists them)")
    asked = question(name) if name is not None else None
    with spinner("reading what there is"):
        opened = open_tables(path, engine)
    with opened as tables:
        say_left_out(tables)
        said = len(tables.left_out)
        with spinner("asking"):
            answer = tables.ask_user(sql or "") if asked is None else asked.ask(tables, depth)
        units = {} if asked is None else asked.units(tables)
        print_rows(answer.columns, answer.rows, style, units=units)
        say_left_out(tables, said)


def say_left_out(tables: Tables, already: int = 0) -> None:
    """Print what was not read, and up to when recordings that are not closed are known.

    ``already``: how many entries of ``left_out`` have been printed.
    """
    for why in tables.left_out[already:]:
        say(clean(why))
    if not already:
        for why in tables.unclosed():
            say(clean(why))
