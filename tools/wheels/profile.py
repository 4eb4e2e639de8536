"""What the reference machine does most, counted in a run, for the compiler of the wheels (profile-guided optimisation).

zig's clang reads such counts but cannot make them, because zig comes without the runtime that counts. So a clang of the
system compiles headway once more, runs tools/train_machine.py, and its llvm-profdata adds up what was counted. Counts
belong to functions as they are written, so they serve every architecture, and a newer clang reads those of an older
one.
"""

from __future__ import annotations

import re
import shutil
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .errors import run
from .workshop import Workshop

__all__ = ["Llvm", "find_llvm", "make_profile"]

OLDEST = 14
"""The oldest clang whose counts are taken."""
_VERSION = re.compile(r"clang version (\d+)")


@dataclass(frozen=True, slots=True)
class Llvm:
    """Programs of LLVM of the same version."""

    clang: str
    profdata: str


def find_llvm(workshop: Workshop) -> Llvm | None:
    """Return the newest clang of this system whose counts zig's clang can read; None: there is none that can count."""
    found = _VERSION.search(run([workshop.zig, "cc", "--version"], "asking zig for its version"))
    newest = int(found[1]) if found else OLDEST
    for version in range(newest, OLDEST - 1, -1):
        clang, profdata = (shutil.which(f"{name}-{version}") for name in ("clang", "llvm-profdata"))
        if clang and profdata and _counts(clang):
            return Llvm(clang, profdata)
    return None


def _counts(clang: str) -> bool:
    """Return whether a clang has the runtime that counts, which may be a package of its own."""
    resources = Path(run([clang, "--print-resource-dir"], "asking clang where its runtime is").strip())
    return any(resources.rglob("libclang_rt.profile*.a"))


def make_profile(workshop: Workshop, llvm: Llvm, project: Path, options: Sequence[str], work: Path) -> Path:
    """Build the machine and what it needs with these options of meson, run it, and return the file of counts."""
    pip = [str(workshop.python), "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check"]
    pip += ["--no-deps", "--no-build-isolation", f"--wheel-dir={work}"]
    pip += [f"--config-settings=setup-args={option}" for option in options]
    counting = ["--config-settings=setup-args=-Dmachine_profile=generate"]
    for name, own in (("headway", []), ("headway-trace", []), ("headway-machine", counting)):
        run([*pip, *own, str(project / "packages" / name)], "building what counts", environment=workshop.environment)
    installed = work / "installed"
    for path in work.glob("*.whl"):
        with zipfile.ZipFile(path) as wheel:
            wheel.extractall(installed)
    counts, found = work / "machine.profraw", work / "machine.profdata"
    environment = {**workshop.environment, "PYTHONPATH": str(installed), "LLVM_PROFILE_FILE": str(counts)}
    train = [str(workshop.python), "-m", "tools.train_machine"]
    run(train, "running the machine to count", environment=environment, folder=project)
    run([llvm.profdata, "merge", "-o", found, counts], "adding up what was counted")
    return found
