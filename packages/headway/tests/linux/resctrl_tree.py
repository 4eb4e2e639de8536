"""A copy of the tree of files of resctrl, on disk, with what the kernel does when one of them is written.

The form of the files, and the rules, are those of the kernel's filesystems/resctrl.rst. No hardware is behind it.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from pathlib import Path

__all__ = ["BOTH", "ResctrlTree"]

BOTH = {
    "L3": {"cbm_mask": "fffff", "min_cbm_bits": "1", "num_closids": "8", "shareable_bits": "c0000"},
    "MB": {"bandwidth_gran": "10", "min_bandwidth": "10", "num_closids": "8", "delay_linear": "1"},
}
"""The ``info`` of two sockets with 20 ways of L3 each, the two highest shared with devices, and limits of bandwidth."""


class ResctrlTree:
    """The tree, and the rules."""

    def __init__(self, info: dict[str, dict[str, str]] | None = None, domains: int = 2) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="headway-resctrl-")
        self.root = self._folder.name
        self.info = {name: dict(files) for name, files in (BOTH if info is None else info).items()}
        self.domains = domains
        for resource, files in self.info.items():
            folder = Path(self.root, "info", resource)
            folder.mkdir(parents=True)
            for name, text in files.items():
                (folder / name).write_text(f"{text}\n")
        Path(self.root, "info/last_cmd_status").write_text("ok\n")
        for name in ("mon_groups", "mon_data"):
            Path(self.root, name).mkdir()
        self._new(self.root)

    @property
    def mount(self) -> str:
        """Its line of mountinfo."""
        return f"40 20 0:40 / {self.root} rw,relatime - resctrl resctrl rw\n"

    def state(self) -> dict[str, str]:
        """Every file and its content, but for the word on the last command."""
        return {
            str(path.relative_to(self.root)): path.read_text()
            for path in sorted(Path(self.root).rglob("*"))
            if path.is_file() and path.name != "last_cmd_status"
        }

    def start(self, *tids: int) -> None:
        """Threads begin in the default group."""
        self._assign(self.root, {*self._tasks(self.root), *tids})

    def tasks(self, group: str) -> set[int]:
        return self._tasks(group)

    def limits(self, group: str) -> dict[str, dict[int, int]]:
        found: dict[str, dict[int, int]] = {}
        for line in Path(group, "schemata").read_text().splitlines():
            name, _, rest = line.strip().partition(":")
            parts = (part.split("=") for part in rest.split(";"))
            found[name] = {int(domain): int(value, 10 if name == "MB" else 16) for domain, value in parts}
        return found

    def groups(self) -> list[str]:
        """The groups beside the default one."""
        return sorted(str(p.parent) for p in Path(self.root).glob("*/schemata"))

    # what the kernel does

    def make(self, folder: str) -> None:
        if len(self.groups()) + 1 >= min(int(files["num_closids"]) for files in self.info.values()):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.mkdir(folder)
        self._new(folder)

    def remove(self, folder: str) -> None:
        if not os.path.isdir(folder):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        freed = self._tasks(folder)
        shutil.rmtree(folder)
        self._assign(self.root, self._tasks(self.root) | freed)

    def write(self, file: str, text: str, alive: set[int]) -> None:
        group, name = os.path.split(file)
        if not os.path.isfile(file):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        if name == "tasks":
            tid = int(text)
            if tid not in alive:
                raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
            for other in (self.root, *self.groups()):
                self._assign(other, self._tasks(other) - {tid})
            self._assign(group, self._tasks(group) | {tid})
        elif name == "schemata":
            self._write_schemata(group, text)
        elif name == "mode":
            self._write_mode(group, text.strip())
        else:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    def _write_schemata(self, group: str, text: str) -> None:
        limits = self.limits(group)
        if not text.endswith("\n"):
            self._invalid("no newline")
        for line in text.splitlines():
            name, _, rest = line.partition(":")
            if name not in limits:
                self._invalid(f"Unknown or unsupported resource name '{name}'")
            for part in rest.split(";"):
                domain, _, value = part.partition("=")
                number = int(value, 10 if name == "MB" else 16)
                if int(domain) not in limits[name]:
                    self._invalid(f"Unknown domain {domain}")
                if name == "MB":
                    gran = int(self.info["MB"]["bandwidth_gran"])
                    if not int(self.info["MB"]["min_bandwidth"]) <= number <= 100:
                        self._invalid(f"MB value {number} out of range")
                    number = -(-number // gran) * gran
                else:
                    self._check_mask(group, name, int(domain), number)
                limits[name][int(domain)] = number
        self._write_limits(group, limits)

    def _check_mask(self, group: str, name: str, domain: int, mask: int) -> None:
        info = self.info[name]
        bits = f"{mask:b}".strip("0")
        if not mask or mask & ~int(info["cbm_mask"], 16):
            self._invalid("Mask out of range")
        if "0" in bits:
            self._invalid(f"The mask {mask:x} has non-consecutive 1-bits")
        if len(bits) < int(info["min_cbm_bits"]):
            self._invalid(f"Need at least {info['min_cbm_bits']} bits in the mask")
        for other in (self.root, *self.groups()):
            exclusive = "exclusive" in (self._mode(other), self._mode(group))
            if other != group and exclusive and self.limits(other)[name][domain] & mask:
                self._invalid("Overlaps with exclusive group")

    def _write_mode(self, group: str, mode: str) -> None:
        if mode not in ("shareable", "exclusive"):
            self._invalid("Unknown or unsupported mode")
        if mode == "exclusive":
            for name, domains in self.limits(group).items():
                shared = int(self.info[name].get("shareable_bits", "0"), 16)
                if name != "MB" and any(mask & shared for mask in domains.values()):
                    self._invalid("Schemata overlaps")
                for other in (self.root, *self.groups()):
                    overlaps = any(self.limits(other)[name][d] & mask for d, mask in domains.items())
                    if name != "MB" and other != group and overlaps:
                        self._invalid("Schemata overlaps")
        Path(group, "mode").write_text(f"{mode}\n")

    def _invalid(self, why: str) -> None:
        Path(self.root, "info/last_cmd_status").write_text(f"{why}\n")
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    def _new(self, folder: str) -> None:
        full = {
            name: dict.fromkeys(range(self.domains), 100 if name == "MB" else int(files["cbm_mask"], 16))
            for name, files in self.info.items()
        }
        for other in self.groups():
            if self._mode(other) == "exclusive":
                for name, domains in self.limits(other).items():
                    for domain, mask in domains.items():
                        if name != "MB":
                            full[name][domain] &= ~mask
        for name, text in (("tasks", ""), ("mode", "shareable\n"), ("cpus", "0\n"), ("size", "")):
            Path(folder, name).write_text(text)
        self._write_limits(folder, full)

    def _write_limits(self, group: str, limits: dict[str, dict[int, int]]) -> None:
        text = ""
        for name, domains in limits.items():
            form = "{:3d}" if name == "MB" else "{:05x}"
            text += f"{name:>6}:" + ";".join(f"{d}={form.format(v)}" for d, v in domains.items()) + "\n"
        Path(group, "schemata").write_text(text)

    @staticmethod
    def _mode(group: str) -> str:
        return Path(group, "mode").read_text().strip()

    @staticmethod
    def _tasks(group: str) -> set[int]:
        return set(map(int, Path(group, "tasks").read_text().split()))

    @staticmethod
    def _assign(group: str, tids: set[int]) -> None:
        Path(group, "tasks").write_text("".join(f"{tid}\n" for tid in sorted(tids)))
