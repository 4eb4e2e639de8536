"""The plugin in real runs of pytest. What is slower is made so in the baseline: nothing rests on how fast it is."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from headway.errors import HeadwayError
from headway.model import Quality
from headway.testing.meter import Meter
from headway.testing.progress import PhaseProgress
from headway.testing.record import Record, carried

pytestmark = pytest.mark.end_to_end

PROC = "--headway-source=proc"
SOURCES = ["proc", pytest.param("bpf", marks=pytest.mark.root)]
ALL_SOURCES = ["proc", pytest.param("bpf", marks=[pytest.mark.root, pytest.mark.exhaustive])]
FEW = """
import pytest

def test_works():
    assert sum(range(200_000))

def test_fails():
    assert not sum(range(200_000))

@pytest.mark.skip
def test_skipped():
    pass

@pytest.mark.xfail
def test_known_to_fail():
    assert 0

@pytest.fixture
def broken():
    yield
    raise RuntimeError("torn")

def test_torn_down_badly(broken):
    assert sum(range(200_000))
"""


def run(pytester: pytest.Pytester, *arguments: str | Path) -> pytest.RunResult:
    return pytester.runpytest_inprocess("-p", "no:cacheprovider", PROC, *arguments)


def records(pytester: pytest.Pytester, *arguments: str) -> dict[str, Record]:
    """What the tests' reports carried to the end, by their names."""
    recorder = pytester.inline_run("-p", "no:cacheprovider", "--headway", *arguments)
    found = {}
    for report in recorder.getreports("pytest_runtest_logreport"):
        record = carried(report.user_properties)
        if report.when == "teardown" and record is not None:
            found[report.nodeid.rpartition("::")[2]] = record
    return found


def baseline(pytester: pytest.Pytester, **factors: float) -> Path:
    """A baseline of the tests there are, with the figures of some times a factor."""
    path = Path("base.json")
    run(pytester, "--headway-save", path)
    document = json.loads(path.read_text())
    for name, entry in document["tests"].items():
        factor = factors.get(name.rpartition("::")[2], 1)
        for part in (entry, *entry.get("blocks", {}).values()):
            for figure in ("epi", "rpi"):
                part[figure]["median"] = round(part[figure]["median"] * factor)
    path.write_text(json.dumps(document))
    return path


# -- what is measured --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", SOURCES)
def test_each_phase_has_its_own_figures(pytester: pytest.Pytester, source: str) -> None:
    pytester.makepyfile(
        """
        import time, pytest

        @pytest.fixture
        def prepared():
            time.sleep(0.02)
            yield
            time.sleep(0.04)

        def test_it(prepared):
            assert sum(range(100_000))
        """
    )
    (record,) = records(pytester, f"--headway-source={source}").values()
    (setup,), (call,), (teardown,) = record.phases.values()
    assert setup.wall >= 20_000_000
    # /proc tells of a time in which a thread was ready when it runs again: that was before the phase, and not now.
    assert setup.wait > 0 or (source == "proc" and setup.ready > 0)
    assert teardown.wall >= 40_000_000
    for phase in (setup, call, teardown):
        assert phase.unit in ("ns", "cycles")
        assert phase.rpi is not None
        assert phase.epi is not None
        assert phase.rpi >= phase.epi >= 0
        assert phase.quality["rpi"] in (Quality.EXACT, Quality.SAMPLED)
    assert call.rpi
    assert call.epi or source == "proc", "by ticks of 10 ms so little may be the kernel's"
    assert record.cost > 0
    assert record.floor is not None


