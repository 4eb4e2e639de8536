"""How much disk each way of installing headway takes: ``python -m benchmarks.sizes [WHEEL]``, without root.

Each one is installed by pip into a folder of its own, which is then added up: the bytes of all files, bytecode
included, as pip leaves them. Without a wheel, one is built of this checkout first. The packages are the newest that the
index has. ``python -m benchmarks`` leaves this out, because it needs an index.
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
    """A wheel of this checkout."""
    subprocess.run([*PIP, "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT], check=True)
    (wheel,) = folder.glob("headway-*.whl")
    return wheel


def installed(wheel: Path, extra: str) -> tuple[int, int, int]:
    """Bytes of the installation with an extra (none: ""), bytes of headway in it, and how many packages it has."""
    with TemporaryDirectory() as scratch:
        what = f"{wheel}[{extra}]" if extra else str(wheel)
        subprocess.run([*PIP, "install", "--quiet", "--target", scratch, what], check=True)
        folder = Path(scratch)
        return size(folder), size(folder / "headway"), len(list(folder.glob("*.dist-info")))


def size(folder: Path) -> int:
    """Bytes of the files in a folder, and below."""
    return sum(os.lstat(os.path.join(where, name)).st_size for where, _, names in os.walk(folder) for name in names)


def main(arguments: Sequence[str] = ()) -> None:
    """Print the table."""
    with TemporaryDirectory() as scratch:
        wheel = Path(arguments[0]).resolve() if arguments else build(Path(scratch))
        base, ours, packages = installed(wheel, "")
        print(f"{heading()}, Python {sys.version.split()[0]}; headway itself has {ours / 1e6:.1f} MB\n")
        rows = [["`headway`", f"{base / 1e6:.1f} MB", "", str(packages)]]
        for extra in (*EXTRAS, "all"):
            whole, _, packages = installed(wheel, extra)
            more = f"{(whole - base) / 1e6:.1f} MB"
            rows.append([f"`headway[{extra}]`", f"{whole / 1e6:.1f} MB", more, str(packages)])
    print(table(["installed", "in all", "more than the base", "packages"], rows))


if __name__ == "__main__":
    main(sys.argv[1:])
