"""Giving up privileges: in a process of its own each, because there is no way back."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

import pytest
from tests.compiling import script

from headway.errors import HeadwayError
from headway.linux.privileges import LinuxCapability, permitted, user_named, without
from headway.linux.procfs.status import status

pytestmark = pytest.mark.kernel

root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: others have nothing to give up")


def alone(how: str) -> dict[str, Any]:
    """What a process says that gives up privileges so: a function of ``give_up.py``."""
    done = subprocess.run(script("give_up", how), capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_user_that_is_not_there_is_refused() -> None:
    for name in ("no-such-user-here", "", "\0", "\udcff"):
        with pytest.raises(HeadwayError, match="there is no user"):
            user_named(name)
    assert user_named("root").uid == 0


def test_what_is_not_in_effect_meanwhile_is_again_afterwards() -> None:
    before = dict(status("/proc/thread-self"))
    with without([LinuxCapability.BPF, LinuxCapability.SYS_ADMIN]):
        within = int(status("/proc/thread-self")["CapEff"], 16)
        assert not within & (1 << LinuxCapability.BPF | 1 << LinuxCapability.SYS_ADMIN)
        assert status("/proc/thread-self")["CapPrm"] == before["CapPrm"]
    assert status("/proc/thread-self")["CapEff"] == before["CapEff"]


@root
def test_only_what_is_kept_is_left_and_for_another_user() -> None:
    found = alone("keep_some")
    assert found["left"] == [LinuxCapability.KILL.value, LinuxCapability.PERFMON.value]
    mask = 1 << LinuxCapability.KILL | 1 << LinuxCapability.PERFMON
    assert int(found["CapPrm"], 16) == int(found["CapEff"], 16) == mask
    assert int(found["CapInh"], 16) == int(found["CapAmb"], 16) == int(found["CapBnd"], 16) == 0
    assert set(found["Uid"].split()) == {str(user_named("nobody").uid)}
    assert found["Groups"] == ""
    assert found["NoNewPrivs"] == "1"


@root
def test_privileges_that_were_given_up_cannot_be_had_back() -> None:
    found = alone("come_back")
    assert found == {"tried": ["refused"] * 3, "su": 0, "permitted": []}


def test_who_has_nothing_can_give_up_the_rest() -> None:
    found = alone("keep_none")
    assert found["permitted"] == []
    assert found["NoNewPrivs"] == "1"
    assert permitted() <= set(LinuxCapability)
