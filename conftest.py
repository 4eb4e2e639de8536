"""What tests share: levels and timeouts, skipping what needs root, and the programs under test."""

from __future__ import annotations

import gc
import os
import signal
from collections import Counter
from collections.abc import Generator
from contextlib import suppress
from ctypes import CDLL
from pathlib import Path
from typing import Any
from unittest.mock import patch

import hypothesis
import pytest
from tests.compiling import Compile, compiler_in, folder_of_run
from tests.effort import EXAMPLES
from tests.levels import kill_at_timeout, mark_level, may_have_unit_tests, may_run_alone

from headway.linux.bpf.programs.libbpf import find_library
from headway.linux.sources.choose import may_use_bpf

pytest.register_assert_rewrite("tests.linux.measuring")  # a law that is broken is shown with what breaks it

if "libasan" in os.environ.get("LD_PRELOAD", ""):
    # capstone asks the dynamic linker to take its own symbols first, which ASan refuses.
    os.RTLD_DEEPBIND = 0  # type: ignore[misc]

# Properties are tried with so many examples each, unless they say, and with the same ones each time: what makes a test
# fail is a change. For a longer look, at others each time: HYPOTHESIS_EXAMPLES=1000. HEADWAY_TESTS limits the examples
# of all properties (packages/headway/tests/effort.py). What fails is made small, but not explained: that takes minutes.
# The clang that headway was built with (tools/environment.py) compiles eBPF for tests too.
os.environ["PATH"] += f"{os.pathsep}{Path(__file__).parent / 'build' / 'clang'}"

_EXAMPLES = os.environ.get("HYPOTHESIS_EXAMPLES", "")
_PHASES = [phase for phase in hypothesis.Phase if phase is not hypothesis.Phase.explain]
hypothesis.settings.register_profile(
    "headway",
    max_examples=EXAMPLES or int(_EXAMPLES or "25"),
    derandomize=not _EXAMPLES,
    deadline=None,
    phases=_PHASES,
)
hypothesis.settings.load_profile("headway")


def settle_property(item: pytest.Item) -> None:
    """Let a property have no more examples than the others may have, and never fail because the machine is busy."""
    tested = getattr(item, "function", None)
    said = getattr(tested, "_hypothesis_internal_use_settings", None)
    if tested is None or not isinstance(said, hypothesis.settings):
        return
    tested._hypothesis_internal_use_settings = hypothesis.settings(
        said,
        max_examples=min(said.max_examples, EXAMPLES or said.max_examples),
        suppress_health_check={*said.suppress_health_check, hypothesis.HealthCheck.too_slow},
    )


def pytest_configure() -> None:
    """A test run that was started in the background ignores signals that the programs under test are to get."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number is signal.SIGINT else signal.SIG_DFL)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """To run unit tests, or those that run alone, modules that have none of them are not imported."""
    if not (collection_path.name.startswith("test_") and collection_path.suffix == ".py"):
        return None
    if config.option.markexpr == "unit":
        return None if may_have_unit_tests(collection_path) else True
    if config.option.markexpr.split()[:1] == ["alone"]:  # of make test-all, and with "and not exhaustive" of make test
        return None if may_run_alone(collection_path) else True
    return None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected stays until the end: the garbage collector need not look through it, neither now nor later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def _lacking_for_ebpf() -> str:
    """Return what the eBPF source needs and does not have here; empty: nothing."""
    if not may_use_bpf() or not os.path.exists("/sys/kernel/btf/vmlinux"):
        return "root (CAP_BPF and CAP_PERFMON) and a kernel with BTF"
    return _lacking_library()


def _lacking_library() -> str:
    try:
        CDLL(find_library())
    except OSError:
        return "libbpf 1.0 or later (Debian, Ubuntu: libbpf1)"
    return ""


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Each test gets its level; tests marked ``root`` need what the eBPF source needs."""
    for item in items:
        mark_level(item)
        settle_property(item)
    lacking = {"root": _lacking_for_ebpf(), "libbpf": _lacking_library()}
    for item in items:
        for mark, what in lacking.items():
            if what and item.get_closest_marker(mark):
                item.add_marker(pytest.mark.skip(reason=f"needs {what}"))


@pytest.hookimpl(wrapper=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: object) -> Generator[None, Any, Any]:
    """A test whose time is over takes the processes along that it has started."""
    return (yield from kill_at_timeout())


@pytest.fixture(autouse=True)
def environment() -> Generator[None]:
    """What a test puts into the environment of its process is of no other test."""
    with patch.dict(os.environ):
        yield


def _kernel_objects() -> Counter[str]:
    """Return how many descriptors of programs, maps, perf events and the like are open in this process."""
    found: Counter[str] = Counter()
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            found[os.readlink(f"/proc/self/fd/{name}")] += 1
    return Counter({of: count for of, count in found.items() if of.startswith("anon_inode:")})


@pytest.fixture(scope="module", autouse=True)
def kernel_objects() -> Generator[None]:
    """What the tests of a module attach, they detach: thousands of tests share a process and a kernel."""
    before = _kernel_objects()
    yield
    if _kernel_objects() - before:
        gc.collect()
    left = _kernel_objects() - before
    assert not left, f"left open: {dict(left)}"


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder for what all processes of a test run share (packages/headway/tests/compiling.py)."""
    return folder_of_run(tmp_path_factory)


@pytest.fixture(scope="session")
def compile_c(shared_folder: Path) -> Compile:
    """Compile a C program of the tests: ``compile_c(name)`` returns the path of the executable."""
    return compiler_in(shared_folder)
