"""The table of status checks, where it is hostile."""

from __future__ import annotations

from pathlib import Path

import pytest

from headway.errors import SelectionError
from headway.linux import checks


def test_a_file_without_end_is_refused_before_it_is_read_whole() -> None:
    with pytest.raises(SelectionError, match="/dev/zero has more than 64 KiB"):
        checks.load("/dev/zero")


def test_what_is_as_large_as_it_may_be_is_read(tmp_path: Path) -> None:
    own = tmp_path / "checks.toml"
    own.write_text("# " + "x" * ((64 << 10) - 2))
    assert checks.load(str(own)) == checks.load()


@pytest.mark.parametrize("raw", [b"\xff\xfe", b"a" * 100, b"[" * 1000, b"a=" + b"[" * 60000])
def test_what_is_no_toml_is_refused_in_one_sentence(raw: bytes, tmp_path: Path) -> None:
    own = tmp_path / "checks.toml"
    own.write_bytes(raw)
    with pytest.raises(SelectionError, match="is no TOML file") as refused:
        checks.load(str(own))
    assert "\n" not in str(refused.value)
