#!/usr/bin/env python3
"""Complete a source distribution: ``meson dist`` runs this in the folder that becomes the archive.

A package of the repository has links to what the packages share. Its archive has the files themselves, so that it is
built alone.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

TOOLS = ("cythonize.py", "sdist.py", "version.py")
"""What a build needs of ``tools/``."""


def main() -> None:
    """Put files in the place of links."""
    source, archive = Path(os.environ["MESON_SOURCE_ROOT"]), Path(os.environ["MESON_DIST_ROOT"])
    for link in [path for path in archive.iterdir() if path.is_symlink()]:
        link.unlink()
        place = source / link.name
        if link.name == "tools":
            link.mkdir()
            for name in TOOLS:
                shutil.copy(place / name, link)
        elif place.is_dir():
            shutil.copytree(place, link, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(place, link)
    (archive / "Makefile").unlink(missing_ok=True)  # it is for the repository


if __name__ == "__main__":
    main()
