"""Control groups and processes by the names that people know."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.errors import SelectionError
from headway.linux.procfs import named_groups
from headway.linux.procfs.named_groups import container_group, pod_group, unit_group
from headway.linux.procfs.named_processes import processes_named

pytestmark = pytest.mark.unit

ID = "3f1c5e0b" * 8
OTHER = "00c0ffee" * 8
UID = "1b1b4d9c-6c39-4f0e-9a6b-2f0f3c7d5a10"
POD = f"kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A hierarchy, and the files of engines."""
    top = tmp_path / "cgroup"
    for group in (
        "system.slice/nginx.service/inner",
        "system.slice/cron.service",
        "user.slice/user-1000.slice/user@1000.service/app.slice/cron.service",
        f"system.slice/docker-{ID}.scope/init",
        f"{POD}/cri-containerd-{OTHER}.scope",
        "lxc.payload.web",
    ):
        (top / group).mkdir(parents=True)
    docker, podman = tmp_path / "docker", tmp_path / "containers.json"
    (docker / ID).mkdir(parents=True)
    (docker / ID / "config.v2.json").write_text(json.dumps({"Name": "/shop"}))
    podman.write_text(json.dumps([{"id": OTHER, "names": ["till"]}]))
    monkeypatch.setattr(named_groups, "DOCKER", docker)
    monkeypatch.setattr(named_groups, "PODMAN", podman)
    return top


def test_a_unit_is_known_with_and_without_its_kind(root: Path) -> None:
    for name in ("nginx", "nginx.service"):
        assert unit_group(name, root) == str(root / "system.slice/nginx.service")
    assert unit_group("system.slice", root) == str(root / "system.slice")


def test_what_is_not_there_or_there_twice_is_one_sentence(root: Path) -> None:
    with pytest.raises(SelectionError, match="no control group of the unit 'redis': systemctl status tells"):
        unit_group("redis", root)
    with pytest.raises(SelectionError, match=r"2 control groups are of the unit 'cron': give one of --cgroup"):
        unit_group("cron", root)


@pytest.mark.parametrize("name", ["shop", ID, ID[:12]])
def test_a_container_is_known_by_its_name_and_by_its_id(root: Path, name: str) -> None:
    assert container_group(name, root) == str(root / f"system.slice/docker-{ID}.scope")


def test_containers_of_other_engines_and_pods(root: Path) -> None:
    assert container_group("till", root) == str(root / POD / f"cri-containerd-{OTHER}.scope")
    assert container_group("web", root) == str(root / "lxc.payload.web")
    assert pod_group(UID, root) == str(root / POD)


def test_few_digits_name_no_container(root: Path) -> None:
    with pytest.raises(SelectionError, match="no control group of the container"):
        container_group("3f1", root)


VALUES = st.recursive(
    st.none() | st.booleans() | st.text(max_size=5),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["id", "names", "Name", "x"]), inner),
)


@given(st.binary(max_size=200) | VALUES.map(lambda value: json.dumps(value).encode()))
def test_files_of_engines_may_be_anything(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    folder = tmp_path_factory.mktemp("engines")
    (folder / "docker" / ID).mkdir(parents=True)
    (folder / "docker" / ID / "config.v2.json").write_bytes(content)
    (folder / "podman").write_bytes(content)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(named_groups, "DOCKER", folder / "docker")
        patched.setattr(named_groups, "PODMAN", folder / "podman")
        with pytest.raises(SelectionError):
            container_group("shop", folder / "none")


def test_processes_are_found_by_the_name_of_their_program() -> None:
    code = "import sys; print(flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert child.pid in processes_named(Path(sys.executable).name)
        assert child.stdin is not None
        child.stdin.close()
    assert processes_named("no program has this name") == ()