@pytest.mark.root
def test_threads_and_processes_that_a_test_creates_are_its_own_and_older_threads_are_not(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(
        """
        import subprocess, sys, threading, time, pytest

        def spin(seconds):
            until = time.thread_time() + seconds
            while time.thread_time() < until:
                pass

        @pytest.fixture(scope="session")
        def busy():
            stop = threading.Event()
            def work():
                while not stop.is_set():
                    spin(0.01)
            thread = threading.Thread(target=work)
            thread.start()
            yield
            stop.set()
            thread.join()

        def test_first(busy):
            pass

        def test_older(busy):
            time.sleep(0.1)

        def test_thread():
            thread = threading.Thread(target=spin, args=(0.05,))
            thread.start()
            thread.join()

        def test_process():
            code = "import time\\nwhile time.thread_time() < 0.05: pass"
            subprocess.run([sys.executable, "-c", code], check=True)
        """
    )
    found = {name: record.phases["call"][0] for name, record in records(pytester, "--headway-source=bpf").items()}
    older, thread, process = (found[name] for name in ("test_older", "test_thread", "test_process"))
    assert older.others > 0
    for one, least in ((thread, 50_000_000), (process, 40_000_000)):
        assert one.rpi is not None
        assert one.overhead is not None
        # their own clocks have what measuring took in them, and on some kernels what the hypervisor took
        assert one.rpi + one.overhead + one.stolen >= least


@pytest.mark.parametrize("source", ALL_SOURCES)
def test_blocks_have_their_own_figures_and_are_within_the_test(pytester: pytest.Pytester, source: str) -> None:
    pytester.makepyfile(
        """
        import time

        def test_it(headway_progress):
            with headway_progress("outer") as outer:
                for _ in range(2):
                    with headway_progress("inner") as inner:
                        time.sleep(0.01)
                        with headway_progress("inner") as again:
                            pass
            assert inner.progress.wall >= 10_000_000
            assert outer.progress.wall >= 20_000_000
            assert outer.progress.rpi >= inner.progress.rpi
            assert again.progress is None
            assert "block of the same name" in again.why_not
        """
    )
    (record,) = records(pytester, f"--headway-source={source}").values()
    assert set(record.blocks) == {"inner", "outer"}
    (inner,), (outer,) = record.blocks["inner"], record.blocks["outer"]
    assert 20_000_000 <= inner.wall <= outer.wall <= record.phases["call"][0].wall


@pytest.mark.parametrize("source", ALL_SOURCES)
@pytest.mark.parametrize("requests", ["ends", "blocks"])
def test_one_thread_has_at_most_as_much_progress_as_time(source: str, requests: str) -> None:
    """The thread may run for long while it asks: a signal's handler, the collector of garbage, an interrupt."""

    class Slow:
        def __init__(self, poll: Any) -> None:
            self._poll = poll

        def poll(self, timeout: int) -> Any:
            spin(2_000_000)
            found = self._poll.poll(timeout)
            spin(5_000_000)
            return found

    meter = Meter(source)
    try:
        meter.begin()
        if requests == "ends":
            meter._poll = Slow(meter._poll)  # type: ignore[assignment]
        span = meter.open(test=True)
        for _ in range(50 if requests == "blocks" else 0):
            block = meter.open()
            meter.close(block)
            assert within_time(block.progress)
        meter.close(span)
        assert within_time(span.progress)
        if requests == "ends":
            assert span.progress.rpi
            assert meter.floor is not None
            assert within_time(meter.floor)
    finally:
        meter.end()


@pytest.mark.parametrize("source", ALL_SOURCES)
def test_what_another_thread_waits_for_its_readings_is_time_of_this_one(source: str) -> None:
    meter = Meter(source)
    try:
        meter.begin()
        span = meter.open(test=True)
        before = meter.cost

        def ask() -> None:
            for _ in range(20):
                meter.close(meter.open())

        thread = threading.Thread(target=ask)
        began = time.monotonic_ns()
        thread.start()
        spin(1_000_000)
        thread.join()
        ended = time.monotonic_ns()
        meter.close(span)
        assert meter.cost > before
        assert span.wall >= ended - began
    finally:
        meter.end()


def spin(ns: int) -> None:
    until = time.thread_time_ns() + ns
    while time.thread_time_ns() < until:
        pass


def within_time(found: PhaseProgress) -> bool:
    """Whether the processor time of one thread is no more than the time that passed."""
    if found.unit != "ns":
        return True
    assert found.rpi is not None
    return found.rpi <= found.wall


def test_blocks_cost_nothing_and_say_so_where_nothing_is_measured(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_it(headway_progress):
            with headway_progress("a") as block:
                pass
            assert block.progress is None
            assert block.why_not == "pytest was started without --headway"
        """
    )
    pytester.runpytest_inprocess().assert_outcomes(passed=1)


def test_without_the_option_nothing_of_headway_is_imported_but_the_plugin(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_it():
            found = {name for name in sys.modules if name.split(".")[0] == "headway"}
            assert found == {"headway", "headway.testing", "headway.testing.options", "headway.testing.plugin"}
        """
    )
    pytester.runpytest_subprocess().assert_outcomes(passed=1)


def test_tests_of_unittest_and_doctests_are_measured_too(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        '''
        import unittest

        def double(x):
            """
            >>> double(2)
            4
            """
            return 2 * x

        class TestIt(unittest.TestCase):
            def test_it(self):
                self.assertEqual(double(2), 4)
        '''
    )
    found = records(pytester, PROC, "--doctest-modules")
    assert len(found) == 2
    assert all(record.phases["call"] for record in found.values())


def test_a_copy_of_the_process_leaves_the_measurement_alone(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import os

        def test_it(headway_progress):
            child = os.fork()
            if child == 0:
                with headway_progress("child") as block:
                    pass
                os._exit(0 if block.progress is None and "fork" in block.why_not else 1)
            assert os.waitpid(child, 0)[1] == 0
            with headway_progress("parent") as block:
                pass
            assert block.progress is not None
        """
    )
    run(pytester, "--headway").assert_outcomes(passed=1)


def test_an_exception_from_a_signal_while_it_waits_loses_nothing() -> None:
    meter = Meter("proc")
    try:
        meter.begin()
        span = meter.open()

        class Interrupted:
            def poll(self, timeout: int) -> Any:
                raise KeyboardInterrupt

        poll, meter._poll = meter._poll, Interrupted()  # type: ignore[assignment]
        with pytest.raises(KeyboardInterrupt):
            meter.open()
        meter._poll = poll
        meter.close(span)
        assert len(span.answers) == 2
        assert meter._due == 0
        again = meter.open()
        meter.close(again)
        assert len(again.answers) == 1
    finally:
        meter.end()
        meter.end()


@pytest.mark.parametrize(
    ("encoding", "unit"), [pytest.param("utf-8", "µs".encode(), marks=pytest.mark.exhaustive), ("ascii", b"us")]
)
def test_the_table_is_in_the_terminals_encoding(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, encoding: str, unit: bytes
) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", encoding)
    monkeypatch.setenv("PYTHONUTF8", "0")
    pytester.makepyfile("def test_it(): pass")
    command = [sys.executable, "-m", "pytest", "--headway", PROC, "-p", "no:cacheprovider"]
    output = subprocess.run(command, capture_output=True, check=True).stdout
    (line,) = (line for line in output.splitlines() if b"test_it " in line)
    assert re.search(rb"\d(ns|" + unit + rb"|ms|s)$", line)
    assert b"\\x" not in line


# -- several rounds ----------------------------------------------------------------------------------------------------

ROUNDS = """
import pytest

@pytest.fixture(scope="module")
def module():
    print("module up")
    yield
    print("module down")

@pytest.fixture
def function(module):
    print("function up")
    yield
    print("function down")

class TestIt:
    def test_one(self, function, record_property):
        record_property("mine", 1)
        assert not hasattr(self, "seen")
        self.seen = True

    @pytest.mark.headway(repeat=3)
    def test_two(self, function):
        pass
"""


def test_rounds_are_set_up_and_torn_down_each_and_reported_once(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(ROUNDS)
    recorder = pytester.inline_run("-s", "-p", "no:cacheprovider", PROC, "--headway", "--headway-repeat=2")
    reports = recorder.getreports("pytest_runtest_logreport")
    assert [(r.nodeid.rpartition("::")[2], r.when) for r in reports] == [
        (name, when) for name in ("test_one", "test_two") for when in ("setup", "call", "teardown")
    ]
    found = [carried(report.user_properties) for report in reports if report.when == "teardown"]
    assert [len(record.phases[phase]) for record in found if record for phase in record.phases] == [2, 2, 2, 3, 3, 3]
    assert [pair for pair in reports[2].user_properties if pair[0] == "mine"] == [("mine", 1)]
    result = run(pytester, "-s", "--headway", "--headway-repeat=2")
    assert result.stdout.str().count("module up") == result.stdout.str().count("module down") == 1
    assert result.stdout.str().count("function up") == result.stdout.str().count("function down") == 5


def test_a_round_that_fails_is_the_last_and_what_was_kept_for_the_next_is_torn_down(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_a="""
        import pytest

        seen = []

        @pytest.fixture(scope="module")
        def module():
            yield
            print("module down")

        def test_second_fails(module):
            seen.append(1)
            assert len(seen) < 2
        """,
        test_b="def test_it(): print('next')",
    )
    result = run(pytester, "-s", "--headway", "--headway-repeat=5")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*module down*", "*next*"])


# -- comparing ---------------------------------------------------------------------------------------------------------

THREE = """
def test_slower():
    assert sum(range(1_000_000))

def test_faster():
    assert sum(range(1_000_000))

def test_new():
    pass
"""


def test_what_has_become_slower_fails_and_comes_first(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(THREE)
    path = baseline(pytester, test_slower=0.001, test_faster=1000)
    document = json.loads(path.read_text())
    del document["tests"]["test_what_has_become_slower_fails_and_comes_first.py::test_new"]
    path.write_text(json.dumps(document))
    result = run(pytester, "--headway-compare", path, "--headway-threshold=50%")
    result.assert_outcomes(passed=2, failed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "headway: each test's effective progress, compared with *base.json (2 tests, *), threshold 50 %",
            "*___ test_slower ___*",
            "* in *base.json *s: +* % (threshold 50 %; up to * more would tell nothing)",
            "*= effective progress (headway) =*",
            "test *EPI* RPI* change* ready* time",
            "*test_slower *",
            "*test_faster * -*",
            "*test_new * new *",
            "measured by /proc*",
            "measuring took * a test, in none of its figures; a test that does nothing*",
            "lost: *",
            "not compared: 1 (not in the baseline)",
        ]
    )


def test_a_block_that_has_become_slower_fails_its_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_it(headway_progress):
            with headway_progress("parse"):
                assert sum(range(1_000_000))
        """
    )
    path = baseline(pytester)
    document = json.loads(path.read_text())
    (entry,) = document["tests"].values()
    for figure in ("epi", "rpi"):
        entry[figure]["median"] *= 1000
        entry["blocks"]["parse"][figure]["median"] //= 1000
    path.write_text(json.dumps(document))
    result = run(pytester, "--headway-compare", path)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["block parse: * in *base.json *"])


