"""The part of headway that pytest always loads: options, a marker and a fixture. ``--headway`` loads the rest.

Every pytest in an environment with headway loads this module (entry point ``pytest11``), so it imports nothing that
pytest has not imported already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .options import percent_option, rounds_option

if TYPE_CHECKING:
    from .blocks import Blocks

_MARKER = (
    "headway(threshold=None, repeat=None): with --headway: this test's own threshold, as --headway-threshold takes it "
    "(or False: it is never compared), and how often it is run"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options, which all begin with ``--headway``."""
    group = parser.getgroup("headway", "effective progress beside time (headway)")
    group.addoption("--headway", action="store_true", help="measure each test's effective progress")
    group.addoption("--headway-save", metavar="FILE", help="write a baseline: what every test that passed had")
    group.addoption(
        "--headway-compare", metavar="FILE", help="tests that make their progress slower than in this baseline fail"
    )
    group.addoption(
        "--headway-threshold",
        metavar="PERCENT",
        type=percent_option,
        default=0.1,
        help="how much more than the baseline counts as slower (default: 10%%)",
    )
    group.addoption(
        "--headway-repeat",
        metavar="N",
        type=rounds_option,
        default=1,
        help="run each test N times, set up and torn down each time, and take the median (default: 1)",
    )
    group.addoption(
        "--headway-source",
        choices=["bpf", "proc"],
        help="where figures come from: eBPF (root) or /proc (default: the best that works)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker and, if requested, the plugins that measure and show."""
    config.addinivalue_line("markers", _MARKER)
    option = config.option
    if (option.headway or option.headway_save or option.headway_compare) and not option.collectonly:
        from .start import start

        start(config)


@pytest.fixture
def headway_progress(request: pytest.FixtureRequest) -> Blocks:
    """Blocks within a test that are measured separately: ``with headway_progress("parse") as block: ...``.

    Afterwards ``block.progress`` (`headway.testing.progress.PhaseProgress`) has the block's figures. It is None if
    nothing is measured, and ``block.why_not`` says why.
    """
    from .blocks import Blocks

    return Blocks(request.config.pluginmanager.get_plugin("headway-phases"))
