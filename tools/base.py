"""The base of headway in an environment, as fast as a fresh machine can build it: ``python -m tools.base FOLDER``.

It is what ``make demo`` needs: the Python packages, four C modules, the eBPF programs and the demo program. The C
modules are not optimised: that takes a quarter of the time. What only the build needs is in ``build/base``, and an
interrupted build goes on there.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
import tomllib
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parent.parent
BUILD = ROOT / "build" / "base"
TOOLS = BUILD / "tools"
CLANG = BUILD / "clang"
COMPILERS = ("cc", "gcc", "clang")


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
    """Install what builds headway, outside the environment."""
    complete = TOOLS / "complete"
    if complete.exists():
        return
    shutil.rmtree(TOOLS, ignore_errors=True)
    pip(python, "install", "--no-compile", "--target", TOOLS, "meson", "ninja", *packages)
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


def build(folder: Path) -> None:
    """Build the base and install it into the environment. Raises StepError."""
    if "CC" not in os.environ and not any(map(shutil.which, COMPILERS)):
        raise StepError("there is no C compiler: install gcc with the C library's headers (Debian: gcc libc6-dev)")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    needed = project["build-system"]["requires"]
    (zig,) = (package for package in needed if package.startswith("ziglang"))
    with step(f"making the environment {folder.name}", 1):
        python = make_environment(folder)
    with step("downloading Meson, Cython, clang (from ziglang: 100 MB) and 12 small packages", 5):
        with ThreadPoolExecutor() as beside:
            steps = [
                beside.submit(get_clang, python, zig),
                beside.submit(install_tools, python, [package for package in needed if package != zig]),
                beside.submit(pip, python, "install", "--no-compile", *project["project"]["dependencies"]),
            ]
        for one in steps:
            one.result()
    with step("building what the demo needs of headway: 4 C modules, the eBPF programs", 10):
        pip(
            python,
            "install",
            "--no-compile",
            "--no-deps",
            "--no-build-isolation",
            f"--config-settings=build-dir={BUILD / 'meson'}",
            "--config-settings=setup-args=-Dwhole=false",
            "--config-settings=setup-args=-Doptimization=0",
            "--config-settings=setup-args=-Dwarning_level=0",
            ROOT,
            PYTHONPATH=str(TOOLS),
            PATH=os.pathsep.join([str(CLANG), str(TOOLS / "bin"), os.environ.get("PATH", os.defpath)]),
        )


def main() -> None:
    """Run the steps; what failed is shown. A signal undoes what would be in the way of the next try."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        build(Path(sys.argv[1]).resolve())
    except StepError as error:
        raise SystemExit(f"make demo: {error}") from None
    except KeyboardInterrupt:
        raise SystemExit("make demo: interrupted; started again, it goes on") from None


if __name__ == "__main__":
    main()