def test_markers_set_a_tests_own_threshold_and_never_compare(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.headway(threshold="1000000%")
        def test_much():
            assert sum(range(1_000_000))

        @pytest.mark.headway(threshold=False)
        def test_never():
            assert sum(range(1_000_000))

        @pytest.mark.headway(threshold=0.5)
        def test_little():
            assert sum(range(1_000_000))
        """
    )
    path = baseline(pytester, test_much=0.01, test_never=0.01, test_little=0.01)
    result = run(pytester, "--headway-compare", path, "-x")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["FAILED *::test_little*"])


def test_only_what_passed_is_kept_and_what_is_not_is_counted(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(FEW)
    path = Path("base.json")
    result = run(pytester, "--headway-save", path)
    result.assert_outcomes(passed=2, failed=1, skipped=1, xfailed=1, errors=1)
    assert [name.rpartition("::")[2] for name in json.loads(path.read_text())["tests"]] == ["test_works"]
    result.stdout.fnmatch_lines(["neither kept nor compared: *1 failed*", "1 test written to base.json"])


def test_a_test_that_became_slower_is_kept_with_its_new_figures(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(THREE)
    path = baseline(pytester, test_slower=0.001, test_faster=1000, test_new=1_000_000)
    before = json.loads(path.read_text())["tests"]
    run(pytester, "--headway-compare", path, "--headway-save", path).assert_outcomes(passed=2, failed=1)
    after = json.loads(path.read_text())["tests"]
    assert after.keys() == before.keys()
    name = next(name for name in after if "slower" in name)
    assert after[name] != before[name]


def test_a_baseline_of_another_processor_is_refused_one_of_another_kernel_is_remarked(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile("def test_it(): pass")
    path = baseline(pytester, test_it=1_000_000)
    document = json.loads(path.read_text())
    document["machine"]["kernel"] = "2.6.32"
    path.write_text(json.dumps(document))
    result = run(pytester, "--headway-compare", path)
    result.stdout.fnmatch_lines(["headway: that was measured elsewhere: kernel '2.6.32', here '*'"])
    result.assert_outcomes(passed=1)
    document["machine"]["processor"] = "i486"
    path.write_text(json.dumps(document))
    result = run(pytester, "--headway-compare", path)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["ERROR: headway: * cannot be the baseline here: it is from another processor ('i486'*"]
    )


# -- with other plugins ------------------------------------------------------------------------------------------------


def test_workers_of_xdist_measure_themselves(pytester: pytest.Pytester) -> None:
    pytest.importorskip("xdist")
    pytester.makepyfile(THREE)
    path = baseline(pytester, test_slower=0.001, test_faster=1000, test_new=1_000_000)
    assert len(json.loads(path.read_text())["tests"]) == 3
    other = Path("other.json")
    result = pytester.runpytest_subprocess(
        "-n2", PROC, "--headway-compare", path, "--headway-save", other, "-p", "no:cacheprovider"
    )
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*= effective progress (headway) =*", "*test_slower *", "measured by /proc*"])
    written = json.loads(other.read_text())
    assert len(written["tests"]) == 3
    assert written["source"] == "proc"


def test_junit_xml_has_the_figures_as_properties(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(): assert sum(range(200_000))")
    run(pytester, "--headway", "--junit-xml=out.xml", "-o", "junit_family=xunit1")
    found = {
        one.attrib["name"]: one.attrib["value"] for one in ElementTree.parse(pytester.path / "out.xml").iter("property")
    }
    assert found["headway_unit"] in ("ns", "cycles")
    assert int(found["headway_rpi"]) > 0
    assert int(found["headway_wall_ns"]) > 0
    assert found["headway_epi_quality"] == "sampled"
    record = carried(found.items())
    assert record is not None
    assert record.phases["teardown"]


# -- bad input ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--headway-threshold=10"], "'10' is not a threshold: write it like 10%"),
        (["--headway-threshold=-1%"], "'-1%' is not a threshold"),
        (["--headway-threshold=nan%"], "'nan%' is not a threshold"),
        (["--headway-repeat=0"], "'0' is not a number of rounds: give 1 to 100000"),
        (["--headway-repeat=1e3"], "is not a number of rounds"),
        (["--headway-source=gdb"], "invalid choice: 'gdb'"),
        (["--headway-compare=none.json"], "headway: 'none.json' cannot be opened (No such file or directory)"),
        (["--headway-compare=."], "headway: '.' is not a file"),
        (["--headway-compare=test_it.py"], "headway: 'test_it.py' is not JSON"),
        (["--headway-save=none/base.json"], "headway: the baseline cannot be written to 'none/base.json'"),
        (["--headway-save=."], "headway: the baseline cannot be written to '.'"),
    ],
)
def test_wrong_options_are_one_sentence_and_no_test_runs(
    pytester: pytest.Pytester, arguments: Iterable[str], said: str
) -> None:
    pytester.makepyfile(test_it="def test_it(): pass")
    result = run(pytester, *arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert said in result.stderr.str()
    assert "Traceback" not in result.stderr.str() + result.stdout.str()


WRONG_MARKERS = {
    "'10%'": "it takes threshold= and repeat= and nothing else",
    "limit=1": "it takes threshold= and repeat= and nothing else",
    "threshold='10'": "'10' is not a threshold: write it like 10%",
    "threshold=True": "threshold is True, it should be like '10%', 0.1 or False",
    "threshold=[]": "threshold is []",
    "threshold=float('nan')": "threshold is nan",
    "repeat=0": "repeat is 0, it should be a whole number from 1 to 100000",
    "repeat='x\\x1b'": "repeat is 'x\\x1b'",
}


def test_a_wrong_marker_is_one_sentence_of_its_test(pytester: pytest.Pytester) -> None:
    tests = [f"@pytest.mark.headway({marker})\ndef test_{i}(): pass\n" for i, marker in enumerate(WRONG_MARKERS)]
    pytester.makepyfile("import pytest\n" + "".join(tests) + "def test_other(): pass")
    result = run(pytester, "--headway")
    result.assert_outcomes(errors=len(WRONG_MARKERS), passed=1)
    of_each = re.split(r"_+ ERROR at setup of test_\d _+\n", result.stdout.str())[1:]
    assert len(of_each) == len(WRONG_MARKERS)
    for text, said in zip(of_each, WRONG_MARKERS.values(), strict=True):
        assert said in text


def test_a_test_without_figures_is_no_success_where_it_should_be_compared(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import os, signal
        from pathlib import Path

        def test_before():
            assert sum(range(200_000))

        def test_observer_dies():
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    words = path.read_bytes().split(b"\\0")
                except OSError:
                    continue
                if b"headway.testing.observer" in words and str(os.getpid()).encode() in words:
                    os.kill(int(path.parent.name), signal.SIGKILL)

        def test_after():
            pass
        """
    )
    path = Path("base.json")
    run(pytester, "--headway-save", path)
    document = json.loads(path.read_text())
    (entry,) = document["tests"].values()
    entry["epi"]["median"] *= 100
    entry["rpi"]["median"] *= 100
    path.write_text(json.dumps(document))
    result = run(pytester, "--headway-compare", path)
    result.assert_outcomes(passed=3)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["not measured: 2 tests (the process that measures the tests (PID *) ended by*"])


