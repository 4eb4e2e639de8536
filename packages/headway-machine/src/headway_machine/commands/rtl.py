"""``headway rtl``: the progress unit of the reference machine as hardware, and a core around it."""

from __future__ import annotations

from pathlib import Path

import click

from headway.cli.output import binary_output
from headway.errors import HeadwayError
from headway.extras import need
from headway_machine.rtl.extra import RTL

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
@click.option("--core", is_flag=True, help="The barrel core with the unit in it, always in strict turn.")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="File; standard output if none.")
def verilog(threads: int, width: int, issue: str, core: bool, output: Path | None) -> None:
    """\b
    headway rtl verilog --threads 6 -o progress.v
    headway rtl verilog --threads 1 --width 44 > small.v
    headway rtl verilog --threads 6 --core -o core.v

    Write the progress unit as one Verilog file, with the top module `progress`; with --core an RV32I core that has it,
    with the top module `core`.
    """
    if core and issue == "skip":
        raise HeadwayError(
            "--core has no --issue skip: its threads have their clocks in strict turn", "leave one of them out"
        )
    need("rtl", RTL)
    import tempfile

    from headway_machine.rtl.core.barrel import BarrelCore
    from headway_machine.rtl.progress import ProgressUnit
    from headway_machine.rtl.tools import to_verilog

    unit = (
        BarrelCore(threads, width=width) if core else ProgressUnit(threads, width, threads if issue == "strict" else 1)
    )
    with tempfile.TemporaryDirectory() as folder:
        text = to_verilog(unit, "core" if core else "progress", Path(folder))
    with binary_output(None if output is None else str(output), "the Verilog", text=True) as stream:
        stream.write(text.encode())
