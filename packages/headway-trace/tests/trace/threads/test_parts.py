"""Parts of a trace of the machine: the rows, by time and by thread, that looking through all of them finds."""

from __future__ import annotations

import csv
import io
import json
import random
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.machine.examples import EXAMPLES
from tests.running import headway

from headway_trace.selection import Wanted
from headway_trace.threads import reading
from headway_trace.threads.container import TraceFile
from headway_trace.threads.program import read_program
from headway_trace.threads.reading import Trace, state_of

if TYPE_CHECKING:
    from headway_trace.threads._flow import Row

HWT, ELF = EXAMPLES / "sleepers.hwt", EXAMPLES / "sleepers.elf"
Shown = tuple[int, "Row", str]


def opened(path: Path = HWT) -> Trace:
    return Trace(TraceFile(str(path)), read_program(str(ELF)))


def shown(trace: Trace, stalls: bool, wanted: Wanted | None) -> list[Shown]:
    return [
        (core, rows[number], state_of(rows, number))
        for core in range(trace.shape.cores)
        for rows in trace.rows(core, stalls=stalls, wanted=wanted)
        for number in range(len(rows))
    ]


@cache
def everything(path: Path, stalls: bool) -> list[Shown]:
    return shown(opened(path), stalls, None)


def is_wanted(trace: Trace, one: Shown, wanted: Wanted) -> bool:
    core, (thread, cycle, cycles, _, size, what, _), _ = one
    if wanted.threads and core * trace.shape.threads + thread not in wanted.threads:
        return False
    if not wanted.timed:
        return True
    if cycle is None:
        return False
    unit = trace.shape.threads if trace.shape.strict else 1
    first, last = (cycle - unit + 1, cycle) if size else (cycle, cycle + max(cycles or 0, 1) - 1)
    if what == 19:  # a trigger marker
        last = cycle
    clock = trace.clock(core)
    after = wanted.begin is None or last >= clock.cycle(wanted.begin)
    return after and (wanted.end is None or first < clock.cycle(wanted.end))


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("parts") / "damaged.hwt"
    sound = HWT.read_bytes()
    path.write_bytes(sound[:9000] + bytes(100) + sound[9100:])
    return path


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_part_is_what_looking_through_all_finds(damaged: Path, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from([HWT, damaged]))
    trace = opened(path)
    times = st.none() | st.integers(0, 120_000)
    threads = tuple(data.draw(st.lists(st.integers(0, 3), max_size=3)))
    wanted = Wanted(threads=threads, begin=data.draw(times), end=data.draw(times))
    stalls = data.draw(st.booleans())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "_EVERY", data.draw(st.sampled_from([256, 1 << 15])))
        found = shown(trace, stalls, wanted)
    assert found == [one for one in everything(path, stalls) if is_wanted(trace, one, wanted)]


def rows(*words: object) -> list[dict[str, str]]:
    done = headway("trace", *words, "--image", ELF, "--format", "csv")
    assert done.returncode == 0, done.stderr
    return list(csv.DictReader(io.StringIO(done.stdout)))


@pytest.mark.end_to_end
def test_the_commands_select_and_disassemble() -> None:
    every = rows("decode", HWT, "--disassemble")
    thread = random.Random(1).choice(sorted({row["thread"] for row in every}))
    assert rows("decode", HWT, "--thread", thread, "--disassemble") == [row for row in every if row["thread"] == thread]
    assert all(bool(row["instruction"]) == (row["size"] != "0") for row in every)
    assert {"addi", "sw"} & {row["instruction"].split(" ")[0] for row in every}
    done = headway(
        "trace", "decode", HWT, "--image", ELF, "--disassemble", "--from", 45000, "--to", 46000, "--format", "json"
    )
    part = json.loads(done.stdout)
    assert 0 < len(part) < len(every)
    texts = {row["address"]: row["instruction"] for row in every}
    assert all(row["instruction"] == texts[row["address"] or ""] for row in part if row["size"])
    moment = rows("at", HWT, "--cycle", 45000, "--disassemble")
    assert rows("at", HWT, "--cycle", 45000, "--thread", moment[1]["thread"], "--disassemble") == [moment[1]]
    refused = headway("trace", "decode", HWT, "--image", ELF, "--thread", 99)
    assert "no thread 99" in refused.stderr
