"""Other eBPF programs at the same events are told: what they take is in the threads' times."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.linux.bpf.programs.libbpf import Library
from headway.linux.bpf.programs.other_programs import _attached, describe, other_programs
from headway.linux.options import Selection
from headway.linux.sources.ebpf import BpfSource

from .measuring import measure

HOOKS = st.sampled_from(["sched_switch", "sys_enter", "sys_exit", "softirq_entry"])


@given(st.dictionaries(HOOKS, st.integers(1, 100)))
def test_the_most_programs_of_any_event_are_told_and_nothing_where_there_are_none(found: dict[str, int]) -> None:
    words = describe(Counter(found))
    assert bool(words) == bool(found)
    if found:
        assert words.startswith(f"{max(found.values())} eBPF program")


@pytest.mark.root
def test_the_programs_of_another_headway_are_found_while_it_measures() -> None:
    library, other = Library(), BpfSource(Selection(tids=(1,)))
    other.begin()
    try:
        programs = other._measurement._programs.object.programs  # type: ignore[union-attr]
        own = {programs[name].id for name in ("handle_sched_switch", "handle_sys_enter")}
        hooks = {"sched_switch", "sys_enter"}
        found, rest = (other_programs(library, hooks, ids) for ids in (set(), own))
        assert found >= Counter(hooks)
        assert own <= {program for program, _ in _attached(library)}
        assert "other programs" in measure("true")[0].reasons
    finally:
        other.close()
    assert all(rest[hook] < found[hook] for hook in hooks)
    assert not own & {program for program, _ in _attached(library)}
