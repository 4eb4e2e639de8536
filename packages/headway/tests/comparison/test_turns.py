"""Turns: each round has both commands, and chance decides who is first."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headway.comparison.turns import Order, blocks, turns

orders = st.sampled_from(Order)
seeds = st.integers(0, 2**63 - 1)


@given(st.integers(0, 40), orders, seeds)
def test_each_round_has_one_run_of_either_command(rounds: int, order: Order, seed: int) -> None:
    found = [*turns(rounds, order, seed)]
    assert [turn.round for turn in found] == [at // 2 for at in range(2 * rounds)]
    for at in range(rounds):
        assert {found[2 * at].command, found[2 * at + 1].command} == {0, 1}


@given(st.integers(0, 20), seeds)
def test_the_second_round_of_two_runs_the_other_way_round(pairs: int, seed: int) -> None:
    found = [turn.command for turn in turns(2 * pairs, Order.ABBA, seed)]
    for at in range(pairs):
        assert found[4 * at : 4 * at + 4] in ([0, 1, 1, 0], [1, 0, 0, 1])


@given(st.integers(0, 40), orders, seeds)
def test_a_seed_repeats_the_order(rounds: int, order: Order, seed: int) -> None:
    assert [*turns(rounds, order, seed)] == [*turns(rounds, order, seed)]


def test_both_are_first_about_equally_often() -> None:
    for order in Order:
        first = [next(turns(order.rounds, order, seed)).command for seed in range(1000)]
        assert 400 < sum(first) < 600


@given(st.integers(0, 40), orders)
def test_blocks_are_whole_and_follow_each_other(rounds: int, order: Order) -> None:
    found = blocks(rounds, order)
    assert [at for block in found for at in block] == [*range(rounds - rounds % order.rounds)]
    assert {len(block) for block in found} <= {order.rounds}
