"""The table of losses, from headway's own."""

from __future__ import annotations

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from headway.model import KNOWN_LOSSES

__all__ = ["Losses", "table"]


def table() -> str:
    """Return the losses as a Markdown table, by name."""
    rows = (
        f"| `{loss.name}` | {loss.unit or 'count'} | {loss.what} |"
        for loss in sorted(KNOWN_LOSSES.values(), key=lambda one: one.name)
    )
    return "\n".join(["| name | unit | what |", "|---|---|---|", *rows])


class Losses(SphinxDirective):
    """``{losses}``: the table."""

    def run(self) -> list[nodes.Node]:
        """Return the table's nodes."""
        return self.parse_text_to_nodes(table())
