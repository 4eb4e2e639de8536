"""Where the captured trace is that some tests need. It is not part of the project."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def tc2() -> Path:
    """A CoreSight snapshot of three Cortex-A7, with DS-5's decode of the first (from the OpenCSD project)."""
    folders = [Path(__file__).parents[2].parent / "shared"]
    if named := os.environ.get("HEADWAY_SHARED"):
        folders.insert(0, Path(named))
    for folder in folders:
        if (found := folder / "data" / "tc2" / "snapshot.ini").is_file():
            return found.parent
    pytest.skip("needs the capture data/tc2, in ../shared or in $HEADWAY_SHARED")
