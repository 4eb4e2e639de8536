"""The plugin that measures the phases of each test, where tests run: setup, call and teardown, and the blocks within.

The spans begin and end next to the test's own code. What other plugins do around it (capturing, logging, reports) is in
none of them. The figures travel in the test's reports (`headway.testing.record`).
"""

from __future__ import annotations

import copy
from collections.abc import Generator
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from headway.errors import HeadwayError

from .meter import Meter, Span
from .options import percent
from .progress import PhaseProgress, together
from .record import PHASES, Record, without

__all__ = ["NEVER", "Phases"]

NEVER = -1.0
"""The threshold of a test that is never compared."""
_MAX_ROUNDS = 100_000


class Phases:
    """The plugin that measures."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._meter: Meter | None = None
        self._record = Record()
        self._blocks: dict[str, list[Span]] = {}
        self._within: set[str] = set()
        self._carries = True
        self._one_round = True
        self._introduction: dict[str, Any] = {"source": "", "why_not_exact": "", "reasons": {}}
        self.why_not = "the session has not begun"
        """Why nothing is measured; empty if it is."""

    # -- the session --------------------------------------------------------------------------------------------------

    def pytest_sessionstart(self) -> None:
        """Start the observer where tests will run. It has time until the first test to get ready."""
        if self._config.pluginmanager.hasplugin("dsession"):  # pytest-xdist's workers run the tests
            return
        try:
            self._meter = Meter(self._config.option.headway_source)
        except HeadwayError as error:
            self._refuse(error)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        """Begin to measure."""
        if self._meter is None or not session.items:
            return
        meter = self._meter
        try:
            meter.begin()
        except HeadwayError as error:
            self._refuse(error)
            return
        self.why_not = ""
        self._introduction = {
            "source": meter.source,
            "why_not_exact": meter.why_not_exact,
            "reasons": meter.reasons,
        }

    def _refuse(self, error: HeadwayError) -> None:
        """Report why nothing can be measured: the main process fails at once, a worker tells it with its tests."""
        self._stop(error)
        if not hasattr(self._config, "workerinput"):
            raise pytest.UsageError(f"headway: {error}")

    def _stop(self, error: HeadwayError) -> None:
        self.why_not = str(error)
        if self._meter is not None:
            self._meter.end()
            self._meter = None

    def pytest_sessionfinish(self) -> None:
        """Stop measuring. A worker hands over how it measured."""
        output = getattr(self._config, "workeroutput", None)
        if output is not None:
            output["headway"] = self.introduction()
        if self._meter is not None:
            self._meter.end()

    def pytest_unconfigure(self) -> None:
        """Stop measuring, if that has not happened yet."""
        if self._meter is not None:
            self._meter.end()
            self._meter = None

    def introduction(self) -> dict[str, Any]:
        """Return how tests were measured here: the source, why it is not a better one, why figures are not exact."""
        return self._introduction

    # -- a test -------------------------------------------------------------------------------------------------------

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        """Run a test several times, if requested, as long as it passes. Only the last round is reported."""
        try:
            rounds = _rounds(item) or self._config.option.headway_repeat
        except ValueError:  # the test's setup reports it
            rounds = 1
        self._fresh(rounds == 1)
        if rounds == 1:
            return None
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        # For all rounds but the last, the next test is a copy of this one, so fixtures that both share are not torn
        # down.
        sibling, properties = copy.copy(item), list(item.user_properties)
        for left in reversed(range(rounds)):
            item.user_properties[:] = properties
            self._carries = left == 0
            reports = runtestprotocol(item, log=False, nextitem=sibling if left else nextitem)
            if any(not report.passed for report in reports) or item.session.shouldstop or item.session.shouldfail:
                if left:
                    reports += _torn_down(item, nextitem)
                break
        for report in reports:
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def _fresh(self, one_round: bool) -> None:
        self._record, self._blocks = Record(), {}
        self._carries, self._one_round = True, one_round

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, object, object]:
        """Measure a test's setup."""
        if self._one_round:  # another plugin may run the test again
            self._fresh(True)
        try:
            threshold, _ = _threshold(item), _rounds(item)
        except ValueError as error:
            pytest.fail(str(error), pytrace=False)
        self._record.threshold = threshold
        self._within.clear()
        return (yield from self._measured(item, "setup", test=True))

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Measure the test itself."""
        return (yield from self._measured(item, "call"))

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, object, object]:
        """Measure a test's teardown."""
        return (yield from self._measured(item, "teardown"))

    def _measured(self, item: pytest.Item, phase: str, *, test: bool = False) -> Generator[None, object, object]:
        assert phase in PHASES
        span = self.open(test=test)
        try:
            return (yield)
        finally:
            progress = self.close(span)
            if progress is not None:
                self._record.phases[phase].append(progress)
            if phase == "call":
                self._close_blocks()
            if self._carries:
                self._carry(item)

    def _close_blocks(self) -> None:
        """Add the blocks of this round to the record."""
        for name, spans in self._blocks.items():
            self._record.blocks.setdefault(name, []).append(together(*((span.laps, span.wall) for span in spans)))
        self._blocks = {}

    def _carry(self, item: pytest.Item) -> None:
        meter, record = self._meter, self._record
        record.why_not = self.why_not
        if meter is not None:
            record.floor, record.cost, meter.cost = meter.floor, record.cost + meter.cost, 0
        item.user_properties[:] = [*without(item.user_properties), *record.properties()]

    # -- spans --------------------------------------------------------------------------------------------------------

    def open(self, *, test: bool = False) -> Span | None:
        """Begin a span. Return None if nothing is measured."""
        meter = self._meter
        if meter is None or self.why_not:
            return None
        if not meter.here:
            self.why_not = "it ran in a process that was forked from the measured one"
            return None
        try:
            return meter.open(test=test)
        except HeadwayError as error:
            self._stop(error)
            return None

    def close(self, span: Span | None) -> PhaseProgress | None:
        """End a span and return its figures. Return None if nothing is measured any more."""
        meter = self._meter
        if span is None or meter is None or not meter.here:
            return None
        try:
            meter.close(span)
        except HeadwayError as error:
            self._stop(error)
            return None
        return span.progress

    def enter_block(self, name: str) -> Span | None:
        """Begin a block. Return None if nothing is measured, or within a block of the same name."""
        if name in self._within:
            return None
        span = self.open()
        if span is not None:
            self._within.add(name)
        return span

    def leave_block(self, name: str, span: Span | None) -> PhaseProgress | None:
        """End a block and return its figures, or None."""
        progress = self.close(span)
        if span is not None:
            self._within.discard(name)
            if progress is not None:
                self._blocks.setdefault(name, []).append(span)
        return progress


