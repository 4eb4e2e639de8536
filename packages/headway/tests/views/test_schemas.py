from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner

from headway.commands import schema
from headway.model import Kind, Quality
from headway.views.schemas import NAMES, schema_of


def objects(found: Any) -> Iterator[dict[str, Any]]:
    """Every schema of an object with named fields in a schema."""
    if isinstance(found, dict):
        if "properties" in found and isinstance(found.get("type"), str):
            yield found
        for inner in found.values():
            yield from objects(inner)
    elif isinstance(found, list):
        for inner in found:
            yield from objects(inner)


@pytest.mark.parametrize("name", NAMES)
def test_each_is_a_schema_under_its_name_and_is_printed(name: str) -> None:
    found = schema_of(name)
    jsonschema.Draft202012Validator.check_schema(found)
    assert found["title"] == found["properties"]["schema"]["const"] == f"headway.{name}/1"
    assert json.loads(CliRunner().invoke(schema.command, [name]).output) == found


@pytest.mark.parametrize("name", NAMES)
def test_every_object_is_closed(name: str) -> None:
    for found in objects(schema_of(name)):
        assert found["additionalProperties"] is False
        assert set(found["required"]) <= set(found["properties"])


@pytest.mark.parametrize("name", ["profile", "diff"])
def test_schemas_have_the_models_kinds_and_qualities(name: str) -> None:
    found = schema_of(name)["$defs"]
    kind = found["kind"] if name == "diff" else found["state"]["properties"]["kind"]
    assert kind["enum"] == [kind.value for kind in Kind]
    if name == "profile":
        assert found["state"]["properties"]["quality"]["enum"] == [quality.value for quality in Quality]


def test_another_name_is_refused() -> None:
    assert CliRunner().invoke(schema.command, ["trace"]).exit_code == 2
