"""Explain why the kernel refuses the eBPF programs: who refused what, and what to do about it.

A refusal of bpf(2) is an errno and libbpf's output. Its meaning depends on the rights of this process, on the kernel's
lockdown (kernel_lockdown(7)), on the limit of open files, or on the verifier, which gives its reason in its log.
"""

from __future__ import annotations

import errno
import os
import re
import resource
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

from headway.linux import privileges
from headway.linux.procfs import processors
from headway.linux.procfs.ids import in_user_namespace

from .libbpf import BpfError
from .unavailable import UnavailableError

__all__ = ["RefusedError", "explain", "missing_privileges", "too_many_files"]

LOCKDOWN = Path("/sys/kernel/security/lockdown")

_LOG_BEGINS, _LOG_ENDS = "-- BEGIN PROG LOAD LOG --", "-- END PROG LOAD LOG --"
_LONGEST = 200
"""Characters of the kernel's words in a sentence at most."""


class RefusedError(UnavailableError):
    """The kernel's verifier refuses a program; ``program`` is its name, ``reason`` the verifier's last words."""

    def __init__(self, program: str, reason: str) -> None:
        super().__init__(
            f"the verifier of Linux {os.uname().release} refuses headway's eBPF program {program} ({reason})",
            "report what sudo headway doctor shows",
        )
        self.program, self.reason = program, reason

    def __reduce__(self) -> tuple[type[RefusedError], tuple[str, str]]:
        return type(self), (self.program, self.reason)


def explain(error: BpfError) -> UnavailableError:
    """Return why loading failed, and what to do."""
    verified = _LOG_BEGINS in error.log
    if error.number in (errno.EMFILE, errno.ENFILE) or "Too many open files" in error.log:
        return too_many_files()
    if "wasn't created" in error.log and resource.getrlimit(resource.RLIMIT_NOFILE)[0] < _files():
        return too_many_files()  # libbpf took it for a kernel without the kind of map that it could not open
    if error.number in (errno.EPERM, errno.EACCES) and not verified:
        return _not_permitted()
    words = [line.strip() for line in error.log.splitlines() if line.strip()]
    program = next((found[1] for line in words if (found := re.search(r"prog '(\w+)'", line))), None)
    failed = next((line for line in words if "failed" in line), str(error))
    if program is None:
        said = _short(failed.removeprefix("libbpf: "))
        if error.number == errno.ENOMEM:
            return UnavailableError(f"eBPF needs more memory than there is ({said})", "free some, or raise its limit")
        return UnavailableError(
            f"Linux {os.uname().release} refuses headway's eBPF programs ({said})", "sudo headway doctor says more"
        )
    return RefusedError(program, _short((verified and _last_words(words)) or failed.rpartition("failed: ")[2]))


def missing_privileges() -> UnavailableError:
    """Return what to say where this process lacks a capability (capabilities(7)) that loading needs."""
    named = {"CAP_BPF": privileges.LinuxCapability.BPF, "CAP_PERFMON": privileges.LinuxCapability.PERFMON}
    lacking = [name for name, one in named.items() if one not in privileges.effective()]
    words = lacking[0] if len(lacking) == 1 else "both"
    return UnavailableError(
        f"eBPF needs CAP_BPF and CAP_PERFMON, and this process lacks {words}",
        "run as root (sudo headway ...; headway doctor shows other ways)",
    )


def too_many_files() -> UnavailableError:
    """Return what to say where no more files can be opened."""
    return UnavailableError(
        f"eBPF needs about {_files()} open files, more than are allowed", "raise the limit (ulimit -n)"
    )


def _files() -> int:
    """Return about how many files are open while the programs are attached."""
    return 100 + 2 * len(processors.online())


def _not_permitted() -> UnavailableError:
    """Return who does not permit bpf(2)."""
    lockdown = ""
    with suppress(OSError):
        lockdown = LOCKDOWN.read_text()
    if "[confidentiality]" in lockdown:
        return UnavailableError(
            "the kernel is locked down (confidentiality), which forbids eBPF to read its memory",
            "boot with lockdown=integrity",
        )
    if in_user_namespace():
        return UnavailableError(
            "eBPF needs capabilities outside this user namespace",
            "run headway as root of the machine (a rootless container as root)",
        )
    if privileges.allow_bpf(privileges.effective()):
        return UnavailableError(
            "bpf(2) is not permitted, in spite of CAP_BPF and CAP_PERFMON: a seccomp filter or a security module "
            "refuses it",
            "allow that call (docker run --security-opt seccomp=unconfined ...)",
        )
    return missing_privileges()


def _last_words(words: list[str]) -> str:
    """Return the verifier's reason: its last words before its statistics, or before its log ends."""
    for line, after in pairwise(words):
        if after.startswith("processed ") or after.endswith(_LOG_ENDS):
            return "" if line.endswith(_LOG_BEGINS) else line
    return words[-1]


def _short(words: str) -> str:
    text = ascii(words)[1:-1].replace("\\'", "'")
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
