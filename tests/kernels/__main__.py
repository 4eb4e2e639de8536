"""``python -m tests.kernels``: headway in guests with other kernels (``make kernels``, ``make kernels-gate``)."""

from __future__ import annotations

import platform
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click

from . import roots
from .guests import Guest, Result, find_programs
from .images import KERNELS, Image, Kernel, UnavailableError, fetch
from .roots import Root
from .table import Run, insert, load, render, save

PROJECT = Path(__file__).parents[2]
DOCUMENT = PROJECT / "packages/headway/docs/platforms.md"
NAMES = [kernel.name for kernel in KERNELS]
COUNTING = "-cpu neoverse-n1 -icount shift=0,sleep=off"
"""A processor that counters.toml knows, of which every instruction takes one nanosecond and one cycle."""

NODES = ("1536M,cpus=0-1", "1536M,cpus=2-3")
"""Two memory nodes, with two processors each."""
DISK = "-blockdev driver=null-co,node-name=disk,size=67108864,read-zeroes=on -device virtio-blk-pci,drive=disk"
"""A disk with a queue for each processor, whose interrupts the kernel manages."""


@click.command()
@click.option("--kernel", "kernels", multiple=True, type=click.Choice(NAMES), help="Only this one; may be repeated.")
@click.option("--image", type=click.Path(exists=True, path_type=Path), help="A bzImage of your own instead.")
@click.option("--processors", default="1,4,8", show_default=True, help="How many processors the guests have.")
@click.option("--gate", is_flag=True, help="Only load every shape, and measure two programs.")
@click.option("--counters", is_flag=True, help="Count by an emulated arm64 PMU instead (tests/kernels/counters.py).")
@click.option("--placement", is_flag=True, help="Apply and undo plans instead (tests/kernels/placement.py).")
@click.option("--task", "tasks", multiple=True, help="Only this task; may be repeated.")
@click.option("--jobs", default=2, show_default=True, help="How many guests run at once; each takes one processor.")
@click.option("--python", default=sys.executable, help="The interpreter that has headway installed.")
@click.option(
    "--wheels",
    type=click.Path(path_type=Path),
    default=PROJECT / "dist",
    help="Where the wheels are that guests of another architecture install (dist).",
)
@click.option("--write", is_flag=True, help="Keep what was found, and write it into platforms.md.")
def main(
    kernels: Sequence[str],
    image: Path | None,
    processors: str,
    gate: bool,
    counters: bool,
    placement: bool,
    tasks: Sequence[str],
    jobs: int,
    python: str,
    wheels: Path,
    write: bool,
) -> None:
    """Boot kernels in QEMU and measure in them: every shape of the programs, and real programs under the laws.

    Exit status 1 where anything is wrong, or a supported kernel is not exact; 0 where all is well or had to be skipped,
    which is said.
    """
    chosen = [kernel for kernel in KERNELS if kernel.name in (kernels or NAMES)]
    if counters:
        chosen, processors = [kernel for kernel in chosen if kernel.architecture == "arm64"], "1"
    if placement:
        chosen, processors = [kernel for kernel in chosen if kernel.machine == platform.machine()], "4"
    guests: list[Guest] = []
    for kernel in [Kernel(image.name, "", "amd64")] if image else chosen:
        try:
            find_programs(kernel.machine)
            found = Image(kernel, image.name, image) if image else fetch(kernel)
            root = _root(kernel, wheels)
        except UnavailableError as why:
            click.echo(f"kernel {kernel.name}: skipped, because {why}")
            continue
        guests += [
            Guest(
                found,
                int(number),
                root,
                nodes=NODES if placement else (),
                qemu_options=COUNTING if counters else DISK if placement else "",
            )
            for number in processors.split(",")
        ]
    apart = "counters" if counters else "placement" if placement else None
    module = apart or "guest"
    what = list(tasks) or ([] if apart else ["gate" if gate else "all"])
    with ThreadPoolExecutor(jobs) as pool:
        results = list(pool.map(lambda guest: _run(guest, f"tests.kernels.{module}", what, Path(python)), guests))
    passed, failed = 0, 0
    for guest, result in zip(guests, results, strict=True):
        wrong = _faults(guest, result)
        for line in wrong:
            click.echo(f"{guest.image.release} × {guest.processors}: {line}")
        failed += len(wrong)
        passed += sum(found.get("verdict") == "exact" for found in result.findings)
    if apart:
        for guest, result in zip(guests, results, strict=True):
            for row in result.findings[1:]:
                click.echo(f"{guest.image.release}: {row['task']}: {row['verdict']} {row.get('figures') or ''}")
    if write and not apart:
        runs = load()
        for result in results:
            if result.findings:
                run = Run.of(result.findings, result.finished)
                runs[run.key] = run.renewed(runs.get(run.key))
        save(runs.values())
        insert(DOCUMENT, render(list(runs.values())))
    if guests and not any(result.findings[1:] for result in results):
        click.echo("nothing was tried: is the task's name right?")
        failed += 1
    click.echo(f"kernels: {passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


def _root(kernel: Kernel, wheels: Path) -> Root | None:
    """The root directory of guests of another architecture than ours."""
    if kernel.machine == platform.machine():
        return None
    return roots.make(next(wheels.glob(f"headway-*_{kernel.machine}.whl"), None), "trixie", kernel.architecture)


def _run(guest: Guest, module: str, what: list[str], python: Path) -> Result:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="headway-guest-") as folder:
        result = guest.run(module, what, Path(folder), python, PROJECT)
    seconds = time.monotonic() - began
    click.echo(
        f"{guest.image.release} × {guest.processors}: {len(result.findings)} findings in {seconds:.0f} s", err=True
    )
    return result


def _faults(guest: Guest, result: Result) -> list[str]:
    """What is not as it should be, a line each."""
    lines = []
    for found in result.findings:
        verdict = found.get("verdict", "exact")
        bad = verdict == "wrong" or (verdict in ("proc", "refused") and guest.image.kernel.supported)
        if bad:
            lines.append(f"{found['task']}: {verdict}: {found.get('why')}\n{found.get('trace', '')}".rstrip())
    if not result.finished:
        lines.append(f"the guest did not come to its end; its last words:\n{result.console}")
    return lines


if __name__ == "__main__":
    main()
