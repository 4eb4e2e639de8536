"""``headway rtl``: the progress unit of the reference machine as hardware."""

from __future__ import annotations

from pathlib import Path

import click

from headway.cli.output import binary_output
from headway.extras import need

__all__ = ["command"]


@click.group("rtl")
def command() -> None:
    """\b
    headway rtl verilog --threads 6 -o progress.v

    The progress unit of the reference machine as hardware. docs/rtl.md has its ports and what is proven of it.
    """


@command.command("verilog", short_help="the progress unit as one Verilog file")
@click.option("--threads", default=6, show_default=True, type=click.IntRange(1, 8), help="Hardware threads.")
@click.option("--width", default=64, show_default=True, type=click.IntRange(8, 64), help="Bits of each counter.")
@click.option(
    "--issue",
    type=click.Choice(["strict", "skip"]),
    default="strict",
    show_default=True,
    help="strict: a thread has a cycle once a rotation, and counts as many cycles as there are threads.",
)
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="File; standard output if none.")
def verilog(threads: int, width: int, issue: str, output: Path | None) -> None:
    """\b
    headway rtl verilog --threads 6 -o progress.v
    headway rtl verilog --threads 1 --width 44 > small.v

    Write the progress unit as one Verilog file, with the top module `progress`.
    """
    need("rtl")
    import tempfile

    from headway.rtl.progress import ProgressUnit
    from headway.rtl.tools import to_verilog

    unit = ProgressUnit(threads, width, threads if issue == "strict" else 1)
    with tempfile.TemporaryDirectory() as folder:
        text = to_verilog(unit, "progress", Path(folder))
    with binary_output(None if output is None else str(output), "the Verilog", text=True) as stream:
        stream.write(text.encode())
