"""Typical work of tests, the same in every run, for benchmarks/pytest_plugin.py."""

from __future__ import annotations

import hashlib
import json
import random
import re
import subprocess
import sys
import threading
import zlib
from pathlib import Path

RANDOM = random.Random(1)
NUMBERS = [RANDOM.random() for _ in range(60_000)]
TEXT = " ".join(RANDOM.choices(["alpha", "beta", "gamma", "delta", "epsilon", "42"], k=40_000))
DOCUMENT = json.dumps([{"name": f"n{n}", "values": NUMBERS[n : n + 8]} for n in range(3_000)])


def test_interpreter() -> None:
    assert sum(n * n % 7 for n in range(400_000))


def test_sort() -> None:
    assert sorted(sorted(NUMBERS), reverse=True)[0] == max(NUMBERS)


def test_json() -> None:
    assert json.loads(json.dumps(json.loads(DOCUMENT)))[0]["name"] == "n0"


def test_compress() -> None:
    assert zlib.decompress(zlib.compress(TEXT.encode(), 6)) == TEXT.encode()


def test_hash() -> None:
    assert hashlib.sha256(bytes(12_000_000)).hexdigest()


def test_regular_expression() -> None:
    assert len(re.findall(r"\b(?:[a-z]+a|\d+)\b", TEXT)) > 1000


def test_dictionary() -> None:
    found: dict[str, int] = {}
    for word in TEXT.split() * 4:
        found[word] = found.get(word, 0) + 1
    assert len(found) == 6


def test_files(tmp_path: Path) -> None:
    for number in range(150):
        (tmp_path / f"{number}").write_text(TEXT[:2_000])
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) == 300_000


def test_threads() -> None:
    threads = [threading.Thread(target=lambda: hashlib.sha256(bytes(6_000_000)).digest()) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_process() -> None:
    code = "print(sum(n * n for n in range(200_000)))"
    assert subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, check=True).stdout
