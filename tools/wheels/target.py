"""The targets of the wheels: processor architectures, and the oldest C library."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["PYTHON", "TARGETS", "Target"]

PYTHON = (3, 11)
"""The oldest Python that the wheels are for, and the version of the limited API that they keep to."""

GLIBC = (2, 17)
"""The oldest glibc that the wheels are for (December 2012, RHEL 7): what the manylinux2014 tag promises."""


def _words(words: Sequence[str]) -> str:
    """Return an array of strings in the syntax of meson's machine files."""
    escaped = [word.replace("\\", "\\\\").replace("'", "\\'") for word in words]
    return "[" + ", ".join(f"'{word}'" for word in escaped) + "]"


@dataclass(frozen=True, slots=True)
class Target:
    """An architecture, by the names that the programs in this build have for it."""

    machine: str
    """As in ``uname -m``; zig, meson and wheel tags use it too."""
    debian: str
    """As in the names of Debian's packages."""
    compat: str | None = None
    """The triplet of 32-bit programs that its kernels run, where its own headers lack their system calls."""

    @property
    def triplet(self) -> str:
        """The GNU triplet, as in the paths of Debian's files."""
        return f"{self.machine}-linux-gnu"

    @property
    def platform(self) -> str:
        """The platform tag that a wheel gets (PEP 600)."""
        return f"manylinux_{GLIBC[0]}_{GLIBC[1]}_{self.machine}"

    def write_cross_file(
        self, path: Path, zig: Path, include: Path | None = None, compiler: Sequence[str] = ()
    ) -> None:
        """Describe the target to meson.

        ``include``: a folder of headers that every compilation gets. ``compiler``: the words of another than zig's.
        """
        arguments = ["-g0", *([] if include is None else [f"-I{include}"])]
        glibc = f"{GLIBC[0]}.{GLIBC[1]}"
        words = list(compiler) or [str(zig), "cc", "-target", f"{self.triplet}.{glibc}"]
        compat = [str(zig), "cc", "-target", f"{self.compat}.{glibc}"] if self.compat else []
        path.write_text(
            f"[binaries]\nc = {_words(words)}\nar = {_words([str(zig), 'ar'])}\n"
            f"[built-in options]\nc_args = {_words(arguments)}\nc_link_args = {_words(['-Wl,--strip-debug'])}\n"
            f"[host_machine]\nsystem = 'linux'\nendian = 'little'\n"
            f"cpu_family = '{self.machine}'\ncpu = '{self.machine}'\n"
            f"[properties]\nneeds_exe_wrapper = true\ncompat_c = {_words(compat)}\n"
        )

    def write_python(self, path: Path, headers: Path) -> None:
        """Describe the target's Python to meson (PEP 739), so that nothing is taken from the Python that builds."""
        version = ".".join(map(str, PYTHON))
        details = {
            "schema_version": "1.0",
            "base_prefix": "/usr",
            "platform": f"linux-{self.machine}",
            "language": {"version": version},
            "implementation": {"name": "cpython"},
            "abi": {
                "flags": [],
                "extension_suffix": f".cpython-{PYTHON[0]}{PYTHON[1]}-{self.triplet}.so",
                "stable_abi_suffix": ".abi3.so",
            },
            "libpython": {"link_extensions": False},
            "c_api": {"headers": str(headers)},
        }
        path.write_text(json.dumps(details, indent=2))


TARGETS = {
    target.machine: target
    for target in (Target("x86_64", "amd64"), Target("aarch64", "arm64", compat="arm-linux-gnueabi"))
}
"""The targets by machine."""
