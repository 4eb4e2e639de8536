"""The Sphinx extension of the documentation (docs/conf.py): what it makes of the code, and where its links lead."""

from __future__ import annotations

from typing import Any

from sphinx.application import Sphinx

from . import commands, docstrings, links, schemas

__all__ = ["setup"]


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directives and the event handlers."""
    app.add_directive("command-page", commands.CommandPage)
    app.add_directive("json-schema", schemas.JsonSchema)
    app.connect("autodoc-process-docstring", docstrings.attribute_read, priority=docstrings.BEFORE_NAPOLEON)
    app.connect("env-before-read-docs", links.pages_found)
    app.connect("source-read", links.page_read)
    app.connect("include-read", links.file_included)
    app.connect("doctree-resolved", links.links_resolved)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
