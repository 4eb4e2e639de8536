"""The plugin that collects the figures, compares and shows them, and writes the baseline, where pytest has its
terminal.

A test that passed but has become slower is made to fail here, before any other plugin sees its report. So ``-x``,
``--lf``, JUnit XML and the exit status treat it as failed, with and without pytest-xdist.
"""

from __future__ import annotations

import os
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from headway.errors import HeadwayError
from headway.model import Quality
from headway.views.figures import with_unit
from headway.views.lines import encodable
from headway.views.losses import named_losses
from headway.views.printable import clean, wrap

from .baseline import Baseline, BaselineEntry, MeasuredMachine, entry_of
from .comparison import Verdict, compare
from .phases import Phases
from .progress import PhaseProgress
from .record import Record, carried
from .summary import HEAD, MAX_ROWS, SLOWER, UNSURE, SummaryRow, table

__all__ = ["Results"]

_WORDS = {"epi": "effective progress", "rpi": "processor time"}
_SOURCES = {"bpf": "by eBPF, every transition", "proc": "by /proc"}
_MARKUP: Mapping[str, dict[str, bool]] = {
    SLOWER: {"red": True, "bold": True},
    UNSURE: {"yellow": True},
    HEAD: {"bold": True},
}
_WHY = {
    "rpi": "the processor time of the test's threads and processes between the last reading and their end is missing"
}
"""Why a figure is not exact, for reasons that were not known yet when measuring began."""
_NOTABLE = 0.01
"""Processor time of older threads is reported if it exceeds this share of the tests' own."""


@dataclass(slots=True)
class _Test:
    """What is known of a test."""

    record: Record
    passed: bool
    """Whether the test itself passed, whether or not it has become slower."""
    entry: BaselineEntry | None
    verdict: Verdict | None = None
    blocks: Mapping[str, Verdict] = field(default_factory=dict)

    @property
    def verdicts(self) -> list[Verdict]:
        """The verdicts of the test and its blocks."""
        return [*([self.verdict] if self.verdict is not None else []), *self.blocks.values()]


