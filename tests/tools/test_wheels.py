"""The build of the wheels, as far as it goes without network, compilers and root: `make wheels-check` does the rest."""

from __future__ import annotations

import ast
import configparser
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tools.wheels import check, debian, libraries, profile, workshop
from tools.wheels.debian import Debian
from tools.wheels.errors import ToolError, run
from tools.wheels.inside import faults_of
from tools.wheels.target import TARGETS, Target, _words
from tools.wheels.workshop import Workshop

GOOD = {"status": 0, "output": "499999500000\n", "said": "", "source": "bpf", "threads": 1, "unaccounted_ns": 0}

texts = st.text(st.characters(exclude_categories=["C", "Z"], include_characters=" '\\"), max_size=20)


@given(st.lists(texts, max_size=5))
def test_words_are_what_meson_reads(words: list[str]) -> None:
    # A string of meson in single quotes is one of Python, as far as these characters go.
    assert ast.literal_eval(_words(words)) == words


@pytest.mark.parametrize("target", TARGETS.values(), ids=str)
def test_a_cross_file_names_the_target_and_nothing_of_this_machine(target: Target, tmp_path: Path) -> None:
    target.write_cross_file(tmp_path / "cross.ini", Path("/it's/zig"), Path("/headers"))
    file = configparser.ConfigParser(interpolation=None)
    file.read(tmp_path / "cross.ini")
    compiler = ast.literal_eval(file["binaries"]["c"])
    assert compiler == ["/it's/zig", "cc", "-target", f"{target.machine}-linux-gnu.2.17"]
    assert file["host_machine"]["cpu_family"] == f"'{target.machine}'"
    assert "-I/headers" in ast.literal_eval(file["built-in options"]["c_args"])
    target.write_python(tmp_path / "python.json", Path("/headers/python3.11"))
    details = json.loads((tmp_path / "python.json").read_text())
    assert details["c_api"]["headers"] == "/headers/python3.11"
    assert details["platform"] == f"linux-{target.machine}"


