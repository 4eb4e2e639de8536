"""JSON Schemas as tables: one for the document, one for each of its definitions that is an object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from headway.views.schemas import schema_of

__all__ = ["JsonSchema", "tables"]


def tables(schema: Mapping[str, Any]) -> str:
    """Return a schema as Markdown: its description and the tables of its fields."""
    definitions = schema.get("$defs", {})
    lines = [schema["description"], "", *_table(schema, definitions)]
    for name, definition in definitions.items():
        if "properties" in definition:
            about = definition.get("description", "")
            lines += ["", f"**{name}**{': ' if about else ''}{about}", "", *_table(definition, definitions)]
    return "\n".join(lines)


def _table(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> list[str]:
    return ["| field | type | meaning |", "|---|---|---|", *_rows("", schema, definitions)]


def _rows(prefix: str, schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Iterator[str]:
    """Yield a row for each field. The fields of an object within follow it, as ``window.start``, ``advice[].text``."""
    required = schema.get("required", ())
    for name, field in schema["properties"].items():
        inner, path = field, f"{prefix}{name}"
        while "items" in inner:
            inner, path = inner["items"], f"{path}[]"
        words = [_cell(field.get("description") or _referred(field, definitions).get("description", ""))]
        if name not in required:
            words.append("Optional.")
        yield f"| `{prefix}{name}` | {_type(field, definitions)} | {' '.join(filter(None, words))} |"
        if "properties" in inner:
            yield from _rows(f"{path}.", inner, definitions)


def _referred(field: Mapping[str, Any], definitions: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the definition that a field refers to; empty if it refers to none."""
    found: Mapping[str, Any] = definitions[field["$ref"].rpartition("/")[2]] if "$ref" in field else {}
    return found


def _type(field: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    """Return the type of a field in words."""
    if "const" in field:
        return f'`"{field["const"]}"`'
    if "enum" in field:
        return ", ".join("null" if value is None else f'`"{value}"`' for value in field["enum"])
    if "$ref" in field:
        referred = _referred(field, definitions)
        return field["$ref"].rpartition("/")[2] if "properties" in referred else _type(referred, definitions)
    names = field.get("type", "object")
    names = [names] if isinstance(names, str) else names
    return " or ".join(_named(name, field, definitions) for name in names)


def _named(name: str, field: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    if name == "array" and "items" in field:
        return f"array of {_type(field['items'], definitions)}"
    values = field.get("additionalProperties")
    if name == "object" and isinstance(values, Mapping):
        return f"object of {_type(values, definitions)}"
    return name


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


class JsonSchema(SphinxDirective):
    """``{json-schema} NAME``: the tables of the schema that ``headway schema NAME`` prints."""

    required_arguments: ClassVar[int] = 1

    def run(self) -> list[nodes.Node]:
        """Return the tables' nodes."""
        return self.parse_text_to_nodes(tables(schema_of(self.arguments[0])))
