"""Each source distribution is built alone: it needs no file of the repository, and none of the other ones."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from tools.environment import CLANG, PACKAGES, ROOT, TOOLS

DISTRIBUTIONS = sorted(path.name for path in PACKAGES.iterdir())
BUILD = "import mesonpy, sys; print(getattr(mesonpy, sys.argv[1])(sys.argv[2]))"


def build(hook: str, folder: Path, output: Path) -> Path:
    """Have meson-python build a folder, without an environment of its own. Return what it made."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(TOOLS),
        "PATH": os.pathsep.join([str(CLANG), str(TOOLS / "bin"), os.environ["PATH"]]),
    }
    output.mkdir()
    command = [sys.executable, "-c", BUILD, hook, str(output)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return output / done.stdout.splitlines()[-1]


def test_a_package_has_links_to_what_the_packages_share() -> None:
    links = {
        path.name: path.resolve() for name in DISTRIBUTIONS for path in (PACKAGES / name).iterdir() if path.is_symlink()
    }
    assert links == {name: ROOT / name for name in ("LICENSE", "specification", "tools")}


@pytest.mark.exhaustive
@pytest.mark.timeout(900)
@pytest.mark.end_to_end
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_a_source_distribution_is_built_alone(name: str, tmp_path: Path) -> None:
    if not (TOOLS / "complete").exists() or not (ROOT / ".git").exists() or not shutil.which("git"):
        pytest.skip("needs git, a clone, and what make test builds with")
    archive = build("build_sdist", PACKAGES / name, tmp_path / "sdist")
    with tarfile.open(archive) as packed:
        assert not [member.name for member in packed if member.issym() or member.islnk()]
        packed.extractall(tmp_path / "alone", filter="data")
    (source,) = (tmp_path / "alone").iterdir()
    wheel = build("build_wheel", source, tmp_path / "wheel")
    files = {path for path in zipfile.ZipFile(wheel).namelist() if not path.endswith("/")}
    module = name.replace("-", "_")
    python = {str(path.relative_to(source / "src")) for path in (source / "src").rglob("*.py")}
    assert python <= files
    assert any(path.endswith(".so") for path in files)
    assert {path.partition("/")[0].partition("-")[0] for path in files} == {module}
