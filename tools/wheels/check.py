"""``python -m tools.wheels.check``: install the wheels in bare Debian systems, and use them.

mmdebstrap makes each system of Debian's essential packages, apt, python3 and python3-venv. The archive of it is kept
between runs; each check unpacks a fresh copy and removes it at the end. The copy sees this kernel: /proc, /sys
and /dev are mounted into it in a mount namespace of its own, so nothing stays mounted, however the check ends. pip gets
headway's dependencies from PyPI, as it is configured here.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from .debian import KEYRING, Debian
from .errors import ToolError, run
from .wheel import DISTRIBUTIONS
from .workshop import Workshop

SYSTEMS = {"bookworm": "Debian 12", "trixie": "Debian 13"}
INSIDE = Path(__file__).with_name("inside.py")

ENTER = """
set -eu
root=$1
shift
for place in proc sys dev; do mount --rbind "/$place" "$root/$place"; done
exec chroot "$root" python3 /check/inside.py /opt/headway "$@"
"""


def unable() -> str | None:
    """Return why the check cannot be done on this machine, in one clause; None: it can."""
    if os.geteuid() != 0:
        return "it needs root, to make and enter systems of their own"
    for program, package in (("mmdebstrap", "mmdebstrap"), ("unshare", "util-linux")):
        if shutil.which(program) is None:
            return f"there is no {program}: install the package {package}"
    return None


def reachable(workshop: Workshop) -> bool:
    """Return whether pip reaches PyPI: it downloads the smallest of headway's dependencies."""
    with tempfile.TemporaryDirectory(prefix="headway-pip-") as scratch:
        download = ["-m", "pip", "download", "--quiet", "--no-deps", "--no-cache-dir", "--timeout=10", "--retries=0"]
        try:
            workshop.install()
            run([workshop.python, *download, "--dest", scratch, "h11"], "asking PyPI")
        except ToolError:
            return False
    return True


def bare_system(workshop: Workshop, debian: Debian, release: str) -> Path:
    """Return the archive of a bare system, which is made once. Raises ToolError without network."""
    archive = workshop.path / "systems" / f"{release}.tar"
    if not archive.is_file():
        archive.parent.mkdir(parents=True, exist_ok=True)
        partial = archive.with_suffix(".partial.tar")
        command = ["mmdebstrap", "--variant=minbase", "--include=python3,python3-venv", f"--keyring={KEYRING}"]
        what = f"making a bare {SYSTEMS[release]} of packages from the network"
        run([*command, release, partial, debian.mirror()], what)
        partial.rename(archive)
    return archive


def check(archive: Path, wheels: Sequence[Path]) -> dict[str, object]:
    """Install wheels in a fresh copy of a system and use them there. Returns what `inside.py` found."""
    with tempfile.TemporaryDirectory(prefix="headway-bare-") as scratch:
        root = Path(scratch) / "root"
        root.mkdir()
        root.parent.chmod(0o755)
        run(["tar", "--extract", "--numeric-owner", "--exclude=./dev/*", "--file", archive, "-C", root], "unpacking")
        (root / "check").mkdir()
        for wheel in wheels:
            shutil.copy(wheel, root / "check")
        shutil.copy(INSIDE, root / "check")
        environment = {name: value for name, value in os.environ.items() if _passed_on(name)}
        environment |= {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "HOME": "/root"}
        for given in ("/etc/resolv.conf", os.environ.get("PIP_CERT", "")):  # to reach PyPI as this machine does
            if given and Path(given).is_file():
                target = root / given.lstrip("/")
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(given, target)
        command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", ENTER, "sh", str(root)]
        command += [f"/check/{wheel.name}" for wheel in wheels]
        done = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        try:
            found: dict[str, object] = json.loads(done.stdout)
        except ValueError:
            raise ToolError(f"the check ended with status {done.returncode}:\n{done.stderr[-4000:]}") from None
        return found


def _passed_on(name: str) -> bool:
    return (name.startswith("PIP_") and name != "PIP_FIND_LINKS") or name.lower().endswith("_proxy")


def _pattern(distribution: str) -> str:
    return f"{distribution.replace('-', '_')}-[0-9]*_{platform.machine()}.whl"


def main() -> int:
    """Check the wheels for this machine in each system. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.wheels.check", description=__doc__)
    parser.add_argument("systems", nargs="*", help="of bookworm, trixie; unless told: all")
    parser.add_argument("-w", "--wheels", type=Path, default=Path("dist"), help="the folder with the wheels (dist)")
    given = parser.parse_args()
    if unknown := [name for name in given.systems if name not in SYSTEMS]:
        parser.error(f"{unknown[0]} is none of {', '.join(SYSTEMS)}")
    if why := unable():
        print(f"wheels-check: skipped: {why}", file=sys.stderr)
        return 0
    faults = 0
    try:
        wheels = [found for name in DISTRIBUTIONS for found in given.wheels.glob(_pattern(name))]
        if len(wheels) != len(DISTRIBUTIONS):
            raise ToolError(
                f"{given.wheels} has not one wheel of each of {', '.join(DISTRIBUTIONS)} for {platform.machine()}: "
                "build them with make wheels in an empty folder"
            )
        workshop = Workshop()
        if not reachable(workshop):
            print(
                "wheels-check: skipped: PyPI cannot be reached, and headway's dependencies come from it",
                file=sys.stderr,
            )
            return 0
        debian = Debian(workshop.path / "debian")
        for release in given.systems or SYSTEMS:
            found = check(bare_system(workshop, debian, release), wheels)
            print(json.dumps(found, indent=2), flush=True)
            faults += len(found["faults"]) if isinstance(found["faults"], list) else 1
    except ToolError as error:
        print(f"wheels-check: {error}", file=sys.stderr)
        return 1
    print(f"wheels-check: {faults} faults", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
