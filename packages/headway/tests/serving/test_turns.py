"""Turns of an event loop: each in the order in which it was asked for, and only a few in a round."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.serving.turns import Turns


@given(st.integers(1, 5), st.lists(st.integers(1, 4), max_size=8))
def test_turns_come_in_order_and_only_a_few_in_a_round(most: int, wanted: list[int]) -> None:
    """``wanted``: how many turns each task asks for, one after the other."""
    rounds: list[list[int]] = [[]]
    asked: list[int] = []

    async def work(number: int, turns: Turns) -> None:
        for _ in range(wanted[number]):
            asked.append(number)
            await turns.mine()
            rounds[-1].append(number)

    async def main() -> None:
        turns = Turns(most)
        tasks = [asyncio.create_task(work(number, turns)) for number in range(len(wanted))]
        while not all(task.done() for task in tasks):
            rounds.append([])
            await asyncio.sleep(0)
        await asyncio.gather(*tasks)

    asyncio.run(main())
    assert all(len(each) <= most for each in rounds)
    assert [number for each in rounds for number in each] == asked


def test_turns_come_though_each_round_has_more_urgent_work() -> None:
    async def main() -> int:
        turns = Turns(1)
        task = asyncio.create_task(turns.mine())
        rounds = 0
        while not task.done():
            turns.defer()
            await asyncio.sleep(0)
            rounds += 1
        return rounds

    assert 10 < asyncio.run(main()) < 30


def test_who_was_cancelled_takes_no_others_turn() -> None:
    async def main() -> None:
        turns = Turns(1)
        first = asyncio.create_task(turns.mine())
        second = asyncio.create_task(turns.mine())
        await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        await second

    asyncio.run(main())
