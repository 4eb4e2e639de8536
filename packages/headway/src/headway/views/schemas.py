"""The JSON Schemas (draft 2020-12) of the commands' output. Each is in a file beside this one with its name."""

from __future__ import annotations

import json
from typing import Any

from headway.files import packaged

__all__ = ["NAMES", "schema_of"]

NAMES = ("stat", "cpu", "profile", "diff", "compare", "critical-path", "what-if", "balance")


def schema_of(name: str) -> dict[str, Any]:
    """Return the schema of one of `NAMES`."""
    found: dict[str, Any] = json.loads(packaged(__package__, f"{name}.schema.json"))
    return found
