"""Laps and progress to test with."""

from __future__ import annotations

from hypothesis import strategies as st

from headway.model import Kind, Overhead, Precision, Quality
from headway.testing.levels import FigureLevel
from headway.testing.progress import Lap, PhaseProgress, together

amounts = st.fixed_dictionaries({kind: st.integers(0, 10**12) for kind in Kind})
qualities = st.sampled_from(Quality)
figures = st.none() | st.integers(0, 10**12)
losses = st.dictionaries(st.sampled_from(["unseen_ns", "exits_lost"]), st.integers(1, 1000))
laps = st.builds(
    Lap,
    amounts,
    st.none() | amounts,
    figures,
    st.builds(Precision, qualities, qualities, qualities, qualities, qualities),
    st.integers(0, 10**12),
    losses,
    st.builds(Overhead, figures, figures),
)
progresses = st.builds(together, st.tuples(st.lists(laps, min_size=1, max_size=3), st.integers(0, 10**12)))
levels = st.none() | st.builds(FigureLevel, st.integers(0, 10**12), figures, st.integers(1, 99))


def progress(
    epi: int = 1_000_000, *, quality: Quality = Quality.BOUND, unit: str = "ns", losses: int = 0
) -> PhaseProgress:
    """Some progress, with nothing but EPI."""
    time = {**dict.fromkeys(Kind, 0), Kind.EFFECTIVE: epi}
    lap = Lap(
        time,
        time if unit == "cycles" else None,
        None,
        Precision(effective=quality),
        losses={"unseen_ns": losses} if losses else {},
    )
    return together(([lap], epi))
