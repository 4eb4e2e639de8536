"""The same configuration, program and inputs: the same run, to the cycle, twice and on every computer.

The digests of whole runs (every cell, counter, byte of memory and output) are kept beside this file. Where a rule of
the machine or a program was changed on purpose they are written anew: ``HEADWAY_WRITE_DIGESTS=1 python -m pytest`` and
this file's name.
"""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from tests.machine.examples import SHAPES, Shape, config_of, program, run

from headway_machine.config import L2, Cache, Config
from headway_machine.machine import Machine

KEPT = Path(__file__).with_name("digests.json")
PROGRAMS = (
    "integer",
    "interrupt-storm",
    "malloc-heavy",
    "matmul",
    "six-threads",
    "spin-lock",
    "uart-poll",
    "utilisation",
)
ODD = Config.of(
    cores=3, threads=5, issue="skip", l1d=Cache(4096, 2, 64, "through"), l1i=Cache(2048, 1, 64), l2=L2(65536, 8, 64)
)


def digests() -> dict[str, str]:
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    assert isinstance(kept, dict)
    return kept


def compare(key: str, digest: str) -> None:
    kept = digests()
    if os.environ.get("HEADWAY_WRITE_DIGESTS"):
        KEPT.write_text(json.dumps({**kept, key: digest}, indent=2, sort_keys=True) + "\n")
    else:
        assert digest == kept.get(key), f"{key} ran differently from the run whose digest is kept"


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_run_is_the_one_whose_digest_is_kept(name: str, shape: Shape) -> None:
    compare(f"{name} {shape}", run(name, shape).digest)


def test_a_run_with_unusual_caches_is_the_one_whose_digest_is_kept() -> None:
    compare("mix, unusual caches", Machine(ODD).run(program("mix"), max_cycles=50_000_000).digest)


def test_two_runs_are_one() -> None:
    first, second = (run("six-threads", (2, 6, "skip")) for _ in range(2))
    assert first.digest == second.digest
    assert first.ledger == second.ledger


def test_another_input_is_another_run() -> None:
    config = config_of("uart-poll", (1, 6, "strict"))
    later = config.with_values(uart=replace(config.uart, every=config.uart.every + 100))
    digest = Machine(config).run(program("uart-poll"), max_cycles=50_000_000).digest
    assert Machine(later).run(program("uart-poll"), max_cycles=50_000_000).digest != digest
