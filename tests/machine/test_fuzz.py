"""Random instruction streams neither crash the host nor hang it."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_half_a_million_random_instructions_harm_nobody(seed: int) -> None:
    """More than 10^6 in all; whatever they do, every tick of the run is accounted for (`violations` is asked there)."""
    command = [sys.executable, "-m", "tests.machine.fuzz", str(seed), "500000"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) >= 500_000
