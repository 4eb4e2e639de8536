"""Environments with headway for the Makefile, built as fast as can be: ``python -m tools.environment FOLDER KIND``.

`KINDS` has the kinds: what ``make demo``, ``make test``, ``make test-all``, ``make check`` and ``make sanitize`` need.
What only the build needs is in ``build/tools``, and an interrupted build goes on there.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
import tomllib
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PACKAGES = ROOT / "packages"
BUILD = ROOT / "build"
TOOLS = BUILD / "tools"
CLANG = BUILD / "clang"
COMPILERS = ("cc", "gcc", "clang")


@dataclass(frozen=True)
class Kind:
    """What an environment has. The seconds are those that a step takes on the machine of the docs."""

    packages: str
    """What is downloaded, in words."""
    download: int
    parts: str
    """What is built, in words."""
    building: int
    group: str = ""
    """The dependency group of pyproject.toml whose packages are installed."""
    distributions: Sequence[str] = ("headway", "headway-trace", "headway-machine")
    """The folders in ``packages/`` that are built, each after those that it needs."""
    options: Sequence[str] = ()
    """Options of Meson for each of them."""
    options_of: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Options of Meson for one of them."""
    editable: bool = False
    """Whether the sources are used where they are, and compiled again when a module is imported that has changed."""


_TOOLS = "Meson, Cython, clang (from ziglang: 100 MB)"
_ALL_OF_IT = f"{_TOOLS} and 110 packages for all tests (500 MB)"
KINDS = {
    "base": Kind(
        f"{_TOOLS} and 12 small packages",
        5,
        "what the demo needs of headway: 12 C modules, the eBPF programs",
        10,
        distributions=("headway",),
        options=("-Doptimization=0", "-Dwarning_level=0"),  # optimising takes four times as long
        options_of={"headway": ("-Dwhole=false",)},
    ),
    "test": Kind(
        f"{_TOOLS} and 40 packages for the tests (150 MB)",
        30,
        "headway, its traces and its machine: 48 C modules, the eBPF programs",
        100,
        group="test",
        options=("-Doptimization=1", "-Dwarning_level=0"),
    ),
    "test-all": Kind(
        _ALL_OF_IT,
        60,
        "headway, its traces and its machine as users get them: 48 C modules, the eBPF programs",
        240,
        group="test-all",
    ),
    "generate": Kind(
        _ALL_OF_IT,
        60,
        "a reference machine that counts what runs",
        240,
        group="test-all",
        options_of={"headway-machine": ("-Dmachine_profile=generate",)},
    ),
    "use": Kind(
        _ALL_OF_IT,
        1,
        "the reference machine for what was counted",
        60,
        group="test-all",
        distributions=("headway-machine",),
        options_of={"headway-machine": ("-Dmachine_profile=use",)},
    ),
    "check": Kind(_ALL_OF_IT, 60, "headway, its traces and its machine in place", 240, group="test-all", editable=True),
    "sanitize": Kind(
        _ALL_OF_IT,
        60,
        "headway, its traces and its machine with sanitizers",
        240,
        group="test-all",
        options=("-Dbuildtype=debugoptimized", "-Db_lundef=false", "-Db_sanitize=address,undefined"),
        editable=True,
    ),
}


class StepError(Exception):
    """A step failed; the message is what to show."""


@contextmanager
def step(what: str, usual: int) -> Iterator[None]:
    """Say what is done and how long it takes on the machine of the docs (``usual``, seconds), then how long it took."""
    print(f"{what} (about {usual} s) ...", end="", file=sys.stderr, flush=True)
    began = time.monotonic()
    try:
        yield
    except BaseException:
        print(file=sys.stderr)
        raise
    print(f" {time.monotonic() - began:.1f} s", file=sys.stderr)


def run(*command: str | Path, **environment: str) -> None:
    """Run a command without a word. Raises StepError with what it printed if it fails."""
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode:
        raise StepError(f"{' '.join(map(str, command))} ended with status {done.returncode}:\n{done.stdout}")


def pip(python: Path, *arguments: str | Path, **environment: str) -> None:
    """Run pip in the environment. Bytecode is not compiled: most of what is installed is not imported."""
    run(python, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments, **environment)


def make_environment(folder: Path) -> Path:
    """Make the environment unless it is there, with pip. Return its Python.

    venv would compile pip and setuptools to bytecode, which takes most of its time. Here pip installs itself, from the
    wheel that Python brings along.
    """
    python = folder / "bin" / "python"
    if python.exists() and subprocess.run([python, "-c", "import pip"], stderr=subprocess.DEVNULL).returncode == 0:
        return python
    wheel = bundled_pip()
    try:
        if wheel is None:
            run(sys.executable, "-m", "venv", folder)
        else:
            run(sys.executable, "-m", "venv", "--without-pip", folder)
            pip(python, "install", "--no-index", "--no-compile", "--ignore-installed", wheel, PYTHONPATH=str(wheel))
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)  # without pip it is of no use to the other targets of the Makefile
        raise
    return python


def bundled_pip() -> Path | None:
    """Return the wheel of pip that comes with Python; None if there is none (venv then says what to install)."""
    try:
        import ensurepip
    except ImportError:
        return None
    folders = [sysconfig.get_config_var("WHEEL_PKG_DIR"), Path(ensurepip.__file__).with_name("_bundled")]
    wheels = [wheel for folder in folders if folder for wheel in Path(folder).glob("pip-*.whl")]
    return wheels[0] if wheels else None


def install_tools(python: Path, packages: list[str]) -> None:
    """Install what builds headway, outside the environment. pip before 23.1 would pass on one option of Meson only."""
    complete = TOOLS / "complete"
    if complete.exists():
        return
    shutil.rmtree(TOOLS, ignore_errors=True)
    pip(python, "install", "--no-compile", "--target", TOOLS, "meson", "ninja", "pip>=23.1", *packages)
    complete.touch()


