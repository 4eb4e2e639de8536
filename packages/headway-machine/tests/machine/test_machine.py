from __future__ import annotations

import io
import json
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.machine.elves import A0, RAM, T0, T1, WFI, ZERO, Elf, addi, assemble, csrw, jump, li, lw, sw
from tests.machine.programs import (
    DATA,
    ENDS,
    WAIT_MUTEX,
    call,
    check,
    leave,
    loop,
    program,
    receive,
    run,
    semihost,
    send,
    switch,
    trap_handler_first,
    wake,
)
from tests.machine.sentences import given_or_sentence

from headway.errors import HeadwayError
from headway.model import Kind
from headway_machine import Cache, Machine
from headway_machine import run as run_module
from headway_machine.config import (
    L2,
    BlockDevice,
    Config,
    ExternalInterrupt,
    MemoryConfig,
    Pipeline,
    Range,
    Script,
    Smi,
    Tlb,
    Uart,
)
from headway_machine.image import MachineImage

SMALL = MemoryConfig(ram="64KiB")
configs = st.builds(
    Config,
    cores=st.sampled_from([1, 1, 2, 3]),
    threads=st.integers(1, 8),
    issue=st.sampled_from(["strict", "skip"]),
    boot=st.sampled_from(["first", "all"]),
    l1d=st.builds(Cache, st.sampled_from(["256B", "16KiB"]), st.sampled_from([1, 4]), write=st.just("through"))
    | st.just(Cache()),
    l2=st.none() | st.just(L2("4KiB")),
    tlb=st.builds(Tlb, st.sampled_from([0, 1, 16])),
    pipeline=st.builds(Pipeline, refill=st.integers(0, 9), load=st.integers(1, 9)),
    memory=st.builds(MemoryConfig, st.just("64KiB"), latency=st.integers(0, 99)),
    smi=st.just(Smi()) | st.builds(Smi, st.integers(0, 999), st.integers(300, 999), st.integers(1, 99)),
    interrupts=st.lists(
        st.builds(ExternalInterrupt, st.integers(4, 31), st.integers(0, 99), st.just(70), st.just(9)), max_size=8
    ),
)


@pytest.mark.parametrize("status", [0, 1, 42, 0x7FFF_FFFF])
def test_a_program_ends_with_its_exit_status(status: int) -> None:
    result = run(program(*leave(status)))
    assert (result.ended, result.exit_status) == ("exit", status)


def test_what_a_program_does_is_counted_to_the_instruction() -> None:
    result = run(program(*loop(100), *leave(0)), threads=1)
    assert result.instructions == 2 + 2 * 100 + 5
    (thread,) = result.ledger.threads
    indices = result.ledger.indices(thread)
    assert indices.epi == result.instructions
    assert indices.rpi == result.cycles == sum(cell.time for cell in thread.states.values())
    assert indices.mpi_external is not None
    assert indices.mpi_external > 0


def test_in_strict_turn_progress_is_uniform_time() -> None:
    alone = run(program(*loop(100), *leave(0)), threads=6)
    beside = run(program(*loop(100), *leave(0)), threads=6, boot="all")
    for result in (alone, beside):
        epi = result.ledger.indices(result.ledger.threads[0]).epi
        assert epi is not None
        assert 0 <= 6 * (2 + 2 * 100 + 5) - epi < 6  # it ends within the last rotation


def test_software_threads_are_told_apart_by_their_blocks() -> None:
    code = (
        *wake(0),
        *wake(1),
        *switch(0),
        *loop(50),
        *switch(1, WAIT_MUTEX),
        *loop(20),
        *wake(0),
        *switch(0, ENDS),
        *loop(10),
        *leave(0),
    )
    ledger = run(program(*code)).ledger
    first, second, hart = ledger.threads
    assert [(t.tid, t.name) for t in ledger.threads] == [(1, "first"), (2, "second\x1b[31m"), (1000, "hart 0")]
    assert first.end is None
    assert first.states["wait.mutex"].count == 1
    assert first.states["wait.mutex"].time > 0
    assert second.end is not None
    assert second.states["ready"].time > 0
    assert hart.end is not None
    assert hart.until <= second.until <= first.until


def test_calls_have_the_names_that_the_program_gives_them() -> None:
    code = trap_handler_first(*call(7), *call(7), *call(9), *leave(0))
    (thread,) = run(program(*code)).ledger.threads
    assert thread.states["kernel.nap"].count == 2
    assert thread.states["kernel.call_9"].count == 1
    assert thread.times()[Kind.KERNEL] > 0