def test_a_source_that_cannot_be_had_is_one_sentence(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile("def test_it(): pass")
    monkeypatch.setattr(sys, "executable", "/none/python")
    result = run(pytester, "--headway")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "/none/python cannot be started to measure the tests" in result.stderr.str() + result.stdout.str()


def test_an_observer_that_ends_is_one_sentence() -> None:
    meter = Meter("proc")
    try:
        meter.begin()
        os.kill(meter._process.pid, signal.SIGTERM)
        meter._process.wait()
        with pytest.raises(HeadwayError, match=r"the process that measures the tests \(PID \d+\) ended by signal 15"):
            meter.open()
    finally:
        meter.end()


def test_hostile_names_do_no_harm(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("n", [1], ids=["\\x1b[31m\\u202eevil" + "x" * 10_000])
        def test_it(n, headway_progress):
            with headway_progress("\\x1b[2J\\n[red]\\udc80" + "y" * 10_000):
                pass
        """
    )
    path = Path("base.json")
    result = run(pytester, "--headway-save", path, "-q")
    result.assert_outcomes(passed=1)
    assert "\x1b" not in result.stdout.str()
    assert "\u202e" not in result.stdout.str()
    result = run(pytester, "--headway-compare", path, "--headway-threshold=100000%", "-v", "--color=no")
    assert "\x1b" not in result.stdout.str().partition("effective progress (headway)")[2]
