"""What a measurement can lose: each loss by its name in a ledger, with its unit and what it counts (losses.toml)."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

__all__ = ["Loss", "losses"]


@dataclass(frozen=True, slots=True)
class Loss:
    """One kind of loss."""

    name: str
    """Its key in `Ledger.losses`."""
    what: str
    """What is counted, in words."""
    unit: str = ""
    """``ns`` for a time; empty for a count."""
    constant: str = ""
    """The name under which the eBPF programs count it (linux/bpf/layout.h); empty: they do not."""


@cache
def losses() -> Mapping[str, Loss]:
    """Every loss that headway knows, by name."""
    found = tomllib.loads(files(__package__).joinpath("losses.toml").read_text(encoding="utf-8"))
    return {name: Loss(name, **entry) for name, entry in found.items()}