class Results:
    """The plugin that shows. Raises HeadwayError if the baseline cannot be read, used or written."""

    def __init__(self, config: pytest.Config, phases: Phases) -> None:
        self._config = config
        self._phases = phases
        self._machine = MeasuredMachine.here()
        self._tests: dict[str, _Test] = {}
        self._left_out: Counter[str] = Counter()
        self._unmeasured: dict[str, str] = {}
        self._introductions: list[dict[str, Any]] = []
        self._remarks: list[str] = []
        self._written = ""
        option = config.option
        self._save, self._against = option.headway_save, option.headway_compare
        self._threshold: float = option.headway_threshold
        self._before: Baseline | None = None
        if self._against:
            self._before = Baseline.read(self._against)
            why_not = self._machine.unlike(self._before.machine)
            if why_not:
                raise HeadwayError(
                    f"{self._against!a} cannot be the baseline here: {why_not}: write a new one with --headway-save"
                )
            self._remarks = self._machine.changes(self._before.machine)
        if self._save:
            folder = os.path.dirname(os.path.abspath(self._save))
            if not os.access(folder, os.W_OK | os.X_OK) or os.path.isdir(self._save):
                raise HeadwayError(
                    f"the baseline cannot be written to {self._save!a}: name a file in a folder that you may write to"
                )

    def pytest_report_header(self) -> list[str]:
        """Return lines that say what is measured and what it is compared with."""
        if self._before is None:
            return ["headway: each test's effective progress"]
        found = self._before
        lines = [
            f"headway: each test's effective progress, compared with {clean(self._against)} "
            f"({len(found.tests):,} tests, {clean(found.created)}), threshold {_percent(self._threshold)}"
        ]
        if self._remarks:
            lines.append(f"headway: that was measured elsewhere: {clean('; '.join(self._remarks))}")
        return lines

    # -- what comes in ------------------------------------------------------------------------------------------------

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take over the record that a report carries. The report of a test that has become slower becomes a failure."""
        if type(report) is not pytest.TestReport:  # the report of a subtest
            return
        name = report.nodeid
        record = carried(report.user_properties)
        if report.when == "call":
            self._tests.pop(name, None)
            passed = report.outcome == "passed" and not hasattr(report, "wasxfail")
            if not passed:
                self._left_out["failed" if report.outcome == "failed" else "expected to fail or skipped"] += 1
            elif record is None or not record.phases["call"]:
                self._unmeasured[name] = "" if record is None else record.why_not
            if record is not None and record.phases["call"]:
                test = self._tests[name] = _Test(record, passed, entry_of(record))
                self._judge(name, test, report)
        elif report.outcome == "skipped":
            self._left_out["skipped"] += 1
        elif report.outcome == "failed":
            self._left_out[f"{report.when} failed"] += 1
            if name in self._tests:
                self._tests[name].passed = False
        if report.when == "teardown" and record is not None and name in self._tests:
            self._tests[name].record = record

    def _judge(self, name: str, test: _Test, report: pytest.TestReport) -> None:
        threshold = self._threshold if test.record.threshold is None else test.record.threshold
        if self._before is None or test.entry is None or not test.passed or threshold < 0:
            return
        before, floor = self._before.tests.get(name), test.record.floor
        test.verdict = compare(test.entry, before, threshold, floor)
        test.blocks = {
            block: compare(entry, before.blocks.get(block) if before is not None else None, threshold, floor)
            for block, entry in test.entry.blocks.items()
        }
        named = [("", test.verdict), *((f"block {clean(block)}: ", verdict) for block, verdict in test.blocks.items())]
        sentences = [
            f"{of}{_sentence(verdict, test.entry.unit, self._against)}" for of, verdict in named if verdict.slower
        ]
        if sentences:
            report.outcome = "failed"
            report.longrepr = "\n".join(sentences)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Take over how one of pytest-xdist's workers measured."""
        found = getattr(node, "workeroutput", {}).get("headway")
        if found is not None:
            self._introductions.append(found)

    # -- what goes out ------------------------------------------------------------------------------------------------

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the baseline. A comparison that had no figures to compare makes the run fail."""
        own = self._phases.introduction()
        if own["source"] or not self._introductions:
            self._introductions.append(own)
        if self._before is not None and self._unmeasured and not session.exitstatus:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        if not self._save:
            return
        kept = {name: test.entry for name, test in self._tests.items() if test.passed and test.entry is not None}
        if not kept:
            self._written = f"no test passed that was measured: {clean(self._save)} was not written"
            return
        try:
            Baseline(self._machine, "+".join(self._sources()), kept).write(self._save)
            self._written = f"{len(kept):,} test{'' if len(kept) == 1 else 's'} written to {clean(self._save)}"
        except HeadwayError as error:
            self._written = str(error)
            session.exitstatus = pytest.ExitCode.USAGE_ERROR

    def _sources(self) -> list[str]:
        return sorted({found["source"] for found in self._introductions if found["source"]})

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Write the table, and the notes that explain it."""
        if not (self._tests or self._unmeasured or self._written):
            return
        verbosity, width = terminalreporter.verbosity, self._config.get_terminal_writer().fullwidth
        encoding = getattr(self._config.get_terminal_writer()._file, "encoding", None) or "ascii"
        terminalreporter.write_sep("=", "effective progress (headway)")
        rows = [self._row(name, test, verbosity > 0) for name, test in self._tests.items()]
        if verbosity < -1:
            rows = [row for row in rows if any(v.slower for v in self._tests[row.name].verdicts)]
        if rows:
            for text, style in table(rows, width, most=None if verbosity > 0 else MAX_ROWS):
                terminalreporter.write_line(encodable(text, encoding), **_MARKUP.get(style, {}))
        for note in self._notes():
            for text in wrap(clean(note), max(width, 20)):
                terminalreporter.write_line(encodable(text, encoding))

    def _row(self, name: str, test: _Test, verbose: bool) -> SummaryRow:
        record = test.record
        parts = [
            SummaryRow(f"[{block}]", rounds, test.blocks.get(block))
            for block, rounds in record.blocks.items()
            if rounds
        ]
        if verbose:
            parts += [
                SummaryRow(phase, record.phases[phase]) for phase in ("setup", "teardown") if record.phases[phase]
            ]
        return SummaryRow(name, record.phases["call"], test.verdict, tuple(parts))

    def _notes(self) -> Iterator[str]:
        tests = list(self._tests.values())
        rounds = [one for test in tests for one in test.record.phases["call"]]
        yield from self._how(rounds)
        if tests:
            yield _cost(tests)
        others, own = sum(one.others for one in rounds), sum(one.rpi or 0 for one in rounds if one.unit == "ns")
        if others > _NOTABLE * own:
            yield (
                f"threads older than the test that ran: {with_unit(others, 'ns', 7)} of a processor, "
                "which is in no test's figures"
            )
        lost = named_losses(_summed(rounds))
        if rounds:
            yield f"lost: {lost}" if lost else "lost: nothing"
        if self._left_out:
            words = ", ".join(f"{number:,} {why}" for why, number in self._left_out.items())
            yield f"neither kept nor compared: {words}"
        if self._unmeasured:
            why = next((why for why in self._unmeasured.values() if why), "its report has no figures")
            yield f"not measured: {len(self._unmeasured):,} tests ({why})"
        yield from self._compared(tests)
        if self._written:
            yield self._written

    def _how(self, rounds: list[PhaseProgress]) -> Iterator[str]:
        """Yield the source, and the meaning of the marks in the table."""
        sources = self._sources()
        if not sources:
            return
        words = " and ".join(_SOURCES[source] for source in sources)
        why_not = next((found["why_not_exact"] for found in self._introductions if found["why_not_exact"]), "")
        yield f"measured {words}" + (f" ({why_not})" if why_not else "")
        reasons = {name: why for found in self._introductions for name, why in found["reasons"].items()}
        for index, title in (("epi", "EPI"), ("rpi", "RPI")):
            worst = {one.quality[index] for one in rounds} - {Quality.EXACT}
            for quality, mark, meaning in ((Quality.BOUND, "≤", "at most"), (Quality.SAMPLED, "~", "sampled")):
                if quality in worst:
                    yield f"{title} {mark}: {meaning}" + (
                        f" ({why})" if (why := reasons.get(index, _WHY.get(index))) else ""
                    )

    def _compared(self, tests: list[_Test]) -> Iterator[str]:
        if self._before is None:
            return
        verdicts = [verdict for test in tests for verdict in test.verdicts]
        figures = Counter(verdict.figure for verdict in verdicts if verdict.figure)
        if figures["rpi"]:
            yield f"compared by RPI, because EPI is sampled or missing on a side: {figures['rpi']:,}"
        unsure = sum(verdict.above and not verdict.slower for verdict in verdicts)
        if unsure:
            yield (
                f"?: above the threshold, but by no more than rounds differ or an empty test has: {unsure:,}; "
                "more rounds tell (--headway-repeat)"
            )
        for why, number in Counter(verdict.why_not for verdict in verdicts if verdict.why_not).items():
            yield f"not compared: {number:,} ({why})"


