"""Masks of ways, what the files of resctrl may say, and which division a plan makes of that."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.linux.kernel import FakeKernel
from tests.linux.resctrl_tree import BOTH, ResctrlTree

from headway.advice import Remedy
from headway.linux.placement.changes import MakeGroup
from headway.linux.placement.division import Assign, Exclusive, Schemata
from headway.linux.placement.draft import PlacementPlan
from headway.linux.placement.plan import plan
from headway.linux.placement.refused import Refused
from headway.linux.placement.resctrl import as_schemata, divide, limited, parse_schemata, read_tree

masks = st.integers(0, (1 << 32) - 1)


def contiguous(mask: int) -> bool:
    return bool(mask) and "0" not in f"{mask:b}".strip("0")


@given(masks, st.integers(0, 6), masks)
def test_halves_are_valid_masks_that_do_not_overlap(available: int, least: int, shared: int) -> None:
    halves = divide(available, least, shared)
    longest = max(map(len, f"{available:b}".split("0")))
    if halves is None:
        assert longest < 2 * max(least, 1)
        return
    own, rest = halves
    assert contiguous(own)
    assert contiguous(rest)
    assert contiguous(own | rest)
    assert own & rest == 0
    assert (own | rest) & ~available == 0
    assert (own | rest).bit_count() == longest
    assert min(own.bit_count(), rest.bit_count()) >= max(least, 1)
    assert rest.bit_count() - own.bit_count() in (0, 1)


def test_ones_own_half_is_away_from_the_ways_of_devices() -> None:
    assert divide(0xFFF, 2, 0xC00) == (0x03F, 0xFC0)
    assert divide(0xFFF, 2, 0x003) == (0xFC0, 0x03F)
    assert divide(0x1, 1) is None
    assert divide(0b111, 2) is None


@given(st.integers(0, 200), st.integers(1, 100), st.integers(0, 100))
def test_half_of_the_bandwidth_is_a_step_that_there_is(now: int, gran: int, least: int) -> None:
    found = limited(now, gran, least)
    if found is not None:
        assert least <= found < min(now, 100)
        assert found == least or found % gran == 0


limits = st.dictionaries(
    st.sampled_from(["L3", "L2", "L3CODE", "MB"]),
    st.dictionaries(st.integers(0, 9), st.integers(0, 10**9), min_size=1),
    min_size=1,
)


@given(limits)
def test_schemata_are_read_as_they_were_written(found: dict[str, dict[int, int]]) -> None:
    assert parse_schemata(as_schemata(found)) == found


@given(st.text(alphabet="L23MBCODE:;=0af \n", max_size=60))
def test_any_text_is_schemata_or_refused(text: str) -> None:
    try:
        found = parse_schemata(text)
    except ValueError:
        return
    assert all(domains for domains in found.values())


def machine(info: dict[str, dict[str, str]] | None = None, domains: int = 2) -> tuple[FakeKernel, ResctrlTree]:
    tree = ResctrlTree(info, domains)
    kernel = FakeKernel(4, resctrl=tree)
    for pid, threads in ((4711, 3), (50, 2), (60, 1)):
        kernel.add(pid, threads=threads)
    return kernel, tree


def planned(kernel: FakeKernel, *neighbours: int) -> PlacementPlan:
    return plan([Remedy("memory", 4711, 1, neighbours)], kernel)


def test_without_neighbours_the_cache_is_divided_in_two() -> None:
    kernel, tree = machine()
    made = planned(kernel)
    group = f"{tree.root}/headway-{made.id}"
    assert made.changes == (
        MakeGroup(group),
        Schemata(group, tree.root, "", "L3:0=3ff;1=3ff"),
        Assign(4711, 5711, "p4711", group),
        Schemata(tree.root, tree.root, "L3:0=fffff;1=fffff", "L3:0=ffc00;1=ffc00"),
        Exclusive(group),
    )
    assert kernel.operations == 0, "a plan changes nothing"
    assert made.changes[3].back().startswith("write L3:0=fffff;1=fffff to it")


def test_known_neighbours_get_the_smaller_part_and_half_of_the_bandwidth() -> None:
    kernel, tree = machine()
    made = planned(kernel, 51, 60)
    group = f"{tree.root}/headway-{made.id}"
    assert made.changes == (
        MakeGroup(group),
        Schemata(group, tree.root, "", "L3:0=ffc00;1=ffc00\nMB:0=50;1=50"),
        Assign(50, 1050, "p50", group),
        Assign(60, 1060, "p60", group),
    )
    assert made.changes[1].words() == f"write L3:0=ffc00;1=ffc00 and MB:0=50;1=50 to {group}/schemata"


def test_a_neighbour_that_is_named_itself_is_not_confined() -> None:
    kernel, _ = machine()
    made = plan([Remedy("memory", 4711, 1, (50,)), Remedy("memory", 50, 1, (4711, 60))], kernel)
    assert [change.pid for change in made.changes if isinstance(change, Assign)] == [60]
    made = plan([Remedy("memory", 4711, 1, (50,)), Remedy("memory", 50, 1, (4711,))], kernel)
    assert [change.pid for change in made.changes if isinstance(change, Assign)] == [4711, 50]


def test_code_and_data_apart_are_divided_alike() -> None:
    half = BOTH["L3"]
    kernel, _ = machine({"L3CODE": half, "L3DATA": half})
    found = [change.after for change in planned(kernel).changes if isinstance(change, Schemata)]
    assert found == ["L3CODE:0=3ff;1=3ff\nL3DATA:0=3ff;1=3ff", "L3CODE:0=ffc00;1=ffc00\nL3DATA:0=ffc00;1=ffc00"]


def test_a_second_cache_forbids_exclusive_ways() -> None:
    kernel, _ = machine({**BOTH, "L2": {**BOTH["L3"], "cbm_mask": "ff", "shareable_bits": "0"}})
    assert not any(isinstance(change, Exclusive) for change in planned(kernel).changes)


def test_ways_that_devices_fill_too_cannot_be_exclusive() -> None:
    kernel, _ = machine({**BOTH, "L3": {**BOTH["L3"], "shareable_bits": "fffff"}})
    assert not any(isinstance(change, Exclusive) for change in planned(kernel).changes)


def test_a_group_of_somebody_elses_that_overlaps_is_mentioned() -> None:
    kernel, tree = machine()
    kernel.make(f"{tree.root}/theirs")
    made = planned(kernel)
    assert made.notes == (f"{tree.root}/theirs may still fill some of these ways",)
    assert not any(isinstance(change, Exclusive) for change in made.changes)


def test_ways_that_somebody_has_exclusively_are_not_divided() -> None:
    kernel, tree = machine()
    theirs = f"{tree.root}/theirs"
    kernel.make(theirs)
    kernel.write(f"{theirs}/schemata", "L3:0=3ff;1=3ff\n")
    kernel.write(f"{tree.root}/schemata", "L3:0=ffc00;1=ffc00\n")
    kernel.write(f"{theirs}/mode", "exclusive\n")
    own, rest = (change.after for change in planned(kernel).changes if isinstance(change, Schemata))
    assert (own, rest) == ("L3:0=7c00;1=7c00", "L3:0=f8000;1=f8000")


@pytest.mark.parametrize(
    ("info", "neighbours", "why"),
    [
        ({"MB": BOTH["MB"]}, (), "nobody else is known: measure the others too (-a)"),
        ({"L3": {**BOTH["L3"], "cbm_mask": "1"}}, (), "cannot be divided in two of 1 way"),
        ({"L3": {**BOTH["L3"], "cbm_mask": "7", "min_cbm_bits": "2"}}, (50,), "L3 in domain 0 (7) cannot be divided"),
        ({"MB": {**BOTH["MB"], "min_bandwidth": "100"}}, (50,), "cannot be limited further"),
        ({"L3": {**BOTH["L3"], "num_closids": "1"}}, (), "all 1 groups"),
    ],
)
def test_what_cannot_be_divided_is_refused(
    info: dict[str, dict[str, str]], neighbours: tuple[int, ...], why: str
) -> None:
    kernel, _ = machine(info)
    made = planned(kernel, *neighbours)
    assert made.changes == ()
    assert why in made.refused[0]


def test_bandwidth_alone_can_be_limited_for_neighbours() -> None:
    kernel, _ = machine({"MB": BOTH["MB"]})
    assert [c.after for c in planned(kernel, 50).changes if isinstance(c, Schemata)] == ["MB:0=50;1=50"]


def test_a_process_in_a_group_already_is_left_there() -> None:
    kernel, tree = machine()
    kernel.make(f"{tree.root}/theirs")
    kernel.write(f"{tree.root}/theirs/tasks", "4712")
    made = planned(kernel)
    assert made.changes == ()
    assert f"process 4711 is in a group of {tree.root} already" in made.refused[0]


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("schemata", None, "not a resctrl tree"),
        ("schemata", "L3:uninitialized\n", "neither a cache nor the memory bandwidth"),
        ("schemata", "", "neither a cache nor the memory bandwidth"),
        ("schemata", "L3:0=xyz;1=1\n", "not as documented"),
        ("schemata", "L3:0=1;0=1\n", "not as documented"),
        ("schemata", "L3:0=1\nL3:0=1\n", "L3 is there twice"),
        ("schemata", "MB:0=ff\n", "not as documented"),
        ("schemata", "L3:" + "0=1;" * 10_000 + "\n", "not as documented"),
        ("info/L3/cbm_mask", None, "is not there"),
        ("info/L3/cbm_mask", "-1", "not a number"),
        ("info/L3/cbm_mask", "f" * 40, "not a number"),
        ("info/L3/min_cbm_bits", "two", "not a number"),
        ("info/L3/min_cbm_bits", "", "not a number"),
        ("info/L3/shareable_bits", None, "is not there"),
        ("info/MB/bandwidth_gran", "1e9", "not a number"),
        ("info/MB/num_closids", "9" * 20, "not a number"),
    ],
)
def test_files_that_are_absent_or_lie_are_refused_in_one_sentence(name: str, text: str | None, why: str) -> None:
    kernel, tree = machine()
    file = Path(tree.root, name)
    file.unlink()
    if text is not None:
        file.write_text(text)
    made = planned(kernel, 50)
    assert made.changes == ()
    assert why in made.refused[0]
    assert "\n" not in made.refused[0]
    assert len(made.refused[0]) < 400


@given(
    name=st.sampled_from(["schemata", "info/L3/cbm_mask", "info/L3/min_cbm_bits", "info/MB/bandwidth_gran", "tasks"]),
    text=st.text(alphabet="L3MB:;=0123456789abcdef\n -", max_size=40),
)
def test_no_content_of_a_file_brings_a_plan_down(name: str, text: str) -> None:
    kernel, tree = machine()
    Path(tree.root, name).write_text(text)
    for neighbours in ((), (50,)):
        made = planned(kernel, *neighbours)
        assert made.changes or made.refused


def test_limits_in_megabytes_are_no_shares() -> None:
    kernel, tree = machine()
    assert read_tree(kernel, tree.root, megabytes=True).gran is None
    with pytest.raises(Refused):
        read_tree(kernel, f"{tree.root}/info")


def test_only_root_may_divide() -> None:
    class Unprivileged(FakeKernel):
        def may_write(self, file: str) -> bool:
            return False

    tree = ResctrlTree()
    kernel = Unprivileged(2, resctrl=tree)
    kernel.add(4711)
    assert "only root may change" in planned(kernel).refused[0]
