"""The disk space of each way to install headway: ``python -m benchmarks.sizes [WHEEL]``, without root.

Each is installed by pip into a directory of its own. Its size is the sum of the bytes of all files, bytecode included,
as pip leaves them. Without a wheel, those of this checkout are built first; the wheels of the other distributions are
looked for beside that of headway. The packages are the newest in the index. ``python -m benchmarks`` leaves this
benchmark out, because it needs an index.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from headway.extras import EXTRAS

from .common import heading, table

ROOT = Path(__file__).parents[1]
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]


def build(folder: Path) -> Path:
    """Build the wheels of this checkout; return the path of headway's."""
    packages = [ROOT / "packages" / name for name in ("headway", "headway-trace", "headway-machine")]
    subprocess.run([*PIP, "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, *packages], check=True)
    (wheel,) = folder.glob("headway-[0-9]*.whl")
    return wheel


def installed(wheel: Path, extra: str) -> tuple[int, int, int]:
    """Return the bytes of the installation with an extra (none: ""), of headway in it, and its number of packages."""
    with TemporaryDirectory() as scratch:
        what = f"{wheel}[{extra}]" if extra else str(wheel)
        beside = f"--find-links={wheel.parent}"
        subprocess.run([*PIP, "install", "--quiet", "--pre", beside, "--target", scratch, what], check=True)
        folder = Path(scratch)
        return size(folder), size(folder / "headway"), len(list(folder.glob("*.dist-info")))


def size(folder: Path) -> int:
    """Return the bytes of all files in a directory and below."""
    return sum(os.lstat(os.path.join(where, name)).st_size for where, _, names in os.walk(folder) for name in names)


def main(arguments: Sequence[str] = ()) -> None:
    """Print the table."""
    with TemporaryDirectory() as scratch:
        wheel = Path(arguments[0]).resolve() if arguments else build(Path(scratch))
        base, ours, packages = installed(wheel, "")
        print(f"{heading()}, Python {sys.version.split()[0]}; headway itself has {ours / 1e6:.1f} MB\n")
        rows = [["`headway`", f"{base / 1e6:.1f} MB", "", str(packages)]]
        for extra in (*EXTRAS, "trace", "machine", "rtl", "all"):
            whole, _, packages = installed(wheel, extra)
            more = f"{(whole - base) / 1e6:.1f} MB"
            rows.append([f"`headway[{extra}]`", f"{whole / 1e6:.1f} MB", more, str(packages)])
    print(table(["installed", "in all", "more than the base", "packages"], rows))


if __name__ == "__main__":
    main(sys.argv[1:])