def _summed(rounds: list[PhaseProgress]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for one in rounds:
        total.update(one.losses)
    return dict(total)


def _cost(tests: list[_Test]) -> str:
    """Return a note on the time that measuring took, and on what it leaves in the figures."""
    costs = [test.record.cost / max(len(test.record.phases["call"]), 1) for test in tests]
    words = f"measuring took {with_unit(round(statistics.median(costs)), 'ns', 7)} a test, in none of its figures"
    floor = next((test.record.floor for test in tests if test.record.floor is not None), None)
    if floor is None:
        return words
    had = floor.epi if floor.epi is not None else floor.rpi
    return f"{words}; a test that does nothing has {with_unit(had or 0, floor.unit, 7)}"


def _percent(share: float) -> str:
    return f"{share * 100:g} %"


def _sentence(verdict: Verdict, unit: str, path: str) -> str:
    """Return a sentence that says what has become slower, and by how much."""
    now, before, noise = (with_unit(value, unit, 9, " ") for value in (verdict.now, verdict.before, verdict.noise))
    by = f"{verdict.change * 100:+.1f} %" if verdict.change is not None else "more than nothing"
    suffix = "" if unit == "ns" else f" {unit}"
    return (
        f"{_WORDS[verdict.figure]} {now}{suffix}, in {clean(path)} {before}{suffix}: {by} "
        f"(threshold {_percent(verdict.threshold)}; up to {noise}{suffix} more would tell nothing)"
    )
