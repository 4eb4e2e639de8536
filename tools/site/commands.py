"""The pages of the commands, of which the man pages are made too, from click's help texts."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import click
from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from headway.commands import group

__all__ = ["CommandPage", "command_named", "page_of"]

_MARKUP = re.compile(r"([\\*`|_])")
DOCS = Path(__file__).parents[2] / "docs"
_PAGE = re.compile(r"\bdocs/([\w-]+)\.md")


def command_named(name: str) -> click.Context:
    """Return ``headway``, or its subcommand of this name, in the context in which its usage is right."""
    context = _context(group, "headway")
    if name == "headway":
        return context
    command = group.get_command(context, name)
    if command is None:
        raise ValueError(f"there is no command headway {name}")
    return _context(command, name, context)


def page_of(context: click.Context) -> str:
    """Return the page of a command as reStructuredText: synopsis, description, options, commands, examples."""
    return "\n".join(_page(context, "=-"))


def _page(context: click.Context, underlines: str) -> Iterator[str]:
    """Yield the lines; ``underlines`` marks the heading of the page and those of its sections."""
    command = context.command
    examples, description = _help(command)
    yield from _heading(context.command_path, underlines[0])
    yield from _section("Synopsis", underlines[1], _literal([_usage(context)]))
    yield from _section("Description", underlines[1], description)
    yield from _section("Options", underlines[1], _options(context))
    inner = _subcommands(context)
    within = context.parent is not None
    if not within:
        yield from _section("Commands", underlines[1], _list_of(inner))
    yield from _section("Examples", underlines[1], examples)
    if within:
        for one in inner:
            yield from _page(one, "-~")
    if underlines[0] == "=":
        others = inner if not within else [command_named("headway")]
        names = (f":manpage:`{one.command_path.replace(' ', '-')}(1)`" for one in others)
        yield from _section("See also", underlines[1], [", ".join(names), ""])


def _heading(text: str, underline: str) -> list[str]:
    return [text, underline * len(text), ""]


def _section(title: str, underline: str, lines: list[str]) -> list[str]:
    return [*_heading(title, underline), *lines] if lines else []


def _literal(lines: list[str]) -> list[str]:
    return [".. code-block:: text", "", *(f"   {line}" for line in lines), ""]


def _usage(context: click.Context) -> str:
    return " ".join([context.command_path, *context.command.collect_usage_pieces(context)])


def _help(command: click.Command) -> tuple[list[str], list[str]]:
    """Return the examples of a command's help, which are the paragraphs that click leaves alone, and the rest."""
    examples: list[str] = []
    description: list[str] = []
    for paragraph in re.split(r"\n{2,}", inspect.cleandoc(command.help or "")):
        first, _, rest = paragraph.partition("\n")
        if first == "\b":
            examples += _literal(rest.splitlines())
        else:
            description += [_text(paragraph), ""]
    return examples, description


def _options(context: click.Context) -> list[str]:
    """Return the options, each with what it takes, its help, its choices and its default."""
    lines = [f".. program:: {context.command_path}", ""]
    for option in context.command.get_params(context):
        if not isinstance(option, click.Option) or option.hidden:
            continue
        takes = "" if option.is_flag or option.count else " " + option.make_metavar(context)
        lines += [f".. option:: {', '.join([*option.opts, *option.secondary_opts])}{takes}", ""]
        words = [_text(option.help or "")]
        if option.show_default and option.default is not None:
            words.append(f"Default: {_text(str(option.default))}.")
        lines += [f"   {' '.join(words)}", ""]
    return lines


def _subcommands(context: click.Context) -> list[click.Context]:
    group = context.command
    if not isinstance(group, click.Group):
        return []
    commands = ((name, group.get_command(context, name)) for name in group.list_commands(context))
    return [_context(command, name, context) for name, command in commands if command is not None]


def _context(command: click.Command, name: str, parent: click.Context | None = None) -> click.Context:
    return click.Context(command, info_name=name, parent=parent, **command.context_settings)


def _list_of(commands: list[click.Context]) -> list[str]:
    """Return the commands, each a link to its page, with a line about it."""
    lines = []
    for one in commands:
        lines += [f":doc:`{one.info_name} <headway-{one.info_name}>`", f"   {_text(one.command.short_help or '')}", ""]
    return lines


def _text(words: str) -> str:
    """Return words in which nothing is markup but the names of pages, which are links."""
    return _PAGE.sub(_page_link, _MARKUP.sub(r"\\\1", words))


def _page_link(match: re.Match[str]) -> str:
    (folder,) = (one.parent.name for one in DOCS.glob(f"*/{match[1]}.md"))
    return f":doc:`docs/{match[1]}.md </{folder}/{match[1]}>`"


class CommandPage(SphinxDirective):
    """``.. command-page:: NAME``: the whole page of ``headway``, or of its subcommand NAME."""

    required_arguments: ClassVar[int] = 1

    def run(self) -> list[nodes.Node]:
        """Return the page's nodes."""
        return self.parse_text_to_nodes(page_of(command_named(self.arguments[0])), allow_section_headings=True)
