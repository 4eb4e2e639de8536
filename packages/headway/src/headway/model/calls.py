"""System calls by what they do with files. Sources: Linux's man-pages, section 2."""

from __future__ import annotations

__all__ = ["CALLS_THAT_FORCE", "CALLS_THAT_READ", "CALLS_THAT_WRITE"]

CALLS_THAT_FORCE = frozenset({"fsync", "fdatasync", "sync", "syncfs", "sync_file_range", "msync"})
"""They do nothing but force what was written to the disk."""
CALLS_THAT_READ = frozenset(
    {"read", "readv", "pread64", "preadv", "preadv2", "getdents64", "sendfile", "splice", "copy_file_range"}
)
CALLS_THAT_WRITE = frozenset({"write", "writev", "pwrite64", "pwritev", "pwritev2"})
