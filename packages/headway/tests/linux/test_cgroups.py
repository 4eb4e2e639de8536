"""What the paths of control groups tell: as engines and systemd write them, and as nobody should."""

from __future__ import annotations

import subprocess
from itertools import product
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.linux.procfs.cgroups import Origin, parse, parse_path, read_origin

ID = "3f1c5e0b" * 8
OTHER_ID = "00c0ffee" * 8
UID = "1b1b4d9c-6c39-4f0e-9a6b-2f0f3c7d5a10"
SCOPED = UID.replace("-", "_")
POD_SLICE = f"kubepods-pod{SCOPED}.slice"
STATIC = "d4aca8b1c4e0f4f1a1d3f0e2b6c7d8e9"

uids = st.uuids().map(str) | st.text("0123456789abcdef", min_size=32, max_size=32)
ids = st.text("0123456789abcdef", min_size=64, max_size=64)
upwards = st.sampled_from(["", "/..", "/../..", "/../../../.."])
classes = st.sampled_from(["", "burstable", "besteffort"])


def systemd_pod(uid: str, quality: str, scope: str, root: str = "") -> str:
    """As the kubelet's systemd driver makes it; ``root``: its --cgroup-root, as in kind."""
    before = [part for part in (root, "kubepods", quality) if part]
    slices = ["-".join(before[:n]) + ".slice" for n in range(1, len(before) + 1)]
    return "/" + "/".join([*slices, "-".join(before) + f"-pod{uid.replace('-', '_')}.slice", scope])


def cgroupfs_pod(uid: str, quality: str, name: str) -> str:
    return "/" + "/".join(part for part in ("kubepods", quality, f"pod{uid}", name) if part)


@pytest.mark.parametrize(
    ("path", "told"),
    [
        # Kubernetes: containerd and CRI-O with the systemd driver, and with cgroupfs
        (systemd_pod(UID, "burstable", f"cri-containerd-{ID}.scope"), Origin(UID, ID)),
        (systemd_pod(UID, "", f"crio-{ID}.scope"), Origin(UID, ID)),
        (systemd_pod(UID, "besteffort", f"crio-{ID}.scope/container"), Origin(UID, ID)),
        (systemd_pod(UID, "burstable", f"docker-{ID}.scope"), Origin(UID, ID)),
        (systemd_pod(UID, "burstable", f"cri-containerd-{ID}.scope", root="kubelet"), Origin(UID, ID)),
        (cgroupfs_pod(UID, "burstable", ID), Origin(UID, ID)),
        (cgroupfs_pod(UID, "", ID), Origin(UID, ID)),
        (cgroupfs_pod(UID, "besteffort", f"crio-{ID}"), Origin(UID, ID)),
        (systemd_pod(STATIC, "burstable", f"cri-containerd-{ID}.scope"), Origin(STATIC, ID)),
        (systemd_pod(UID, "", "").rstrip("/"), Origin(UID)),
        # containerd told to use cgroupfs by a kubelet that uses systemd
        (
            f"/system.slice/containerd.service/kubepods-burstable-pod{SCOPED}.slice:cri-containerd:{ID}",
            Origin(UID, ID, "containerd.service", "", "system.slice"),
        ),
        # CRI-O's monitor is in the pod, and not the container
        (systemd_pod(UID, "", f"crio-conmon-{ID}.scope"), Origin(UID, "", f"crio-conmon-{ID}.scope", "", POD_SLICE)),
        # Docker, Podman, nerdctl
        (f"/system.slice/docker-{ID}.scope", Origin("", ID)),
        (f"/docker/{ID}", Origin("", ID)),
        (f"/user.slice/user-1000.slice/user@1000.service/app.slice/docker-{ID}.scope", "user@1000.service"),
        (f"/machine.slice/libpod-{ID}.scope/container", Origin("", ID)),
        (f"/libpod_parent/libpod-{ID}", Origin("", ID)),
        (f"/system.slice/web.service/libpod-payload-{ID}", Origin("", ID, "web.service", "", "system.slice")),
        (f"/machine.slice/libpod-conmon-{ID}.scope", Origin("", "", f"libpod-conmon-{ID}.scope", "", "machine.slice")),
        (f"/default/{ID}", Origin("", ID)),
        (f"/ecs/0c1a2b3c4d5e6f708192a3b4c5d6e7f8/{ID}", Origin("", ID)),
        # containers in containers, and systemd in a container
        (f"/docker/{ID}/kubelet{cgroupfs_pod(UID, 'burstable', OTHER_ID)}", Origin(UID, OTHER_ID)),
        (f"{cgroupfs_pod(UID, '', ID)}/docker/{OTHER_ID}", Origin(UID, OTHER_ID)),
        (f"/docker/{ID}/system.slice/nginx.service", Origin("", ID, "nginx.service", "", "system.slice")),
        (f"/system.slice/web.service/{ID}/init.scope", Origin("", ID, "init.scope", "", "system.slice")),
        # systemd
        ("/system.slice/nginx.service", Origin("", "", "nginx.service", "", "system.slice")),
        ("/init.scope", Origin("", "", "init.scope")),
        (
            "/system.slice/system-getty.slice/getty@tty1.service",
            Origin("", "", "getty@tty1.service", "", "system-getty.slice"),
        ),
        ("/user.slice/user-1000.slice/session-3.scope", Origin("", "", "session-3.scope", "", "user-1000.slice")),
        (
            "/user.slice/user-1000.slice/user@1000.service/app.slice/app-x\\x2dy@1.service/sub",
            Origin("", "", "user@1000.service", "app-x\\x2dy@1.service", "user-1000.slice"),
        ),
        ("/system.slice/_memory.service", Origin("", "", "memory.service", "", "system.slice")),
        ("/system.slice/slurmstepd.scope/job_1/step_0", Origin("", "", "slurmstepd.scope", "", "system.slice")),
        # nobody's
        ("/", Origin()),
        ("/kubepods.slice", Origin()),
        ("/kubepods/burstable", Origin()),
        ("/user.slice", Origin()),
        (f"/docker/{ID[:-1]}", Origin()),
        (f"/docker/{ID.upper()}", Origin()),
        (f"/docker/{ID}0", Origin()),
        ("/podman", Origin()),
        (f"/pod{UID[:-1]}", Origin()),
        ("/nginx.service.d/x", Origin()),
        ("/a\u0661.service", Origin()),
    ],
)
def test_paths_of_control_groups_tell_their_origin(path: str, told: Origin | str) -> None:
    found = parse_path(path)
    if isinstance(told, str):
        assert (found.container_id, found.unit, found.user_unit) == (ID, told, "")
        return
    fields = ("pod_uid", "container_id", "unit", "user_unit", "slice")
    assert [getattr(found, name) for name in fields] == [getattr(told, name) for name in fields]
    assert found.path == path