def get_clang(python: Path, package: str) -> None:
    """Get the clang in the package ``ziglang``, unless the system's compiles eBPF.

    One file of 18,000 is enough for that. The others, which pip would unpack, are the C libraries of many systems.
    """
    if compiles_ebpf("clang") or compiles_ebpf(str(CLANG / "clang")):
        return
    wheels = BUILD / "wheels"
    pip(python, "download", "--no-deps", "--dest", wheels, package)
    CLANG.mkdir(parents=True, exist_ok=True)
    part = CLANG / "zig.part"
    with zipfile.ZipFile(next(wheels.glob("ziglang-*.whl"))) as wheel, wheel.open("ziglang/zig") as packed:
        part.write_bytes(packed.read())
    part.chmod(0o755)
    part.replace(CLANG / "zig")
    (CLANG / "clang").write_text('#!/bin/sh\nexec "$(dirname "$0")/zig" clang "$@"\n')
    (CLANG / "clang").chmod(0o755)
    shutil.rmtree(wheels)


def compiles_ebpf(clang: str) -> bool:
    """Whether this clang is there and knows the target."""
    if shutil.which(clang) is None:
        return False
    listed = subprocess.run([clang, "--print-targets"], capture_output=True, text=True, check=False)
    return "bpfel" in listed.stdout


def settings_of(distribution: str) -> Mapping[str, Any]:
    """Return what the pyproject.toml of a distribution says."""
    return tomllib.loads((PACKAGES / distribution / "pyproject.toml").read_text(encoding="utf-8"))


def packages_of(requirements: Iterable[str]) -> list[str]:
    """Return the packages of others that requirements come to: our own distributions are resolved."""
    found: list[str] = []
    for requirement in requirements:
        own = re.fullmatch(r"(headway(?:-\w+)?)(?:\[([\w,-]+)\])?", requirement)
        if own is None:
            found.append(requirement)
            continue
        project = settings_of(own[1])["project"]
        wanted = [project["optional-dependencies"][extra] for extra in (own[2] or "").split(",") if extra]
        if f"{own[1]}[" not in requirement:
            wanted.append([one for one in project["dependencies"] if not one.startswith("headway")])
        found += [package for packages in wanted for package in packages_of(packages)]
    return list(dict.fromkeys(found))


def requirements_of(kind: Kind) -> list[str]:
    """Return the packages that an environment has besides ours."""
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"]

    def resolved(group: str) -> Iterator[str]:
        for entry in groups[group]:
            if isinstance(entry, str):
                yield entry
            else:
                yield from resolved(entry["include-group"])

    return packages_of([*kind.distributions, *(resolved(kind.group) if kind.group else ())])


def install(python: Path, name: str, distribution: str) -> None:
    """Build a distribution and install it into the environment."""
    kind = KINDS[name]
    pip(
        python,
        "install",
        "--no-compile",
        "--no-deps",
        "--no-build-isolation",
        f"--config-settings=build-dir={BUILD / name / distribution}",
        *(
            f"--config-settings=setup-args={option}"
            for option in (*kind.options, *kind.options_of.get(distribution, ()))
        ),
        *(["--editable"] if kind.editable else []),
        PACKAGES / distribution,
        PYTHONPATH=str(TOOLS),
        PATH=os.pathsep.join([str(CLANG), str(TOOLS / "bin"), os.environ.get("PATH", os.defpath)]),
    )


def find_tests(python: Path) -> None:
    """Let the environment's Python find the tests of all distributions, which are one namespace."""
    where = subprocess.check_output([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], text=True)
    folders = [ROOT, *(path for path in PACKAGES.iterdir() if (path / "tests").is_dir())]
    Path(where.strip(), "headway-tests.pth").write_text("".join(f"{path}\n" for path in sorted(folders)))


def build(folder: Path, name: str) -> None:
    """Build headway and install it into the environment. Raises StepError."""
    if "CC" not in os.environ and not any(map(shutil.which, COMPILERS)):
        raise StepError("there is no C compiler: install gcc with the C library's headers (Debian: gcc libc6-dev)")
    kind = KINDS[name]
    to_build = settings_of("headway")["build-system"]["requires"]
    (zig,) = (package for package in to_build if package.startswith("ziglang"))
    with step(f"making the environment {folder.name}", 1):
        python = make_environment(folder)
    with step(f"downloading {kind.packages}", kind.download):
        with ThreadPoolExecutor() as beside:
            steps = [
                beside.submit(get_clang, python, zig),
                beside.submit(install_tools, python, [package for package in to_build if package != zig]),
                beside.submit(pip, python, "install", "--no-compile", *requirements_of(kind)),
            ]
        for one in steps:
            one.result()
        if kind.editable:  # what is imported is compiled, by the tools that the environment has
            pip(python, "install", "--no-compile", "meson", "ninja", *(one for one in to_build if one != zig))
    with step(f"building {kind.parts}", kind.building):
        for distribution in kind.distributions:
            install(python, name, distribution)
    if kind.group:
        find_tests(python)


def main() -> None:
    """Run the steps; what failed is shown. A signal undoes what would be in the way of the next try."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    parser = argparse.ArgumentParser(prog="python -m tools.environment")
    parser.add_argument("folder", type=Path, help="the environment; made unless it is there")
    parser.add_argument("kind", choices=KINDS)
    wanted = parser.parse_args()
    try:
        build(wanted.folder.resolve(), wanted.kind)
    except StepError as error:
        raise SystemExit(f"make: {error}") from None
    except KeyboardInterrupt:
        raise SystemExit("make: interrupted; started again, it goes on") from None


if __name__ == "__main__":
    main()
