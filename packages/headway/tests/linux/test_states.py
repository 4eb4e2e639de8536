"""The tables that the eBPF programs are given: names of states, system calls, reasons for waiting."""

from __future__ import annotations

from headway.linux.bpf.shared import states
from headway.linux.bpf.shared.layout import STATES
from headway.linux.syscalls import table as syscalls
from headway.linux.syscalls._calls import COMPAT
from headway.model import Kind, kind_of

NUMBER = STATES


def test_every_state_has_a_name_and_the_name_a_kind() -> None:
    assert len(states.NAMES) == NUMBER["N_STATES"]
    assert kind_of(states.NAMES[NUMBER["USER"]]) is Kind.EFFECTIVE
    assert kind_of(states.NAMES[NUMBER["STOLEN"]]) is Kind.STOLEN
    for call in range(NUMBER["N_CALLS"]):
        assert kind_of(states.NAMES[NUMBER["KERNEL_CALL"] + call]) is Kind.KERNEL
        assert kind_of(states.NAMES[NUMBER["WAIT_CALL"] + call]) is Kind.WAIT


def test_the_names_of_different_states_differ() -> None:
    named = [name for name in states.NAMES if name != "unknown"]
    waits = {
        states.NAMES[NUMBER[name]]
        for name in NUMBER
        if name.startswith("WAIT_") and states.NAMES[NUMBER[name]] != "unknown"
    }
    # A call may have the name of a reason (wait.poll, wait.pipe): a reader adds both up.
    assert {name for name in named if named.count(name) > 1} <= waits


def test_system_calls_have_the_kernels_numbers() -> None:
    number = syscalls.numbers()
    assert {"read", "futex", "epoll_pwait", "clock_nanosleep", "futex_wait"} <= number.keys()
    assert number["futex_wait"] == 455
    assert syscalls.name_of(number["read"]) == "read"
    assert syscalls.name_of(9999) == "call_9999"


def test_every_reason_for_waiting_is_a_state() -> None:
    table = states.wait_table()
    by_file, synced = NUMBER["WAIT_BY_FILE"], NUMBER["WAIT_SYNCED"]
    number = syscalls.numbers()
    assert states.NAMES[table[number["futex"]]] == "wait.futex"
    assert table[number["read"]] == by_file
    assert table[number["fsync"]] == synced
    assert all(state in (0, by_file, synced) or states.NAMES[state].startswith("wait.") for state in table)


def test_32_bit_calls_are_the_native_calls_of_the_same_name() -> None:
    native = syscalls.numbers()
    for number, same in syscalls.compat_numbers().items():
        name = COMPAT[number]
        if name in native:
            assert same == native[name]
    assert len(states.compat_table()) == NUMBER["N_CALLS"]
