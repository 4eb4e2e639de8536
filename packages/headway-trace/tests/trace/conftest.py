"""Where the captured trace is that some tests need. It is not part of the project."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def tc2() -> Path:
    """A CoreSight snapshot of three Cortex-A7, with DS-5's decode of the first (from the OpenCSD project)."""
    folders = [Path(__file__).parents[4].parent / "shared"]
    if named := os.environ.get("HEADWAY_SHARED"):
        folders.insert(0, Path(named))
    for folder in folders:
        if (found := folder / "data" / "tc2" / "snapshot.ini").is_file():
            return found.parent
    pytest.skip("needs the capture data/tc2 in the folder that $HEADWAY_SHARED names")


@pytest.fixture(autouse=True, scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder in which indices of captures are kept, which is not that of the user."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("cache")
        patch.setenv("XDG_CACHE_HOME", str(folder))
        yield folder
