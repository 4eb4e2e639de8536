"""The type information of the running kernel (BTF, Documentation/bpf/btf.rst)."""

from __future__ import annotations

import mmap
import os
import struct
from pathlib import Path

from .unavailable import UnavailableError

__all__ = ["KernelTypes", "has_name", "types_of_kernel"]

BTF = Path("/sys/kernel/btf/vmlinux")

KernelTypes = bytes | mmap.mmap
"""What only those parts are read of that somebody looks at, where the kernel lets it be mapped (since 6.16)."""
_MAGIC = 0xEB9F
_HEAD = struct.Struct("=HBBIIIII")
"""struct btf_header: magic number, version, flags, its length, then where types and strings begin, each with a size."""


def types_of_kernel() -> KernelTypes:
    """Return the kernel's type information. Raises UnavailableError where there is none."""
    try:
        with open(BTF, "rb") as file:
            try:
                return mmap.mmap(file.fileno(), os.fstat(file.fileno()).st_size, mmap.MAP_PRIVATE, mmap.PROT_READ)
            except (OSError, ValueError):
                return file.read()
    except OSError:
        raise UnavailableError(
            f"this kernel has no type information ({BTF}), which eBPF needs",
            "take a kernel that was built with CONFIG_DEBUG_INFO_BTF",
        ) from None


def has_name(types: KernelTypes, name: str) -> bool:
    """Return whether something in the type information has this name. Only the strings, at its end, are looked at."""
    head = _HEAD.unpack_from(types) if len(types) >= _HEAD.size else (0,)
    begin = head[3] + head[6] if head[0] == _MAGIC else 0
    return types.find(b"\0" + name.encode() + b"\0", begin) >= 0
