"""The policy of depth on demand: who is deep, since when and for how long, on made-up periods."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from headway.conditions import Scope, parse_condition
from headway.linux.bpf.shared.states import NAMES
from headway.linux.sources.ebpf.depth import HOLD_NS, DepthPolicy, Target, ThreadTimes

SECOND = 1_000_000_000


def policy(*conditions: str) -> DepthPolicy:
    return DepthPolicy([parse_condition(text, NAMES) for text in conditions])


def thread(
    tid: int, ready: float, pid: int = 1, *, cgroup: str = "", life: float = 1.0, ended: bool = False
) -> ThreadTimes:
    """A thread of a second (or less) that was ready for a share of it."""
    whole = round(life * SECOND)
    waited = round(ready * whole)
    return ThreadTimes(tid, pid, 0, {"ready": waited, "user": whole - waited}, cgroup, ended)


shares = st.lists(st.sampled_from([0.0, 0.1, 0.3, 1.0]), min_size=1, max_size=40)


@given(shares)
def test_a_thread_is_deep_if_its_condition_held_within_the_last_seconds(shares: Sequence[float]) -> None:
    one = policy("ready > 20 %")
    for now in range(len(shares)):
        deep = one.feed(SECOND, [thread(7, shares[now])])
        last = shares[max(0, now - HOLD_NS // SECOND + 1) : now + 1]
        assert (deep == {Target(Scope.THREAD, 7)}) == any(share > 0.2 for share in last)
        assert (one.covers(7, 1, 0) is Scope.THREAD) == bool(deep)
        assert one.covers(8, 1, 0) is None


@given(st.lists(st.tuples(st.integers(1, 3), st.sampled_from([0.0, 0.25, 0.5])), min_size=1, max_size=8))
def test_a_process_is_judged_by_all_its_threads_together(rows: list[tuple[int, float]]) -> None:
    one = policy("process: ready > 20 %")
    deep = one.feed(SECOND, [thread(100 + n, share, pid) for n, (pid, share) in enumerate(rows)])
    for pid in {pid for pid, _ in rows}:
        mine = [share for other, share in rows if other == pid]
        assert (Target(Scope.PROCESS, pid) in deep) == (sum(mine) / len(mine) > 0.2)
        assert (one.covers(999, pid, 5) is Scope.PROCESS) == (Target(Scope.PROCESS, pid) in deep)


@given(st.lists(st.sampled_from([0.0, 0.1, 0.5]), min_size=1, max_size=30), st.integers(1, 30))
def test_a_condition_that_comes_and_goes_within_the_hold_changes_the_depth_once(
    shares: list[float], often: int
) -> None:
    one = policy("ready > 20 %")
    one.feed(SECOND, [thread(7, 1.0)])
    for share in [*shares, 1.0] * often:
        if len(shares) * SECOND < HOLD_NS:
            assert one.feed(SECOND, [thread(7, share)])


def test_a_target_whose_threads_have_ended_is_not_deep_and_ids_that_come_again_are_others() -> None:
    one = policy("ready > 20 %", "process: ready > 20 %")
    assert len(one.feed(SECOND, [thread(7, 1.0)])) == 2
    assert one.feed(SECOND, [thread(7, 1.0, ended=True)]) == frozenset()
    one.feed(SECOND, [thread(7, 1.0)])
    again = ThreadTimes(7, 1, birth=99, times={"user": SECOND})
    assert one.feed(SECOND, [again]) == {Target(Scope.PROCESS, 1)}, "the process has another thread of that number"
    assert one.covers(7, 2, 99) is None


def test_a_thread_that_was_born_just_now_is_judged_later() -> None:
    one = policy("ready > 20 %")
    assert one.feed(SECOND, [thread(7, 1.0, life=0.4)]) == frozenset()
    assert one.feed(SECOND, [thread(7, 1.0, life=0.6)])


def test_threads_that_have_ended_count_for_their_process() -> None:
    one = policy("process: ready > 20 %")
    assert one.feed(SECOND, [thread(7, 0.0), thread(8, 1.0, life=0.9, ended=True)])


def test_the_widest_scope_is_told_and_cgroups_by_their_path() -> None:
    one = policy("ready > 20 %", "cgroup: ready > 20 %")
    one.feed(SECOND, [thread(7, 1.0, cgroup="/a"), thread(8, 0.0, cgroup="/b")])
    assert one.needs_cgroups
    assert one.covers(7, 1, 0, "/a") is Scope.CGROUP
    assert one.covers(7, 1, 0, "/b") is Scope.THREAD
    assert one.covers(8, 1, 0, "/b") is None
    assert {str(target) for target in one.targets} == {"thread 7", "cgroup /a"}
