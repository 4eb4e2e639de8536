"""The folder that is kept between runs: programs, downloads and what has been built from them."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from pathlib import Path

from .errors import ToolError, run

__all__ = ["Workshop"]

REQUIREMENTS = Path(__file__).with_name("requirements.txt")


class Workshop:
    """The folder; ``HEADWAY_BUILD_CACHE`` says where, else it is ``headway-build`` in the user's cache folder."""

    def __init__(self) -> None:
        caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        self.path = Path(os.environ.get("HEADWAY_BUILD_CACHE") or Path(caches) / "headway-build").absolute()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ToolError(
                f"downloads cannot be kept in {self.path} ({error.strerror}): set HEADWAY_BUILD_CACHE to a folder "
                "that you can write to"
            ) from None

    @property
    def programs(self) -> Path:
        """The folder of the programs that `install` installs."""
        return self.path / "programs" / "bin"

    @property
    def python(self) -> Path:
        """A Python that has the packages of requirements.txt."""
        return self.programs / "python"

    @property
    def zig(self) -> Path:
        """The zig compiler itself."""
        where = "import ziglang, pathlib; print(pathlib.Path(ziglang.__file__).with_name('zig'))"
        return Path(run([self.python, "-c", where], "looking for the zig compiler").strip())

    @property
    def environment(self) -> dict[str, str]:
        """The environment to run the programs in. zig keeps the parts of glibc that it compiled in the folder too."""
        kept = str(self.path / "zig")
        path = f"{self.programs}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        return {**os.environ, "PATH": path, "ZIG_GLOBAL_CACHE_DIR": kept, "ZIG_LOCAL_CACHE_DIR": kept}

    def install(self) -> None:
        """Install the packages of requirements.txt, if that has not been done. Raises ToolError without network."""
        wanted = hashlib.sha256(REQUIREMENTS.read_bytes() + sys.version.encode()).hexdigest()
        stamp = self.path / "programs" / "installed"
        if stamp.is_file() and stamp.read_text() == wanted:
            return
        shutil.rmtree(self.path / "programs", ignore_errors=True)
        run([sys.executable, "-m", "venv", self.path / "programs"], "making a virtual environment for the build")
        pip = [str(self.python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        try:
            run([*pip, "-r", str(REQUIREMENTS)], "installing the programs of the build")
        except ToolError as error:
            raise ToolError(
                f"the programs that build wheels cannot be installed from PyPI into {self.path / 'programs'}: "
                f"connect this machine to the network for the first run\n{error}"
            ) from None
        stamp.write_text(wanted)
