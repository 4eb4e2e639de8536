"""The shapes in which the eBPF programs are loaded: the table is whole, and what a kernel lacks is told."""

from __future__ import annotations

import inspect
from dataclasses import fields, replace
from importlib.resources import files
from itertools import product
from pathlib import Path

import pytest
from tests.effort import exhaustive

from headway.errors import HeadwayError
from headway.linux.bpf.programs import kernel_types, loading
from headway.linux.bpf.programs.libbpf import Library, Object
from headway.linux.bpf.programs.loading import SHAPES, Features, Shape
from headway.linux.bpf.shared.layout import PROTOCOLS
from headway.linux.levels import Level
from headway.linux.options import MeasureOptions, Selection
from headway.linux.sources.ebpf import BpfSource

root = pytest.mark.root
NOT_IN_A_SHAPE = {
    "pids": "which threads, not how they are chosen: a map holds them",
    "descendants": "they are in the same map",
    "tids": "as pids",
    "command": "likewise",
    "argv": "likewise",
    "checks": "a table of the settings, which is always there",
    "forget": "the reader forgets, not the programs",
    "exit_bytes": "a size",
    "max_ended": "the reader adds them up, not the programs",
    "max_threads": "a size",
    "prepared": "what the caller does just before measuring begins",
    "meanwhile": "what the caller does while the programs are loaded",
    "cgroups": "the reader tells them",
    "calls": "programs of an object of its own count them",
    "locks": "likewise",
    "ring_words": "a size",
    "task_attributes": "user space finds them in the programs that are measured",
}


@pytest.mark.parametrize("field", [field.name for field in fields(Shape)])
def test_everything_that_a_shape_can_have_is_in_one_of_the_table_and_missing_in_another(field: str) -> None:
    found = {getattr(shape, field) for shape in SHAPES.values()}
    wanted = {"level": set(Level) - {Level.CLOCKS}, "durations": {0, 1, 4, 8}, "requests": {0, sum(PROTOCOLS.values())}}
    assert found == wanted.get(field, {False, True})


def test_every_option_of_a_measurement_is_part_of_a_shape_or_changes_no_program() -> None:
    options = {field.name for kind in (Selection, MeasureOptions) for field in fields(kind)}
    options |= {name for name in inspect.signature(BpfSource).parameters if name not in ("selection", "options")}
    assert options - {field.name for field in fields(Shape)} == set(NOT_IN_A_SHAPE)


def test_every_program_of_the_object_is_loaded_in_some_shape() -> None:
    try:
        library = Library()
    except HeadwayError as why:
        pytest.skip(str(why))
    image = files("headway.linux").joinpath("bpf", "progress.bpf.o").read_bytes()
    never: set[str] | None = None
    for shape, has_fault_tracepoints in product(SHAPES.values(), (True, False)):
        with Object(library, image) as programs:
            hooks = {p.section.partition("/")[2] for p in programs.programs.values() if p.section.startswith("tp_btf/")}
            hooks |= {"local_timer_entry", "local_timer_exit"}  # of those that share a program
            hooks |= {"mm_vmscan_direct_reclaim_begin", "mm_vmscan_direct_reclaim_end"}
            hooks |= {"io_uring_submit_req", "io_uring_complete"}
            hooks -= set() if has_fault_tracepoints else {"page_fault_user", "page_fault_kernel"}
            loading.leave_out_needless(programs, shape, Features(frozenset(hooks), steal=True, faults=True, fetch=True))
            out = {program.name for program in programs.programs.values() if not program.wanted}
            never = out if never is None else never & out
    assert never == set()


def test_the_shape_of_a_measurement_follows_from_what_is_asked_for() -> None:
    selection = Selection(everything=True, cpus=(0,), follow=False)
    options = MeasureOptions(why=True, events=("page-faults",))
    shape = Shape.of(selection, options, intervals=True, record=False, namespace=True)
    expected = Shape(everything=True, cpus=True, follow=False, namespace=True, intervals=True, why=True, events=True)
    assert shape == expected


@root
@pytest.mark.parametrize("fetch", [True, *exhaustive(False)])
def test_this_kernel_loads_all_at_once_also_without_atomics_that_fetch(fetch: bool) -> None:
    library = Library()
    features = Features.probe(library)
    loading.trial(library, SHAPES["all at once"], replace(features, fetch=features.fetch and fetch))


@root
def test_an_instruction_that_fetches_is_found_by_trying_it() -> None:
    assert loading._loads_fetch(Library())
    assert not Library().loads(b"\xff" * 8)


def test_a_kernel_that_lacks_what_every_shape_needs_is_told_what_it_lacks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    types = tmp_path / "vmlinux"
    types.write_bytes(b"\0BPF_MAP_TYPE_RINGBUF\0BPF_FUNC_get_current_task_btf\0")
    monkeypatch.setattr(kernel_types, "BTF", types)
    with pytest.raises(HeadwayError, match=r"lacks .*\(task storage, bpf_task_pt_regs\): .*Linux 5\.15 has all of it"):
        Features.probe(None)  # type: ignore[arg-type]
