"""A CPython 3.14 beside the one that runs the tests: named by ``HEADWAY_PYTHON_3_14``, or in PATH."""

from __future__ import annotations

import os
import shutil

import pytest

__all__ = ["python3_14"]


def python3_14() -> str:
    """Return its path, or skip the test."""
    found = os.environ.get("HEADWAY_PYTHON_3_14") or shutil.which("python3.14")
    if not found:
        pytest.skip("needs Python 3.14: in PATH, or named by HEADWAY_PYTHON_3_14")
    return found
