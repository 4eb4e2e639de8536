"""Compression of bytes for the page. Every browser can undo it (DecompressionStream)."""

from __future__ import annotations

import zlib

__all__ = ["deflate"]


def deflate(data: bytes) -> bytes:
    """Return the data in raw deflate (RFC 1951)."""
    packer = zlib.compressobj(6, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush()
