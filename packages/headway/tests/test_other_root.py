"""Files in the root directory of another process: no link leads out of it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.other_root import held, open_below, open_within, root_of

pytestmark = pytest.mark.unit

PARTS = st.lists(st.sampled_from(["a", "b", "..", ".", "link", "up"]), min_size=1, max_size=6).map("/".join)


def text_of(fd: int) -> str:
    with os.fdopen(fd) as file:
        return file.read()


@given(PARTS, PARTS, st.booleans())
def test_whatever_links_say_only_files_within_are_opened(
    tmp_path_factory: pytest.TempPathFactory, target: str, path: str, absolute: bool
) -> None:
    top = tmp_path_factory.mktemp("top")
    root = top / "root"
    for folder, words in ((top, "outside"), (root, "inside"), (root / "a", "inside")):
        folder.mkdir(exist_ok=True)
        (folder / "b").write_text(words)
    (root / "link").symlink_to(f"{top}/{target}" if absolute else target)
    (root / "a" / "up").symlink_to("../../..")
    with suppress(OSError):
        assert text_of(open_within(str(root), path)) == "inside"


def test_an_absolute_link_begins_at_that_root(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text("its")
    (tmp_path / "link").symlink_to("/etc/passwd")
    assert text_of(open_within(str(tmp_path), "/link")) == "its"
    assert text_of(open_below(f"{tmp_path}/link", str(tmp_path))) == "its"
    assert text_of(open_below(f"{tmp_path}/link", "/")) == Path("/etc/passwd").read_text()


def test_a_held_file_is_the_one_within_and_ours_are_as_they_are() -> None:
    pid = os.getpid()
    assert root_of(f"/proc/{pid}/root/etc/passwd") == f"/proc/{pid}/root"
    assert root_of("/etc/passwd") == root_of(f"/proc/{pid}/rooted/x") == "/"
    with held("/etc/passwd") as path:
        assert path == "/etc/passwd"
    with held(f"/proc/{pid}/root/etc/passwd") as path:
        assert os.path.samefile(path, "/etc/passwd")
        before = path
    assert not os.path.exists(before)


def test_a_link_of_the_kernel_is_not_followed() -> None:
    with pytest.raises(OSError, match="Too many levels"):
        open_within("/", "/proc/self/root/etc/passwd")


def test_what_is_no_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="null"):
        open_within(str(tmp_path), "a\0b")