def test_a_range_is_a_state_of_its_own_by_address_or_by_symbol() -> None:
    elf = program(*loop(50), *leave(0))
    for part in (Range("all", symbol="main"), Range("all", start=RAM, end=RAM + 0x100)):
        (thread,) = run(elf, ranges=[part]).ledger.threads
        assert thread.states["user.all"].time == thread.span
        assert thread.states["user.all"].count == 1
    (thread,) = run(elf, ranges=[Range("all", symbol="main", kind="poll")]).ledger.threads
    assert thread.times()[Kind.POLL] == thread.states["poll.all"].time > 0
    with pytest.raises(HeadwayError, match=r"ranges\[0\].symbol is 'maine', but the program has no function"):
        run(elf, ranges=[Range("all", symbol="maine")])


def test_what_the_uart_sends_is_the_output_and_goes_to_the_stream() -> None:
    out = io.BytesIO()
    result = run(program(*send(b"hello\n"), *loop(2000), *leave(0)), output=out)
    assert result.output == out.getvalue() == b"hello\n"


def test_what_the_uart_receives_comes_from_script_and_file(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"abc")
    elf = program(*receive(5), *loop(2000), *leave(0))
    uart = Uart(input=str(tmp_path / "in"), start=500, every=100, script=(Script(0, "xy"),))
    result = run(elf, uart=uart)
    assert result.output == b"xyabc"
    (thread,) = result.ledger.threads
    assert thread.states["poll.uart_rx"].count
    assert result.ledger.indices(thread).iopi


def test_semihosting_reaches_the_host() -> None:
    text = DATA + 0x180
    code = (*li(T0, text), *li(T1, 0x0A6968), sw(T1, T0), *semihost(0x04, text), *semihost(0x18, 0x20026))
    result = run(program(*code))
    assert (result.console, result.exit_status) == (b"hi\n", 0)
    out = io.BytesIO()
    assert run(program(*code), output=out).console == b""
    assert out.getvalue() == b"hi\n"


def test_input_is_read_by_semihosting() -> None:
    code = (*semihost(0x07, 0), *li(T0, DATA + 0x180), sw(A0, T0), *semihost(0x03, DATA + 0x180), *leave(0))
    assert run(program(*code), input=io.BytesIO(b"q")).console == b"q"


def test_a_program_that_does_not_end_is_stopped_at_the_limit() -> None:
    result = run(program(jump(0)), max_cycles=5000)
    assert (result.ended, result.exit_status, result.cycles) == ("limit", None, 5000)
    assert run(program(jump(0)), max_cycles=0).cycles == 0


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("issue", ["strict", "skip"])
@pytest.mark.parametrize("max_cycles", [None, 100_000])
def test_a_program_that_waits_for_nothing_stands_still_at_once(cores: int, issue: str, max_cycles: int | None) -> None:
    result = run(program(*loop(9), WFI, jump(-4)), max_cycles=max_cycles, cores=cores, issue=issue, boot="all")
    assert (result.ended, result.exit_status) == ("standstill", None)
    assert result.cycles < 2000
    assert all("idle.c1" in p.states for p in result.ledger.processors)


def test_a_wild_store_traps_and_harms_nobody() -> None:
    result = run(program(sw(ZERO, ZERO, 4)), max_cycles=5000)
    assert result.ended == "limit"
    (thread,) = result.ledger.threads
    assert "kernel.store_fault" in thread.states


@settings(max_examples=40, deadline=None)
@given(configs, st.lists(st.integers(0, 2**32 - 1) | st.sampled_from([WFI, 0x73, 0x3020_0073]), max_size=60))
def test_any_program_on_any_machine_keeps_the_laws_and_runs_the_same_twice(config: Config, words: list[int]) -> None:
    elf = program(*trap_handler_first(*words, jump(0)))
    first = given_or_sentence(lambda: Machine(config).run(elf, max_cycles=3000))
    again = given_or_sentence(lambda: Machine(config).run(elf, max_cycles=3000))
    assert (first is None) == (again is None)
    if first is not None and again is not None:
        check(first)
        assert first.digest == again.digest
        assert first == again


@settings(max_examples=20, deadline=None)
@given(configs)
def test_how_long_the_stretches_are_changes_nothing(config: Config) -> None:
    elf = program(*switch(0), *loop(30), *send(b"x"), *switch(1), *loop(30), *leave(0))
    whole = Machine(config).run(elf, max_cycles=4000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_module, "_STRETCH", 7)
        pieces = Machine(config).run(elf, max_cycles=4000)
    check(pieces)
    assert whole.digest == pieces.digest


def test_the_digest_sees_a_single_byte_of_memory() -> None:
    digests = {run(program(*li(T1, value), *li(T0, DATA + 0x180), sw(T1, T0), *leave(0))).digest for value in (1, 1, 2)}
    assert len(digests) == 2


