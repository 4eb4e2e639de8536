"""When work will be done, as it is served and shown: in EPI or in steps, and nothing where it is not known."""

from __future__ import annotations

import json

import pytest
from tests.views.metrics.readings import SECOND, ledger, thread, totals_of

from headway.model.work import FollowedWork, Work
from headway.views.metrics.families import Family, families
from headway.views.metrics.live import live
from headway.views.metrics.totals import TotalsSnapshot
from headway.views.metrics.work import promised

RUN = [ledger(i * SECOND, (i + 1) * SECOND, thread(1, user_render=SECOND // 4)) for i in range(4)]


def served(work: Work, readings: int) -> TotalsSnapshot:
    followed = FollowedWork(work)
    for one in RUN[:readings]:
        last = promised(followed, one)
    return TotalsSnapshot.unpack(totals_of(RUN[:readings]).snapshot(work=last).pack())


def of_work(snapshot: TotalsSnapshot) -> dict[str, Family]:
    return {family.name: family for family in families(snapshot) if family.name.startswith("headway_work")}


def test_work_in_epi_has_its_rest_and_the_interval() -> None:
    snapshot = served(Work(10 * SECOND), 4)
    found = of_work(snapshot)
    assert [*found["headway_work_seconds"].samples] == [((), (), 10.0)]
    assert [*found["headway_work_done_seconds"].samples] == [((), (), 1.0)]
    times = {labels[0][1]: value for _, labels, value in found["headway_work_left_seconds"].samples}
    assert times == pytest.approx({"expected": 36.0, "least": 36.0, "most": 36.0})
    assert json.loads(live(snapshot, None))["work"]["words"] == (
        "work: 10 % of 10 s EPI is done, rest in 36 s (95 %: 36 s to 36 s)"
    )


def test_steps_have_the_name_of_their_region_and_what_is_not_known_is_missing() -> None:
    found = of_work(served(Work(100, "render"), 1))
    assert [*found["headway_work_steps"].samples] == [((), (("state", "user.render"),), 100.0)]
    times = {labels[0][1] for _, labels, _ in found["headway_work_left_seconds"].samples}
    assert times <= {"expected"}
    assert not of_work(totals_of(RUN).snapshot())
