"""The JSON Schemas (draft 2020-12) of what commands print, each in the file beside this one that is named after it."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

__all__ = ["NAMES", "schema_of"]

NAMES = ("stat", "cpu", "profile", "diff")


def schema_of(name: str) -> dict[str, Any]:
    """The schema of one of `NAMES`."""
    found: dict[str, Any] = json.loads(files(__package__).joinpath(f"{name}.schema.json").read_text(encoding="utf-8"))
    return found