def test_downloads_are_kept_where_one_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HEADWAY_BUILD_CACHE", str(tmp_path / "here"))
    assert Workshop().path == tmp_path / "here"
    monkeypatch.delenv("HEADWAY_BUILD_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert Workshop().path == tmp_path / "headway-build"
    (tmp_path / "file").touch()
    monkeypatch.setenv("HEADWAY_BUILD_CACHE", str(tmp_path / "file" / "folder"))
    with pytest.raises(ToolError, match="HEADWAY_BUILD_CACHE"):
        Workshop()


def test_programs_are_installed_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HEADWAY_BUILD_CACHE", str(tmp_path))
    commands = []

    def pretend(command: list[object], what: str, **_: object) -> str:
        commands.append(command)
        (tmp_path / "programs").mkdir(exist_ok=True)
        return ""

    monkeypatch.setattr(workshop, "run", pretend)
    Workshop().install()
    done = len(commands)
    Workshop().install()
    assert done == len(commands) == 2

    def fail(command: list[object], what: str, **_: object) -> str:
        raise ToolError("no network")

    monkeypatch.setattr(workshop, "run", fail)
    Workshop().install()
    (tmp_path / "programs" / "installed").write_text("of another version")
    with pytest.raises(ToolError):
        Workshop().install()


def test_a_program_that_is_missing_or_fails_is_one_error() -> None:
    with pytest.raises(ToolError, match=r"looking: there is no program no-such-program"):
        run(["no-such-program"], "looking")
    with pytest.raises(ToolError, match=r"(?s)trying failed: .* status 3.*said this"):
        run(["sh", "-c", "echo said this >&2; exit 3"], "trying")


@pytest.mark.parametrize(
    ("lines", "mirror"),
    [
        ("Debian|stable-security|http://security\nDebian|stable|http://main\n", "http://main"),
        ("$(ORIGIN)|$(RELEASE)|http://fresh\n", "http://fresh"),
        ("Other|stable|http://other\nDebian|stable|http://main", "http://main"),
    ],
)
def test_the_mirror_is_the_systems(lines: str, mirror: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("HEADWAY_DEBIAN_MIRROR", raising=False)
    monkeypatch.setattr(debian, "run", lambda command, what: lines)
    assert Debian(tmp_path).mirror() == mirror
    monkeypatch.setenv("HEADWAY_DEBIAN_MIRROR", "http://mine")
    assert Debian(tmp_path).mirror() == "http://mine"


def test_a_system_without_a_mirror_of_debian_is_told_how_to_name_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("HEADWAY_DEBIAN_MIRROR", raising=False)
    monkeypatch.setattr(debian, "run", lambda command, what: "Ubuntu|noble|http://ubuntu\n")
    with pytest.raises(ToolError, match="HEADWAY_DEBIAN_MIRROR"):
        Debian(tmp_path).mirror()


@pytest.mark.end_to_end
@pytest.mark.skipif(shutil.which("apt-get") is None, reason="needs apt")
def test_apt_is_configured_apart_from_the_system(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HEADWAY_DEBIAN_MIRROR", f"file:{tmp_path}/debian")  # of one on the network apt asks again
    keyring = tmp_path / "keyring.gpg"
    keyring.touch()
    monkeypatch.setattr(debian, "KEYRING", keyring)
    configuration = Debian(tmp_path / "kept")._configure()
    dump = run(
        ["apt-config", "dump"], "reading", environment={"APT_CONFIG": str(configuration), "PATH": "/usr/bin:/bin"}
    )
    folders = [line for line in dump.splitlines() if line.startswith(("Dir::State ", "Dir::Cache ", "Dir::Etc::"))]
    assert sum(str(tmp_path) in line for line in folders) == 6
    assert "Post-Invoke" not in dump
    with pytest.raises(ToolError, match="needs the network, once"):
        Debian(tmp_path / "kept").source("libbpf")
    assert not (tmp_path / "kept" / "sources" / "libbpf").exists()


def test_the_notice_names_every_library_its_version_and_its_licence(tmp_path: Path) -> None:
    versions = {name: f"7.{i}-deb" for i, name in enumerate(libraries.PACKAGES)}
    sources = {name: tmp_path / name for name in libraries.PACKAGES}
    for name, (_, texts) in libraries.LICENCES.items():
        sources[name].mkdir()
        for text in texts:
            (sources[name] / text).write_text(f"terms of {name} in {text}\n")
    said = libraries.notice(versions, sources)
    for name, (licence, texts) in libraries.LICENCES.items():
        assert f"{name} {versions[name]}" in said
        assert licence in said
        assert all(f"terms of {name} in {text}" in said for text in texts)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({}, None),
        ({"status": 1}, "status 1"),
        ({"output": "garbled"}, "garbled"),
        ({"source": "proc"}, "measured by proc, expected bpf"),
        ({"threads": 0}, "no thread"),
        ({"unaccounted_ns": 5}, "5 ns"),
    ],
)
def test_what_a_run_got_wrong_is_found(change: dict[str, Any], fault: str | None) -> None:
    found = faults_of(GOOD | change, "bpf")
    assert bool(found) == (fault is not None)
    assert fault is None or fault in found[0]


def test_the_check_skips_with_the_reason(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["check"])
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert check.main() == 0
    assert "skipped: it needs root" in capsys.readouterr().err
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert check.main() == 0
    assert "skipped: there is no mmdebstrap" in capsys.readouterr().err


def _pretended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, versions: dict[str, bool]) -> Workshop:
    """A system with these programs of LLVM, by their suffixes, each with the runtime that counts or without it."""
    for suffix, counts in versions.items():
        folder = tmp_path / f"runtime{suffix}"
        folder.mkdir()
        if counts:
            (folder / "libclang_rt.profile-x86_64.a").touch()

    def pretend(command: list[object], what: str, **_: object) -> str:
        if command[-1] == "--version":
            return "clang version 22.1.8 (https://example.org)\n"
        return str(tmp_path / f"runtime-{str(command[0]).rpartition('-')[2]}") + "\n"

    monkeypatch.setattr(profile, "run", pretend)
    monkeypatch.setattr(shutil, "which", lambda name: name if f"-{name.rpartition('-')[2]}" in versions else None)
    monkeypatch.setattr(Workshop, "zig", property(lambda self: tmp_path / "zig"))
    monkeypatch.setenv("HEADWAY_BUILD_CACHE", str(tmp_path))
    return Workshop()


def test_the_newest_clang_that_counts_is_taken_if_zig_can_read_what_it_counts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    system = _pretended(monkeypatch, tmp_path, {"-14": True, "-19": True, "-21": False, "-23": True})
    assert profile.find_llvm(system) == profile.Llvm("clang-19", "llvm-profdata-19")


@pytest.mark.parametrize("versions", [{}, {"-13": True}, {"-19": False}, {"-23": True}], ids=str)
def test_without_such_a_clang_nothing_is_counted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, versions: dict[str, bool]
) -> None:
    assert profile.find_llvm(_pretended(monkeypatch, tmp_path, versions)) is None


def test_another_compiler_than_zigs_stands_in_the_cross_file(tmp_path: Path) -> None:
    TARGETS["x86_64"].write_cross_file(tmp_path / "cross.ini", Path("/zig"), Path("/headers"), ["/usr/bin/clang-19"])
    file = configparser.ConfigParser(interpolation=None)
    file.read(tmp_path / "cross.ini")
    assert ast.literal_eval(file["binaries"]["c"]) == ["/usr/bin/clang-19"]
