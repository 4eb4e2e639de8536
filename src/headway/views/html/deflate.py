"""How bytes are compressed for the page, which undoes it with what every browser has (DecompressionStream)."""

from __future__ import annotations

import zlib

__all__ = ["deflate"]


def deflate(data: bytes) -> bytes:
    """Raw deflate (RFC 1951)."""
    packer = zlib.compressobj(6, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush()
