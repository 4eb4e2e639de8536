"""The documentation as a site (``make docs``): what is made of the code is complete, and Sphinx warns of nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

pytest.importorskip("sphinx", reason="the dependency group docs is not installed")

from tools.site.commands import command_named, page_of
from tools.site.links import relinked
from tools.site.schemas import tables

from headway.commands import group
from headway.views.schemas import NAMES, schema_of

pytestmark = pytest.mark.end_to_end

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
COMMANDS = group.list_commands(click.Context(group))


@pytest.mark.exhaustive
def test_sphinx_makes_the_site_without_a_warning(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "dummy", DOCS, tmp_path],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert (done.stderr, done.returncode) == ("", 0)


def test_every_command_has_a_page() -> None:
    pages = {page.stem for page in (DOCS / "reference").glob("headway*.rst")}
    assert pages == {"headway", *(f"headway-{name}" for name in COMMANDS)}
    listed = (DOCS / "reference/commands.md").read_text(encoding="utf-8").splitlines()
    assert pages <= {*listed}


def _commands(context: click.Context) -> Iterator[click.Command]:
    yield context.command
    if isinstance(context.command, click.Group):
        for name in context.command.list_commands(context):
            command = context.command.get_command(context, name)
            assert command is not None
            yield command


@pytest.mark.parametrize("name", COMMANDS)
def test_the_page_of_a_command_has_all_its_options(name: str) -> None:
    context = command_named(name)
    page = page_of(context)
    for command in _commands(context):
        options = [one for one in command.params if isinstance(one, click.Option) and not one.hidden]
        assert [one.opts for one in options if f".. option:: {', '.join(one.opts)}" not in page] == []


def _fields(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        yield from schema.get("properties", {})
        for inner in schema.values():
            yield from _fields(inner)


@pytest.mark.parametrize("name", NAMES)
def test_the_tables_of_a_schema_have_all_its_fields(name: str) -> None:
    schema = schema_of(name)
    rows = {line.split("`")[1] for line in tables(schema).splitlines() if line.startswith("| `")}
    last_words = {row.rpartition(".")[2] for row in rows}
    assert {*_fields(schema)} <= last_words


@pytest.mark.parametrize(
    ("folder", "link", "place"),
    [
        (DOCS / "headway", "model.md#laws", "/headway/model.md#laws"),
        (ROOT, "packages/headway/docs/model.md", "/headway/model.md"),
        (ROOT, "SECURITY.md", "/project/security.md"),
        (DOCS, "../README.md#install", "/index.md#install"),
        (DOCS, "../packages/headway/src/headway/errors.py", "/../packages/headway/src/headway/errors.py"),
        (DOCS, "https://example.org/a", "https://example.org/a"),
        (DOCS, "#laws", "#laws"),
    ],
)
def test_a_link_between_files_becomes_one_within_the_site(folder: Path, link: str, place: str) -> None:
    assert relinked(f"see [this]({link}).", folder) == f"see [this]({place})."


def test_a_link_to_a_folder_becomes_its_words() -> None:
    assert relinked("in [`examples`](../examples) and ![a](pictures/html.png)", DOCS / "headway") == (
        "in `examples` and ![a](/headway/pictures/html.png)"
    )
