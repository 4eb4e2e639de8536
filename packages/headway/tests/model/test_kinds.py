from hypothesis import given
from hypothesis import strategies as st
from tests.ledgers import STATES

from headway.model import Kind, kind_of

WORDS = {
    "user": Kind.EFFECTIVE,
    "running": Kind.EFFECTIVE,
    "memory": Kind.MEMORY,
    "kernel": Kind.KERNEL,
    "irq": Kind.KERNEL,
    "softirq": Kind.KERNEL,
    "noneffective": Kind.KERNEL,
    "poll": Kind.POLL,
    "stall": Kind.STALL,
    "stolen": Kind.STOLEN,
    "overhead": Kind.OVERHEAD,
    "ready": Kind.READY,
    "wait": Kind.WAIT,
    "stopped": Kind.WAIT,
    "idle": Kind.WAIT,
    "unknown": Kind.UNKNOWN,
}


@given(st.sampled_from(sorted(WORDS)), st.text())
def test_the_first_word_of_a_state_decides_its_kind(word: str, rest: str) -> None:
    assert kind_of(word) is WORDS[word]
    assert kind_of(f"{word}.{rest}") is WORDS[word]


@given(st.text())
def test_a_name_whose_first_word_is_in_no_table_is_unknown(name: str) -> None:
    assert kind_of(name) is WORDS.get(name.split(".")[0], Kind.UNKNOWN)


def test_a_word_that_only_begins_like_one_in_the_table_is_unknown() -> None:
    assert kind_of("username") is Kind.UNKNOWN
    assert kind_of("User") is Kind.UNKNOWN


def test_stolen_and_overhead_are_not_time_that_the_thread_had() -> None:
    assert {kind for kind in Kind if kind.in_rpi} == {
        Kind.EFFECTIVE,
        Kind.MEMORY,
        Kind.KERNEL,
        Kind.POLL,
        Kind.STALL,
    }


def test_every_kind_has_a_state() -> None:
    assert {kind_of(state) for state in STATES} == set(Kind)
