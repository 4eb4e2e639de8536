"""The files in deploy/, as those who use them read them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from headway.commands.serve import command

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "deploy" / "systemd" / "headway-serve.service"
CONTAINERFILE = ROOT / "deploy" / "container" / "Containerfile"
DAEMONSET = ROOT / "deploy" / "kubernetes" / "daemonset.yaml"


def unit_settings(text: str) -> dict[str, list[str]]:
    """The settings of a unit by ``SECTION.NAME``, each with its values in order (systemd.syntax(7))."""
    found: dict[str, list[str]] = {}
    section = ""
    for line in text.splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line and not line.startswith(("#", ";")):
            name, equals, value = line.partition("=")
            assert equals, line
            found.setdefault(f"{section}.{name}", []).append(value)
    return found


def unit_words(settings: dict[str, list[str]], name: str) -> list[str]:
    """The words of a setting that stands once."""
    (value,) = settings[name]
    return shlex.split(value)


def serve_options(words: Sequence[str]) -> dict[str, Any]:
    """What ``headway serve`` makes of these words. Raises click.ClickException where it would refuse them."""
    assert words[0] == "serve"
    with click.Context(command, info_name="serve") as context:
        command.parse_args(context, list(words[1:]))
        return dict(context.params)
