"""What holds for every program on every machine: conservation, one place for each cycle, and the same run each time."""

from __future__ import annotations

import hashlib
import json
import random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headway.model import every_loss, violations
from headway_machine._processor import STANDSTILL
from headway_machine.config import Smi

from .assembler import Bench, State
from .streams import ANY, COUNTED, PLAIN, bench

SEEDS = st.integers(0, 1 << 32)
STOPS = st.lists(st.integers(1, 4000), min_size=1, max_size=8)
CHECK = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
WORD = 1 << 64


def digest(b: Bench) -> str:
    """Of everything that can be seen of a machine."""
    p = b.processor
    everything = [
        p.now, p.instructions, hashlib.sha256(p.read(0x8000_0000, b.config.memory.ram)).hexdigest(),
        [sorted(p.hart(n).items()) for n in range(b.config.harts)], [[b.x(i,
        n) for i in range(32)] for n in range(b.config.harts)],
        [sorted(p.core(n).items()) for n in range(b.config.cores)], repr(p.threads()), repr(p.processors()),
        sorted(p.losses.items()), hashlib.sha256(p.block_image()).hexdigest(),
    ]  # fmt: skip
    return hashlib.sha256(json.dumps(everything).encode()).hexdigest()


@CHECK
@given(SEEDS, STOPS)
def test_every_tick_is_in_exactly_one_state(seed: int, stops: list[int]) -> None:
    b = bench(random.Random(seed))
    for step in stops:
        b.run(b.processor.now + step)
        assert violations(b.ledger()) == []
        assert b.ledger().losses.keys() <= every_loss().keys()


@CHECK
@given(SEEDS, STOPS)
def test_a_run_in_pieces_is_the_same_run(seed: int, stops: list[int]) -> None:
    at_once = bench(random.Random(seed), ANY).run(sum(stops))
    again = bench(random.Random(seed), ANY).run(sum(stops))
    pieces = bench(random.Random(seed), ANY)
    sent = b""
    for step in stops:
        pieces.run(pieces.processor.now + step)
        sent += pieces.processor.transmitted()
    assert digest(at_once) == digest(again) == digest(pieces)
    assert at_once.processor.transmitted() == sent


@CHECK
@given(SEEDS, STOPS)
def test_running_time_is_the_sum_of_its_parts(seed: int, stops: list[int]) -> None:
    """RPC = EPC + MPCI + MPCX + KPC + IOPC + SPC, whatever signals, threads and traps there were."""
    b = bench(random.Random(seed))
    for step in stops:
        b.run(b.processor.now + step)
        for number in range(b.config.harts):
            hart = b.counters(number)
            parts = sum(hart[name] for name in ("epc", "mpci", "mpcx", "kpc", "iopc", "spc"))
            assert hart["rpc"] == parts % WORD


@CHECK
@given(SEEDS, STOPS)
def test_threads_and_harts_are_charged_the_same(seed: int, stops: list[int]) -> None:
    """What a hart did from its start on is what its threads did on it."""
    b = bench(random.Random(seed))
    for step in stops:
        b.run(b.processor.now + step)
    harts: dict[int, int] = {}
    for _, cells in b.processor.processors():
        for state, time, *_ in cells:
            harts[state] = harts.get(state, 0) + time
    threads: dict[int, int] = {}
    for *_, cells in b.processor.threads():
        for state, time, *_ in cells:
            threads[state] = threads.get(state, 0) + time
    started = sum(b.counters(n)["started"] for n in range(b.config.harts))
    for state, time in threads.items():
        if state < 208 and state != 204:
            assert time == harts[state], state
    if started == b.config.harts and not b.config.smi.ticks:
        assert {s: t for s, t in harts.items() if s != 204 and t} == {s: t for s, t in threads.items() if s < 220 and t}


@CHECK
@given(SEEDS)
def test_the_counters_are_the_ledgers_kinds(seed: int) -> None:
    b = bench(random.Random(seed), COUNTED, rounds=2, smi=Smi())
    assert b.processor.run(5_000_000) == STANDSTILL, "every hart has halted, so all is counted"
    ranges = b.config.ranges
    for number in range(b.config.harts):
        states, hart = b.states(number), b.counters(number)
        kernel = sum(s.cycles for n, s in states.items() if 64 <= n < 96 or 128 <= n < 200 or (n == 2 and ranges))
        polls = sum(s.cycles for n, s in states.items() if 96 <= n < 123 or (n == 3 and ranges))
        users = [s for n, s in states.items() if n in (0, 1)]
        marked = states.get(123, State())
        effective = [*users, marked]
        assert hart["kpc"] == kernel
        assert hart["iopc"] == polls
        assert hart["epc"] == sum(s.cycles - s.stall for s in users)
        assert hart["mpcx"] == sum(s.external for s in effective)
        assert hart["mpci"] == sum(s.memory - s.external for s in effective)
        assert hart["spc"] == sum(s.stall - s.memory for s in users) + marked.cycles - marked.memory
        assert hart["unhalted"] == hart["rpc"] == sum(s.cycles for n, s in states.items() if n < 200)
        slept = {depth: states.get(199 + depth, State()).time - hart[f"c{depth}"] for depth in (1, 2, 3)}
        assert sum(time != 0 for time in slept.values()) <= 1, "only the last sleep is still to be counted"


@CHECK
@given(SEEDS)
def test_a_program_without_traps_retires_the_same_however_it_is_timed(seed: int) -> None:
    """Time is a matter of the machine, what is computed is not."""
    values = {"cores": 1, "threads": 1, "interrupts": (), "boot": "all", "ranges": ()}
    first = bench(random.Random(seed), PLAIN, rounds=3, **values).run(300_000)
    r = random.Random(seed)
    other = bench(r, PLAIN, rounds=3, **values, issue="skip", tlb=first.config.tlb).run(300_000)
    assert [first.x(n) for n in range(32)] == [other.x(n) for n in range(32)]
    assert first.counters()["instret"] == other.counters()["instret"] > 50
