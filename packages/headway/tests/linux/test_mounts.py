"""Mounts by mountinfo, and directories of control groups below them."""

from __future__ import annotations

from pathlib import Path

import pytest

from headway.errors import SelectionError
from headway.linux.procfs.cgroup_folders import cgroup_folder
from headway.linux.procfs.mounts import Mount, mounts, parse_mounts

TEXT = r"""22 28 0:20 / /proc rw,nosuid shared:5 - proc proc rw,hidepid=2
30 23 0:26 / /sys/fs/cgroup ro shared:4 - cgroup2 none rw,nsdelegate
31 23 0:27 / /mnt/a\040b\134c rw - tmpfs none rw

nonsense
"""


def test_a_mount_has_its_own_options_and_those_of_its_file_system() -> None:
    proc, group, other = parse_mounts(TEXT)
    assert (proc.point, proc.kind) == ("/proc", "proc")
    assert proc.options == {"rw", "nosuid", "hidepid=2"}
    assert group.options == {"ro", "rw", "nsdelegate"}
    assert other == Mount("/mnt/a b\\c", "tmpfs", frozenset({"rw"}))


def test_a_proc_is_mounted_for_this_process() -> None:
    assert any(mount.kind == "proc" for mount in mounts())


@pytest.mark.parametrize("given", ["{root}/system.slice", "system.slice", "/system.slice"])
@pytest.mark.parametrize(("kind", "member"), [("cgroup2", "cgroup.procs"), ("cgroup", "tasks")])
def test_a_group_is_found_by_its_directory_and_below_a_mount(
    tmp_path: Path, given: str, kind: str, member: str
) -> None:
    group = tmp_path / "system.slice"
    group.mkdir()
    (group / member).touch()
    among = [Mount(str(tmp_path), kind, frozenset())]
    assert cgroup_folder(given.format(root=tmp_path), among) == group


def test_what_is_no_group_is_refused(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    with pytest.raises(SelectionError, match="there is no cgroup plain"):
        cgroup_folder("plain", [Mount(str(tmp_path), "cgroup2", frozenset())])
    with pytest.raises(SelectionError, match="give its directory"):
        cgroup_folder(str(tmp_path / "plain"), [])