def test_how_far_it_is_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "_STRETCH", 1000)
    told: list[tuple[int, int]] = []

    def note(cycles: int, instructions: int) -> None:
        told.append((cycles, instructions))

    run(program(jump(0)), max_cycles=3500, progress=note)
    assert [cycles for cycles, _ in told] == [1000, 2000, 3000]
    assert [n for _, n in told] == sorted(n for _, n in told)


def test_whoever_is_told_may_stop_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "_STRETCH", 1000)
    result = run(program(jump(0)), max_cycles=None, progress=lambda cycles, _: cycles >= 3000)
    assert (result.ended, result.exit_status, result.cycles) == ("stopped", None, 3000)


def test_the_block_device_is_written_back_if_asked_for(tmp_path: Path) -> None:
    image = tmp_path / "disk"
    image.write_bytes(bytes(512) + b"second".ljust(512, b"."))
    device = 0x1001_0000
    write_first = (
        *li(T0, device),
        *li(T1, DATA + 0x180),
        sw(T1, T0, 4),
        sw(ZERO, T0, 0),
        *(addi(T1, ZERO, 1), sw(T1, T0, 8), addi(T1, ZERO, 2), sw(T1, T0, 12)),
        *(lw(T1, T0, 16), 0xFE03_0EE3),  # beq t1, zero, -4
        *leave(0),
    )
    store = (*li(T0, DATA + 0x180), *li(T1, 0x64636261), sw(T1, T0))
    elf = program(*store, *write_first)
    run(elf, block=BlockDevice(image=str(image)))
    assert image.read_bytes()[:4] == bytes(4)
    run(elf, block=BlockDevice(image=str(image), save=True))
    assert image.read_bytes()[:4] == b"abcd"
    assert image.read_bytes()[512:518] == b"second"


def test_a_program_may_be_a_path_bytes_or_an_image(tmp_path: Path) -> None:
    elf = program(*leave(3))
    path = tmp_path / "prog.elf"
    path.write_bytes(elf)
    digests = {Machine().run(given).digest for given in (path, str(path), elf, MachineImage.of(elf))}
    assert len(digests) == 1
    with pytest.raises(HeadwayError, match="the program is 3: give the path"):
        Machine().run(3)  # type: ignore[arg-type]
    with pytest.raises(HeadwayError, match="max_cycles is -1: give a whole number"):
        Machine().run(elf, max_cycles=-1)
    with pytest.raises(HeadwayError, match=r"Machine was given 'my\.toml'"):
        Machine("my.toml")  # type: ignore[arg-type]


def test_tightly_coupled_memory_is_loaded_too() -> None:
    tcm = 0x0800_0000
    code = assemble(*leave(5))
    elf = Elf(address=tcm, code=code, segments=[(DATA, b"", 64)], symbols={"tohost": (DATA, 8, 1)}).build()
    assert run(elf).exit_status == 5


def test_names_of_threads_are_what_the_guest_says_and_harmless() -> None:
    from headway.views.json import to_document

    result = run(program(*switch(1), *leave(0)))
    document = to_document(result.ledger, command=["x"], exit_status=0)
    assert json.loads(json.dumps(document))["threads"][0]["name"] == "second\x1b[31m"


def test_two_threads_of_one_id_stay_two() -> None:
    elf = bytearray(program(*switch(0), *switch(1), *switch(0), *leave(0)))
    at = elf.index(b"second")
    struct.pack_into("<I", elf, at - 16, 1)
    ledger = run(bytes(elf)).ledger
    assert len({thread.key for thread in ledger.threads}) == len(ledger.threads) == 3


def test_marked_regions_are_no_progress() -> None:
    noneffective, poll = 3, 5
    code = (
        *(*li(T0, noneffective), csrw(0x800, T0), *loop(40), csrw(0x800, ZERO)),
        *(*li(T0, poll), csrw(0x800, T0), *loop(30), csrw(0x800, ZERO)),
        *leave(0),
    )
    ledger = run(program(*code), threads=1).ledger
    indices = ledger.indices(ledger.threads[0])
    assert indices.kpi is not None
    assert indices.iopi is not None
    assert indices.kpi >= 80
    assert indices.iopi >= 60
    assert indices.rpi == sum(cell.cycles or 0 for cell in ledger.threads[0].states.values())


def test_a_correction_takes_no_more_than_there_was() -> None:
    code = (*li(T0, 0x7FFF_FFFF), csrw(0x7C2, T0), *li(T0, 3), csrw(0x800, T0), csrw(0x800, ZERO), *leave(0))
    ledger = run(program(*code)).ledger
    (thread,) = ledger.threads
    assert thread.states["overhead"].time > 0
    assert thread.states["user"].time == 0 or ledger.indices(thread).epi == 0


def test_the_digest_stays_when_the_machine_is_given_back() -> None:
    result = run(program(*leave(0)))
    digest = result.digest
    assert result._digest._processor is None
    assert result.digest == digest == run(program(*leave(0))).digest
