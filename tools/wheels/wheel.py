"""Building the wheels for one architecture, and checking that their tags are correct."""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from .debian import Debian
from .errors import ToolError, run
from .libraries import LIBRARIES, NOTICE, build_libraries
from .profile import Llvm, make_profile
from .target import PYTHON, Target
from .workshop import Workshop

__all__ = ["build_wheels", "count"]

PROJECT = Path(__file__).resolve().parents[2]

DISTRIBUTIONS = {
    "headway": (
        "headway/linux/bpf/progress.bpf.o",
        "headway/linux/bpf/plain.bpf.o",
        "headway/linux/bpf/calls.bpf.o",
        "headway/linux/bpf/locks.bpf.o",
        "headway/linux/bpf/clocks.bpf.o",
        "headway/linux/syscalls/_calls.py",
        "headway/demo/threads",
        *(f"headway/linux/lib/{name}" for name in (*LIBRARIES, NOTICE)),
    ),
    "headway-trace": ("headway_trace/riscv/program.py",),
    "headway-machine": ("headway_machine/programs/crc32.elf", "headway_machine/guest/kernel.h"),
}
"""The distributions, in `packages/`, and files that the wheel of each has besides extension modules."""


def count(workshop: Workshop, debian: Debian, llvm: Llvm, target: Target, work: Path) -> Path:
    """Return the counts of a run of the machine, on ``target``, which this system must be (tools/wheels/profile.py)."""
    options = _options(workshop, debian, target, work, compiler=[llvm.clang])
    return make_profile(workshop, llvm, PROJECT, options, work)


def _options(workshop: Workshop, debian: Debian, target: Target, work: Path, compiler: Sequence[str] = ()) -> list[str]:
    """Return the options of meson of every distribution for a target. What they name is in the folder ``work``."""
    headers = debian.unpack(f"libpython{PYTHON[0]}.{PYTHON[1]}-dev", target) / "usr" / "include"
    cross, python = work / "cross.ini", work / "python.json"
    target.write_cross_file(cross, workshop.zig, headers, compiler)
    target.write_python(python, headers / f"python{PYTHON[0]}.{PYTHON[1]}")
    return [
        f"--cross-file={cross}",
        f"-Dpython.build_config={python}",
        "-Dpython.allow_limited_api=true",
    ]


def build_wheels(
    workshop: Workshop, debian: Debian, target: Target, output: Path, counts: Path | None = None
) -> list[Path]:
    """Build the wheel of each distribution for a target into a folder. Returns their paths.

    ``counts``: those of a run of the machine, which it is optimised for.
    """
    with tempfile.TemporaryDirectory(prefix="headway-wheel-") as scratch:
        work = Path(scratch)
        options = _options(workshop, debian, target, work)
        own = {"headway": ["-Dbpf_compiler=zig", f"-Dbundle={build_libraries(workshop, debian, target)}"]}
        if counts is not None:
            own["headway-machine"] = ["-Dmachine_profile=use", f"-Dmachine_profile_data={counts}"]
        return [
            _build(workshop, target, name, [*options, *own.get(name, ())], work / name, output)
            for name in DISTRIBUTIONS
        ]


def _build(workshop: Workshop, target: Target, name: str, options: Sequence[str], work: Path, output: Path) -> Path:
    pip = [str(workshop.python), "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check"]
    pip += ["--no-deps", "--no-build-isolation", f"--wheel-dir={work}"]
    pip += [f"--config-settings=setup-args={option}" for option in options]
    # meson-python asks Python for the platform that the wheel is for. The date makes equal sources equal wheels.
    environment = {
        "SOURCE_DATE_EPOCH": _date(),
        **workshop.environment,
        "_PYTHON_HOST_PLATFORM": f"linux-{target.machine}",
    }
    what = f"building the wheel of {name} for {target.machine}"
    run([*pip, str(PROJECT / "packages" / name)], what, environment=environment)
    return _finish(workshop, target, name, next(work.glob("*.whl")), output)


def _date() -> str:
    """Return the date of the last commit of the sources, else of 1980, in seconds since 1970."""
    try:
        return run(["git", "-C", PROJECT, "log", "-1", "--format=%ct"], "asking git for the date").strip()
    except ToolError:
        return "315532800"


def _finish(workshop: Workshop, target: Target, name: str, wheel: Path, output: Path) -> Path:
    """Check a wheel, give it the platform tag that it qualifies for, and put it into a folder."""
    missing = [file for file in DISTRIBUTIONS[name] if file not in zipfile.ZipFile(wheel).namelist()]
    if missing:
        raise ToolError(
            f"the wheel of {name} for {target.machine} lacks {', '.join(missing)}: "
            f"look into {PROJECT / 'packages' / name / 'meson.build'}"
        )
    programs, environment = workshop.programs, {"SOURCE_DATE_EPOCH": _date(), **workshop.environment}
    # meson-python names the Python that builds; the wheel is for all since the one whose API it was compiled for.
    retag = [str(workshop.python), "-m", "wheel", "tags", "--remove", f"--python-tag=cp{PYTHON[0]}{PYTHON[1]}"]
    wheel = wheel.parent / run([*retag, str(wheel)], "tagging the wheel", environment=environment).strip()
    run([programs / "abi3audit", "--strict", wheel], "comparing the wheel with Python's stable ABI")
    repaired = wheel.parent / "repaired"
    repair = [str(programs / "auditwheel"), "repair", "--plat", "auto", "--wheel-dir", str(repaired), str(wheel)]
    run(repair, "comparing the wheel with the manylinux policies", environment=environment)
    tagged = next(repaired.glob("*.whl"))
    python = f"cp{PYTHON[0]}{PYTHON[1]}-abi3"
    if python not in tagged.name or target.platform not in tagged.name:
        show = run([programs / "auditwheel", "show", wheel], "asking what the wheel needs", environment=environment)
        raise ToolError(f"{tagged.name} is not for {python} and {target.platform} as it should be:\n{show}")
    output.mkdir(parents=True, exist_ok=True)
    for old in output.glob(f"{name.replace('-', '_')}-*{target.machine}.whl"):
        old.unlink()
    return Path(shutil.copy(tagged, output))
