"""What tests share: skipping what needs root, and programs made for one test."""

from __future__ import annotations

import os
import signal

import hypothesis
import pytest
from tests.compiling import Compile, compiler_in

from headway.linux.sources.choose import may_use_bpf

pytest.register_assert_rewrite("tests.linux.measuring")  # a law that is broken is shown with what breaks it

# Properties are tried with so many examples each, unless they say, and with the same ones each time: what makes a test
# fail is a change. For a longer look, at others each time: HYPOTHESIS_EXAMPLES=1000.
_EXAMPLES = os.environ.get("HYPOTHESIS_EXAMPLES", "")
hypothesis.settings.register_profile(
    "headway", max_examples=int(_EXAMPLES or "25"), derandomize=not _EXAMPLES, deadline=None
)
hypothesis.settings.load_profile("headway")


def pytest_configure() -> None:
    """A test run that was started in the background ignores signals that the programs under test are to get."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number is signal.SIGINT else signal.SIG_DFL)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests marked ``root`` need the privileges of the eBPF source."""
    if may_use_bpf() and os.path.exists("/sys/kernel/btf/vmlinux"):
        return
    skip = pytest.mark.skip(reason="needs root (CAP_BPF and CAP_PERFMON) and a kernel with BTF")
    for item in items:
        if item.get_closest_marker("root"):
            item.add_marker(skip)


@pytest.fixture(scope="session")
def compile_c(tmp_path_factory: pytest.TempPathFactory) -> Compile:
    """Compile a C program of ``tests/programs/``: ``compile_c(name)`` returns the path of the executable."""
    return compiler_in(tmp_path_factory.mktemp("programs"))
