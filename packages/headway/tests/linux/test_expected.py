"""The files that a command will map: the same as the kernel and the loader map, and rows for them beforehand."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.binary.call_frames import Kept
from headway.linux.options import Selection
from headway.linux.sources.profiler import ProfileSource
from headway.linux.sources.profiler.spaces import Spaces
from headway.linux.symbols.expected import MOST_FILES, Expected, Remembered, program_of
from headway.model import Profile
from headway.session.child import SuspendedChild

from .test_profiler import WITHOUT, Build, build, profile
from .test_unwinding import begins_whole, kernel, user_stacks

__all__ = ["build"]

ENVIRONMENT = {"PATH": os.environ.get("PATH", os.defpath)}


def paths(*argv: str, folder: str = "/", **environment: str) -> set[str]:
    expected = Expected({**ENVIRONMENT, **environment}, folder=folder)
    expected.add_command(argv)
    return set(expected.files)


def executable(path: Path, content: str) -> Path:
    path.write_text(content)
    path.chmod(0o755)
    return path


# ---- any input ----


@given(st.lists(st.text(max_size=20), max_size=8), st.text(max_size=20), st.text(max_size=20))
def test_any_command_is_looked_at(argv: list[str], path: str, libraries: str) -> None:
    """Nothing is raised, whatever its words and environment are."""
    expected = Expected({"PATH": path, "LD_LIBRARY_PATH": libraries}, folder="/nowhere")
    expected.add_command(argv)
    assert len(expected.files) <= MOST_FILES


@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)))
def test_remembered_paths_are_read_again(tmp_path_factory: pytest.TempPathFactory, names: list[str]) -> None:
    """Those that are paths; a file that others may write is not read."""
    folder = tmp_path_factory.mktemp("kept")
    remembered = Remembered(Kept(folder))
    remembered.write("/bin/x", [f"/{name}" for name in names])
    assert remembered.read("/bin/x") == [f"/{name}" for name in names]
    assert remembered.read("/bin/y") == []
    (file,) = folder.iterdir()
    file.chmod(0o666)
    assert remembered.read("/bin/x") == []


# ---- cases ----


def test_what_is_no_plain_file_is_not_opened(tmp_path: Path) -> None:
    """A pipe without a writer would hold headway up, and a device may do something."""
    os.mkfifo(tmp_path / "pipe", 0o755)
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("/dev/zero")
    for name in ("pipe", "folder", "link", "nothing"):
        assert paths(str(tmp_path / name)) == set()
        expected = Expected(ENVIRONMENT)
        expected.add_file(str(tmp_path / name))
        assert not expected.files


def test_scripts_that_are_each_others_interpreters_end(tmp_path: Path) -> None:
    """As execve does, with ELOOP."""
    executable(tmp_path / "a", f"#!{tmp_path}/b\n")
    executable(tmp_path / "b", f"#!{tmp_path}/a\n")
    assert paths(str(tmp_path / "a")) == set()


@pytest.mark.parametrize("head", ["#!/bin/sh", "#! /bin/sh -e", "#!/usr/bin/env sh", "#!/usr/bin/env -S sh -e"])
def test_a_script_has_its_interpreter(tmp_path: Path, head: str) -> None:
    """And that what the loader maps with it."""
    executable(tmp_path / "script", f"{head}\nexit 0\n")
    shell = os.path.realpath(shutil.which("sh") or "/bin/sh")
    assert shell in paths(str(tmp_path / "script"))
    assert shell in paths("./script", folder=str(tmp_path))
    assert shell in paths("script", PATH=str(tmp_path) + ":" + ENVIRONMENT["PATH"])


def test_programs_among_the_arguments_are_found() -> None:
    """As in sh -c and nice."""
    cat = os.path.realpath(shutil.which("cat") or "/bin/cat")
    assert cat in paths("sh", "-c", "if true; then cat<x|wc; fi")
    assert cat in paths("nice", "-n", "5", "cat")


def test_a_name_is_searched_as_exec_does(tmp_path: Path) -> None:
    """Folders and files that may not be executed are passed over."""
    first, second = tmp_path / "1", tmp_path / "2"
    for folder in (first, second):
        folder.mkdir()
    (first / "tool").write_text("x")
    executable(second / "tool", "x")
    found = program_of("tool", {"PATH": f"{first}:{second}"})
    assert found == str(second / "tool")
    assert stat.S_ISREG(os.stat(found).st_mode)
    assert program_of("", {}) == program_of("a\0b", {}) == ""


# ---- real programs ----


def test_all_that_the_loader_maps_is_found() -> None:
    """As ldd shows it."""
    ldd = shutil.which("ldd")
    if ldd is None:
        pytest.skip("needs ldd")
    for name in ("sh", "git", "python3", "gcc", "perl"):
        program = shutil.which(name)
        if program is None:
            continue
        shown = subprocess.run([ldd, program], capture_output=True, text=True, check=False).stdout.split()
        wanted = {os.path.realpath(word) for word in shown if word.startswith("/")}
        assert wanted <= paths(name), name


@pytest.mark.parametrize("flag", ["-Wl,--disable-new-dtags", "-Wl,--enable-new-dtags"])
def test_libraries_are_found_by_rpath_and_runpath(tmp_path: Path, flag: str) -> None:
    """With $ORIGIN, and by LD_LIBRARY_PATH where there is none."""
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs gcc")
    library, program = tmp_path / "sub" / "libone.so", tmp_path / "one"
    library.parent.mkdir()
    words = ["-x", "c", "-shared", "-fPIC", "-o", str(library), "-"]
    subprocess.run([compiler, *words], input=b"int one(void) { return 1; }", check=True)
    for rpath in (["-Wl,-rpath,$ORIGIN/sub"], []):
        main = b"int one(void); int main(void) { return one(); }"
        # -l: the name is in the file, and not the path that the linker was given
        words = ["-x", "c", "-", "-x", "none", f"-L{library.parent}", flag, *rpath, "-o", str(program), "-lone"]
        subprocess.run([compiler, *words], input=main, check=True)
        assert (str(library) in paths(str(program))) == bool(rpath)
        assert str(library) in paths(str(program), LD_LIBRARY_PATH=str(library.parent))


def unattended(*command: str | Path) -> Profile:
    """A profile of a command that has ended before headway looks at it for the first time."""
    with open(os.devnull, "w") as nowhere:
        child = SuspendedChild([str(word) for word in command], nowhere.fileno())
        source = ProfileSource(Selection(command=child.pid, argv=child.command), prefer="bpf")
        try:
            source.begin()
            child.release()
            child.wait()
            source.end()
            return source.profile()
        finally:
            child.give_up()
            source.close()


class TestUnattended:
    """What the programs know before the kernel has told headway of anything."""

    pytestmark = kernel

    @pytest.fixture(autouse=True)
    def cache(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A cache folder of its own."""
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def check(self, found: Counter[tuple[str, ...]], function: str) -> None:
        """Nearly all of the time has whole stacks, some with this function of the program."""
        cut = sum(time for stack, time in found.items() if stack[0].startswith("[not walked"))
        assert sum(found.values()) > 10 * cut, found
        assert any(begins_whole(stack) and "main" in stack and function in stack for stack in found), found

    @pytest.mark.parametrize("flags", [(), ("-static",)], ids=["with libraries", "static"])
    def test_a_file_that_nobody_has_executed_is_walked_from_its_beginning(
        self, build: Build, flags: tuple[str, ...]
    ) -> None:
        found = unattended(build("tree", (*WITHOUT, *flags), f"short{len(flags)}"), "1", "1")
        self.check(user_stacks(found), "often")

    def test_so_are_those_that_a_shell_is_to_execute_and_those_that_a_script_executed_last_time(
        self, build: Build, tmp_path: Path
    ) -> None:
        """The script itself does not say which."""
        program = build("tree", WITHOUT, "in_script")
        script = executable(tmp_path / "script", f"#!/bin/sh\n{program} 1 1\nexit 0\n")
        assert str(program) in expected_by("sh", "-c", f"{program} 1 1; exit 0")
        assert str(program) not in expected_by(str(script))
        profile(script)
        assert str(program) in expected_by(str(script))


def expected_by(*argv: str) -> list[str]:
    """The files whose tables are made before a command is released."""
    with closing(Spaces()) as spaces:
        spaces.expect(os.getpid(), argv)
        return [module.path for module, _, _ in spaces._expected]
