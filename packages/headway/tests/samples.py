"""Samples of processors to test with: any that a source could yield, some with names that mean harm."""

from __future__ import annotations

from hypothesis import strategies as st
from tests.ledgers import HOSTILE_NAMES, STATES

from headway.model import FIGURES, Cell, Quality, Sample, Utilisation

ON_PROCESSORS = tuple(state for state in STATES if not state.startswith(("wait", "ready", "stopped")))
_times = st.integers(0, 10**15)
_counts = st.none() | st.integers(0, 2**63)
_reasons = st.sampled_from(["preempted", "steal", "smi", "offline", "moved", *HOSTILE_NAMES])


@st.composite
def rows(draw: st.DrawFn, cpu: int = 0) -> Utilisation:
    """One processor's."""
    if draw(st.integers(0, 4)) == 0:
        return Utilisation(cpu, dropped=draw(_reasons))
    states = draw(st.dictionaries(st.sampled_from(ON_PROCESSORS), st.builds(Cell, _times, _counts), max_size=8))
    names = st.sampled_from(["C1", "C6", "POLL", *HOSTILE_NAMES])
    return Utilisation(
        cpu=cpu,
        span=sum(cell.time for cell in states.values()),
        states=states,
        ticks=draw(st.none() | st.integers(0, 10**16)),
        actual_hz=draw(st.none() | st.floats(1e7, 2e10)),
        idle=draw(st.dictionaries(names, st.none() | _times, max_size=4)),
        skew=draw(st.none() | st.integers(0, 10_000)),
        throttled=draw(_counts),
        stopped=draw(st.none() | _times),
        smi=draw(_counts),
        throttled_ns=draw(st.none() | _times),
        limit_hz=draw(st.none() | st.integers(0, 10**11)),
        highest_hz=draw(st.none() | st.integers(0, 10**11)),
    )


@st.composite
def samples(draw: st.DrawFn, cpus: int = 4) -> Sample:
    """All processors'."""
    start = draw(st.integers(0, 10**15))
    return Sample(
        source=draw(st.sampled_from(["bpf", "cpuidle", "proc", "machine"])),
        start=start,
        end=start + draw(st.integers(1, 10**12)),
        processors=tuple(draw(rows(cpu)) for cpu in range(draw(st.integers(1, cpus)))),
        skew=draw(st.none() | st.integers(0, 10**5)),
        held=draw(st.none() | st.integers(0, 10**5)),
        counter=draw(st.none() | st.just("aperf/mperf by the msr PMU")),
        quality={name: draw(st.sampled_from(Quality)) for name in FIGURES},
        reasons=draw(st.dictionaries(st.sampled_from(FIGURES), st.sampled_from(HOSTILE_NAMES), max_size=3)),
        dropped=draw(st.dictionaries(_reasons, st.integers(1, 100), max_size=3)),
    )