@given(uids, ids, classes, st.sampled_from(["cri-containerd", "crio", "docker", "nerdctl"]), upwards)
def test_a_pods_container_is_told_by_either_driver_from_any_namespace(
    uid: str, one: str, quality: str, engine: str, up: str
) -> None:
    by_systemd = parse_path(up + systemd_pod(uid, quality, f"{engine}-{one}.scope"))
    by_files = parse_path(up + cgroupfs_pod(uid, quality, one))
    assert by_systemd.labels() == by_files.labels() == (("k8s_pod_uid", uid), ("container_id", one))


@given(uids.filter(lambda text: "-" in text))
def test_the_uid_is_written_as_kubernetes_writes_it(uid: str) -> None:
    assert UUID(parse_path(systemd_pod(uid, "", "x")).pod_uid) == UUID(uid)
    assert parse_path(systemd_pod(uid, "", "x")).pod_uid == uid


@given(st.binary(max_size=400) | st.text(max_size=200).map(lambda text: f"0::/{text}\n".encode(errors="replace")))
def test_whatever_is_written_there_is_taken(text: bytes) -> None:
    found = parse(text)
    shown = text.decode(errors="surrogateescape")
    for name, value in found.labels():
        assert name.isidentifier()
        assert value
        if name == "cgroup":
            assert value in shown
        else:
            assert value.isascii()
            assert value.isprintable()
            assert len(value) <= 255


_words = st.sampled_from(
    ["..", "_", "system.slice", "user@1000.service", "nginx.service", "kubepods", f"pod{UID}", ID, f"docker-{ID}.scope"]
) | st.text(st.characters(blacklist_characters="/\n"), max_size=8)


@given(st.lists(_words, max_size=8).map(lambda parts: "/" + "/".join(parts)))
def test_what_is_told_is_in_the_path(path: str) -> None:
    found = parse_path(path)
    for value in (found.container_id, found.unit, found.user_unit, found.slice):
        assert value in path
    assert found.pod_uid in path.replace("_", "-")
    assert not found.user_unit or found.unit.startswith("user@")
    assert not found.slice or found.unit


@pytest.mark.parametrize("deleted", ["", " (deleted)"])
def test_a_container_is_found_in_cgroup_v1_and_v2_and_both(deleted: str) -> None:
    pod = systemd_pod(UID, "burstable", f"cri-containerd-{ID}.scope")
    wanted = Origin(UID, ID, path=pod)
    v1 = "\n".join(f"{n}:{name}:{pod}{deleted}" for n, name in enumerate(("cpu,cpuacct", "memory", "name=systemd"), 2))
    assert parse(v1.encode()) == wanted
    assert parse(f"0::{pod}{deleted}\n".encode()) == wanted
    # hybrid: the engine uses v1 only, so v2 tells the engine's own unit
    assert parse(f"{v1}\n0::/system.slice/containerd.service\n".encode()) == wanted
    # systemd's hierarchy and a controller of which nobody else knows
    both = b"4:memory:/process/7\n1:name=systemd:/system.slice/a.service\n0::/system.slice/b.service\n"
    assert parse(both).unit == "b.service"
    assert parse(b"4:memory:/process/7\n1:name=systemd:/system.slice/a.service\n0::/\n").unit == "a.service"
    assert parse(b"4:memory:/process/7\n1:name=systemd:/\n0::/\n").labels() == (("cgroup", "/process/7"),)


@given(st.permutations([f"0::/docker/{ID}", "1:name=systemd:/", "5:cpu:/", "7:memory:/lxc/x", "garbage", ""]))
def test_the_order_of_the_lines_does_not_matter(lines: list[str]) -> None:
    assert parse("\n".join(lines).encode()).labels() == (("container_id", ID),)


def test_no_path_takes_long() -> None:
    """Patterns that go back over what they have read would take hours for these."""
    for part, end in product(("a-", "a.", "_", "-pod", "0" * 63 + "-", ":", ".slice:"), ("", "!", "\udcff")):
        parse_path("/" + part * (250 // len(part)) + end)
        parse_path(f"/{part * 4000}{end}")


def test_a_process_that_is_there_and_one_that_is_not(tmp_path: Path) -> None:
    folder = tmp_path / "7"
    folder.mkdir()
    (folder / "cgroup").write_bytes(b"0::/system.slice/nginx.service\n")
    assert read_origin(7, proc=str(tmp_path)) == parse(b"0::/system.slice/nginx.service\n")
    assert read_origin(8, proc=str(tmp_path)) is None
    assert read_origin(1) is not None
    gone = subprocess.Popen(["true"])
    gone.wait()
    assert read_origin(gone.pid) is None