def _torn_down(item: pytest.Item, nextitem: pytest.Item | None) -> list[pytest.TestReport]:
    """Tear down what was kept for another round. Return a report if that failed."""
    call = pytest.CallInfo.from_call(lambda: item.session._setupstate.teardown_exact(nextitem), "teardown")
    return [pytest.TestReport.from_item_and_call(item, call)] if call.excinfo is not None else []


def _arguments(item: pytest.Item) -> dict[str, Any]:
    """Return the arguments of the test's marker. Raises ValueError with a sentence."""
    marker = item.get_closest_marker("headway")
    if marker is None:
        return {}
    if marker.args or not marker.kwargs.keys() <= {"threshold", "repeat"}:
        raise ValueError(f"@pytest.mark.headway of {item.name!a}: it takes threshold= and repeat= and nothing else")
    return dict(marker.kwargs)


def _rounds(item: pytest.Item) -> int | None:
    """Return how often the test runs according to its marker. Raises ValueError with a sentence."""
    rounds = _arguments(item).get("repeat")
    if rounds is not None and not (type(rounds) is int and 1 <= rounds <= _MAX_ROUNDS):
        raise ValueError(
            f"@pytest.mark.headway of {item.name!a}: repeat is {rounds!a:.80}, it should be a whole number "
            f"from 1 to {_MAX_ROUNDS}"
        )
    return rounds


def _threshold(item: pytest.Item) -> float | None:
    """Return how much slower the test may become according to its marker, as a share of one; `NEVER`: not compared.

    Raises ValueError with a sentence.
    """
    threshold = _arguments(item).get("threshold")
    if threshold is None:
        return None
    if threshold is False:
        return NEVER
    if isinstance(threshold, str):
        try:
            return percent(threshold)
        except ValueError as error:
            raise ValueError(f"@pytest.mark.headway of {item.name!a}: {error}") from None
    if isinstance(threshold, bool) or not isinstance(threshold, (int, float)) or not 0 <= threshold < 1e4:
        raise ValueError(
            f"@pytest.mark.headway of {item.name!a}: threshold is {threshold!a:.80}, it should be like '10%', 0.1 or "
            "False"
        )
    return float(threshold)
