"""Help in sections: a command's own options first, and after them those that it shares with others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

__all__ = ["sectioned"]

_OWN = "Options"


def sectioned(sections: Mapping[str, str]) -> type[click.Command]:
    """Return a class of commands. ``sections``: the title below which the options of these parameters are shown."""

    def title_of(parameter: click.Parameter) -> str:
        return sections.get(parameter.name or "", _OWN)

    titles = [_OWN, *dict.fromkeys(sections.values())]

    class Sectioned(click.Command):
        def __init__(self, *arguments: Any, **values: Any) -> None:
            super().__init__(*arguments, **values)
            self.params.sort(key=lambda parameter: titles.index(title_of(parameter)))

        def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
            found: dict[str, list[tuple[str, str]]] = {title: [] for title in titles}
            for parameter in self.get_params(ctx):
                if (record := parameter.get_help_record(ctx)) is not None:
                    found[title_of(parameter)].append(record)
            for title, records in found.items():
                if records:
                    with formatter.section(title):
                        formatter.write_dl(records)

    return Sectioned
