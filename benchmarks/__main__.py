"""All benchmarks one after the other, printed as Markdown: run ``python -m benchmarks > results.md`` as root."""

from __future__ import annotations

import os
from collections.abc import Callable

from . import (
    accuracy,
    balance,
    corrected,
    cost,
    crash,
    export,
    html,
    machine,
    own_progress,
    partition,
    polling,
    processor_trace,
    profile,
    progress,
    pytest_plugin,
    queries,
    readings,
    recording,
    regions,
    scale,
    serve,
    siege,
    spread,
    startup,
    trace,
    trace_damage,
    trace_files,
    trace_moments,
    trace_reference,
    trace_threads,
    transitions,
    utilisation,
    what_if,
    what_if_machine,
)
from .common import heading, load


def _apart(measure: Callable[[], None]) -> None:
    """Run a benchmark in a process of its own, so that it leaves no affinity and no memory to the next."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            measure()
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(pid, 0)
    if status:
        raise SystemExit(f"{measure.__module__} failed")


def _cost() -> None:
    print("\n## Cost\n\n```", flush=True)
    cost.main()
    print("```", flush=True)


def main() -> None:
    """Run all benchmarks."""
    print(f"# {heading()}\n\n({load()} at the beginning)", flush=True)
    for measure in (
        _cost,
        corrected.main,
        regions.main,
        own_progress.main,
        progress.main,
        spread.main,
        accuracy.main,
        scale.main,
        startup.main,
        serve.main,
        siege.main,
        transitions.main,
        utilisation.main,
        machine.main,
        readings.main,
        profile.main,
        recording.main,
        crash.main,
        trace.main,
        trace_damage.main,
        trace_files.main,
        trace_reference.main,
        trace_moments.main,
        trace_threads.main,
        processor_trace.main,
        polling.main,
        queries.main,
        export.main,
        pytest_plugin.main,
        html.main,
        what_if.main,
        what_if_machine.main,
        partition.main,
        balance.main,
    ):
        _apart(measure)


if __name__ == "__main__":
    main()
