"""Environments with headway for the Makefile, built as fast as can be: ``python -m tools.environment FOLDER KIND``.

`KINDS` has the kinds: what ``make demo``, ``make test`` and ``make test-all`` need. What only the build needs is in
``build/tools``, and an interrupted build goes on there.
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
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
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
    extra: str = ""
    """The extra of headway whose packages are installed."""
    options: Sequence[str] = ()
    """Options of Meson."""


KINDS = {
    "base": Kind(
        "Meson, Cython, clang (from ziglang: 100 MB) and 12 small packages",
        5,
        "what the demo needs of headway: 12 C modules, the eBPF programs",
        10,
        options=("-Dwhole=false", "-Doptimization=0", "-Dwarning_level=0"),  # optimising takes four times as long
    ),
    "test": Kind(
        "Meson, Cython, clang (from ziglang: 100 MB) and 40 packages for the tests (150 MB)",
        30,
        "headway: 48 C modules, the eBPF programs",
        100,
        extra="test",
        options=("-Doptimization=1", "-Dwarning_level=0"),
    ),
    "test-all": Kind(
        "Meson, Cython, clang (from ziglang: 100 MB) and 110 packages for all tests (500 MB)",
        60,
        "headway as users get it: 48 C modules, the eBPF programs",
        240,
        extra="test-all",
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


def packages_of(project: Mapping[str, Any], extra: str) -> list[str]:
    """Return what headway needs with an extra, those of its own extras resolved."""
    found: list[str] = [] if extra else project["dependencies"]
    for package in project["optional-dependencies"][extra] if extra else ():
        own = re.fullmatch(r"headway\[([\w,-]+)\]", package)
        found += [one for name in own[1].split(",") for one in packages_of(project, name)] if own else [package]
    return list(dict.fromkeys(found))


def build(folder: Path, name: str) -> None:
    """Build headway and install it into the environment. Raises StepError."""
    if "CC" not in os.environ and not any(map(shutil.which, COMPILERS)):
        raise StepError("there is no C compiler: install gcc with the C library's headers (Debian: gcc libc6-dev)")
    kind = KINDS[name]
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    to_build, project = settings["build-system"]["requires"], settings["project"]
    (zig,) = (package for package in to_build if package.startswith("ziglang"))
    packages = packages_of(project, "") + (packages_of(project, kind.extra) if kind.extra else [])
    with step(f"making the environment {folder.name}", 1):
        python = make_environment(folder)
    with step(f"downloading {kind.packages}", kind.download):
        with ThreadPoolExecutor() as beside:
            steps = [
                beside.submit(get_clang, python, zig),
                beside.submit(install_tools, python, [package for package in to_build if package != zig]),
                beside.submit(pip, python, "install", "--no-compile", *packages),
            ]
        for one in steps:
            one.result()
    with step(f"building {kind.parts}", kind.building):
        pip(
            python,
            "install",
            "--no-compile",
            "--no-deps",
            "--no-build-isolation",
            f"--config-settings=build-dir={BUILD / name}",
            *(f"--config-settings=setup-args={option}" for option in kind.options),
            ROOT,
            PYTHONPATH=str(TOOLS),
            PATH=os.pathsep.join([str(CLANG), str(TOOLS / "bin"), os.environ.get("PATH", os.defpath)]),
        )


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
