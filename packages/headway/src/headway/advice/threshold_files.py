"""Thresholds from TOML files: the defaults that come with headway, the user's own, those of one invocation.

The later ones count where they say something. A file that says what is not understood is refused as a whole: a
misspelt threshold that silently stays at its default would be worse than none.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from headway.errors import HeadwayError
from headway.files import open_regular, packaged

from .thresholds import Thresholds

__all__ = ["defaults_text", "load_thresholds"]

_LARGEST = 64 << 10
"""Bytes of a file at most."""


def defaults_text() -> str:
    """The file with the defaults, those of `Thresholds`, and what each value means."""
    return packaged(__package__, "thresholds.toml").decode()


def load_thresholds(file: str | None = None) -> Thresholds:
    """The thresholds that are in force; ``file``: those that come last, and must be there.

    Raises HeadwayError, one sentence with the file, the key and what is allowed.
    """
    values: dict[str, Any] = {}
    for where, text in _texts(file):
        values.update(_checked(where, text))
    return Thresholds(**values)


def _texts(file: str | None) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each file of the user's."""
    folder = os.environ.get("XDG_CONFIG_HOME", "")
    try:
        own = (Path(folder) if os.path.isabs(folder) else Path.home() / ".config") / "headway/thresholds.toml"
    except RuntimeError:  # a user without a home
        own = None
    if own is not None and os.path.exists(own):  # False too where $HOME is another user's, who lets nobody in
        yield str(own), _read(str(own))
    if file is not None:
        yield file, _read(file)


def _read(file: str) -> str:
    try:
        with open_regular(file) as stream:
            raw = stream.read(_LARGEST + 1)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise HeadwayError(f"{file!a} cannot be read ({why}): give a file with thresholds (TOML)") from None
    if len(raw) > _LARGEST:
        raise HeadwayError(f"{file} has more than {_LARGEST >> 10} KiB: that is no file with thresholds")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise HeadwayError(f"{file} is no text in UTF-8 (byte {error.start}): thresholds are TOML") from None


def _checked(file: str, text: str) -> Mapping[str, Any]:
    import tomllib  # few users have a file

    try:
        found = tomllib.loads(text)
    except RecursionError:
        raise HeadwayError(f"{file} is nested too deeply: thresholds are plain lines of name = value") from None
    except ValueError as error:
        raise HeadwayError(f"{file} is no TOML: {error}") from None
    known = [value.name for value in fields(Thresholds)]
    for name, value in found.items():
        if name not in known:
            raise HeadwayError(f"{file}: there is no threshold {_short(name)}; there are {', '.join(known)}")
        try:
            Thresholds(**{name: value})
        except ValueError as error:
            raise HeadwayError(f"{file}: {error}") from None
    return found


def _short(name: str) -> str:
    text = ascii(name)
    return text if len(text) <= 40 else f"{text[:39]}…"
