"""Profile buffers and totals of states for each thread of the guest kernel, whichever hart runs it."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from tests.machine.programs import check

from headway.errors import HeadwayError
from headway_machine import Machine
from headway_machine.building import Base, base_of, build, find_compiler
from headway_machine.debugging import DebugSession

PROGRAM = """
#include "profiles.h"

struct hw_record records[3][2048];
struct hw_state states[3][HW_STATES];
uint32_t filled[3], refused;

#define SPIN(name)                                                   \\
    static __attribute__((noinline)) void name(uint32_t times)       \\
    {                                                                \\
        for (volatile uint32_t left = times; left; left--)           \\
            ;                                                        \\
    }
SPIN(spin_0)
SPIN(spin_1)
SPIN(spin_2)

static uint32_t work(void *argument)
{
    static void (*const spins[])(uint32_t) = {spin_0, spin_1, spin_2};
    uint32_t which = (uint32_t) argument;
    struct hw_profile profile = {records[which], sizeof records[which], EACH, 100 + 50 * which, states[which]};
    hw_profile(&profile);
    hw_profile_begin();
    for (uint32_t round = 0; round < 40; round++) {
        spins[which](100 * (which + 1));
        hw_yield();
    }
    hw_profile_end();
    filled[which] = hw_profiled();
    return 0;
}

int main(void)
{
    struct hw_profile wrong[] = {{records[0], 8, 1, 1, 0}, {records[0], 16, 4, 1, 0}, {records[0], 16, 1, 0, 0},
                                 {(void *) 16, 16, 1, 1, 0}, {0, 0, 0, 0, (void *) 0xFFFFFFF8}};
    for (uint32_t each = 0; each < sizeof wrong / sizeof *wrong; each++)
        refused += hw_profile(&wrong[each]) == UINT32_MAX;
    uint32_t ids[3];
    for (uint32_t which = 0; which < 3; which++)
        ids[which] = hw_spawn(which == 0 ? "a" : which == 1 ? "b" : "c", work, (void *) which);
    for (uint32_t which = 0; which < 3; which++)
        hw_join(ids[which]);
    return 0;
}
"""


@pytest.fixture(scope="module", params=["HW_EACH_INSTRUCTIONS", "HW_EACH_CYCLES"])
def elf(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        find_compiler()
    except HeadwayError as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("profiled")
    source, program = folder / "p.c", folder / "p.elf"
    source.write_text(PROGRAM)
    assert base_of([str(source)]) is Base.KERNEL
    assert build([str(source)], str(program), Base.KERNEL, [f"-DEACH={request.param}", "-Werror"]) == 0
    return program


def words(session: DebugSession, name: str, which: int, layout: str, count: int) -> list[tuple[int, ...]]:
    """So many structures from an array's row on."""
    size = struct.calcsize(layout)
    data = session.read(session.address(name) + which * count * size, count * size)
    return list(struct.iter_unpack(layout, data))


@pytest.mark.parametrize("threads", [1, 2])
def test_each_thread_has_its_own_records_and_totals(elf: Path, threads: int) -> None:
    session = Machine(cores=1, threads=threads).debug(elf)
    assert session.run().why == "exit"
    result = session.result()
    check(result)
    assert result.exit_status == 0
    assert words(session, "refused", 0, "<I", 1) == [(5,)]
    found = {thread.name: thread for thread in result.ledger.threads}
    for which, name in enumerate("abc"):
        (filled,) = words(session, "filled", which, "<I", 1)[0]
        records = words(session, "records", which, "<IIQ", 2048)[: filled // 16]
        assert filled % 16 == 0
        assert 20 < len(records) < 2048
        user = [session.name(pc).partition("+")[0] for pc, state, _ in records if state == 0]
        assert f"spin_{which}" in user
        assert not {f"spin_{other}" for other in range(3) if other != which} & set(user)
        assert [tick for _, _, tick in records] == sorted(tick for _, _, tick in records)
        states = words(session, "states", which, "<4Q", 256)
        cell = found[name].states["user"]
        cycles, instructions, occurrences, _ = states[0]
        assert 0 <= (cell.cycles or 0) - cycles < 1000
        assert 0 <= (cell.instructions or 0) - instructions < 40
        assert 0 <= (cell.count or 0) - occurrences <= 2
        assert states[162][2] == 40, "hw_yield is system call 2"


def test_a_program_without_profiles_is_built_as_before(elf: Path) -> None:
    source = elf.with_name("plain.c")
    source.write_text('#include "headway_guest.h"\nint main(void) { return 0; }\n')
    assert not any(
        "profiles.c" in word or "--wrap" in word for word in find_compiler().command([str(source)], "x", Base.KERNEL)
    )
