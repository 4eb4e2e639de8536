"""No name stands in the documents that the code does not have: options, subcommands, variables, Python, files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import click
import pytest

from headway.commands import group

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("docs/[pr]*/*.md")])
PAGES += sorted(
    page for kind in ("*.md", "docs/*.md", "examples/**/README.md") for page in ROOT.glob(f"packages/*/{kind}")
)
PAGES = [page for page in PAGES if page.name != "CHANGELOG.md"]  # may name what has gone
_FENCE = re.compile(r"^(```+)(\w*)[^\n]*\n(.*?)^\1$", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`([^`\n]+)`")
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
_CALL = re.compile(r"(?:^|^\$ |\bsudo |\()headway ([a-z].*)$")
_VARIABLE = re.compile(r"\bHEADWAY_[A-Z][A-Z_]*[A-Z]\b")
_DOTTED = re.compile(r"(?<![\w-])headway(?:_trace|_machine)?(?:\.\w+)+")
_FILE = re.compile(r"(?<![\w/.-])(?:packages|specification|src|tests|benchmarks|tools|examples|deploy)/[\w./-]+\.\w+")
SOURCES = {path.name: path.parent for path in ROOT.glob("packages/*/src/headway*")}
"""By the name of a Python package, the folder that it is in."""
_FOREIGN = {
    "perf": {"--buildid-mmap", "--filter", "--kcore", "--no-switch-events", "--aux-sample", "--switch-events"},
    "docker, podman": {"--build-arg", "--cap-add", "--cap-drop", "--network", "--read-only", "--security-opt"},
    "kubectl, systemctl, env": {"--from-literal", "--now", "--ignore-signal"},
    "pip, meson, linkers": {"--config-settings", "--defsym", "--nmagic"},
    "pytest": {"--junit-xml", "--lf", "--tx"},
    "Node.js": {"--perf-basic-prof"},
}
"""Options in the documents that are of other programs."""
_SCRIPTS = [
    *(ROOT / name for name in ("benchmarks", "tools", "tests/kernels")),
    *(ROOT / "packages" / name for name in ("headway/src/headway/testing", "headway-machine/tests/rtl")),
]
"""Where options of other programs than the command line of headway are."""


def _code(page: Path) -> Iterator[str]:
    """Return the lines of a page's blocks of code, and its spans of code."""
    text = page.read_text(encoding="utf-8")
    for block in _FENCE.finditer(text):
        yield from block[3].splitlines()
    yield from _SPAN.findall(_FENCE.sub("", text))


@lru_cache(None)
def _sources() -> str:
    """Return all text in which a name of the product can be: sources, tools, benchmarks, builds, deployment."""
    own = ("tools", "benchmarks", "tests", "deploy")
    folders = [*(ROOT / name for name in own), *ROOT.glob("packages/*/src"), *ROOT.glob("packages/*/tests")]
    folders += ROOT.glob("packages/*/examples")
    kinds = {".py", ".pyx", ".pxd", ".c", ".h", ".toml", ".yaml", ".service", ".build", ".ts"}
    files = [path for folder in folders for path in folder.rglob("*") if path.suffix in kinds]
    files += [ROOT / "Makefile", ROOT / "conftest.py", *ROOT.glob("packages/*/meson.*")]
    files += [ROOT / "deploy/container/Containerfile"]
    ours = Path(__file__)
    return "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in files if path != ours)


def _command(words: list[str]) -> tuple[click.Command, list[str]]:
    """Return the command that words name, and the words after its name; a word that names none ends it."""
    command: click.Command = group
    context = click.Context(group)
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        inner = command.get_command(context, words[0])
        if inner is None:
            raise LookupError(words[0])
        command, words = inner, words[1:]
        context = click.Context(command, parent=context)
    return command, words


def _options_of(command: click.Command) -> set[str]:
    return {"--help", *(name for one in command.params for name in (*one.opts, *one.secondary_opts))}


@lru_cache(None)
def _own_options() -> set[str]:
    """Return the options of all commands, and those that scripts, benchmarks and the plugin take."""
    found = {"--version"}
    for path in _SCRIPTS:
        for script in [path] if path.is_file() else path.rglob("*.py"):
            found |= {*re.findall(r"\"(--[a-z][a-z0-9-]*)", script.read_text(encoding="utf-8"))}
    waiting: list[click.Command] = [group]
    while waiting:
        command = waiting.pop()
        found |= _options_of(command)
        if isinstance(command, click.Group):
            context = click.Context(command)
            inner = (command.get_command(context, name) for name in command.list_commands(context))
            waiting += [one for one in inner if one is not None]
    return found


def _calls(page: Path) -> Iterator[tuple[str, list[str]]]:
    """Return the calls of headway in a page: the line, and its words up to a comment, a pipe or a command."""
    for line in _code(page):
        found = _CALL.search(line.strip())
        if found:
            text = re.split(r"  |\s#|\s\||\s>|\s2>|\s--\s|\s&|[…,;)]", found[1])[0]
            yield line, text.split()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_call_in_a_page_has_a_command_and_options_that_are_there(page: Path) -> None:
    wrong = []
    for line, words in _calls(page):
        if not words or words[0].isupper() or "|" in words[0]:
            continue  # a placeholder: headway COMMAND
        try:
            command, rest = _command(words)
        except LookupError as error:
            wrong.append((str(error), line))
            continue
        named = {word.partition("=")[0] for word in rest if word.startswith("--") and word != "--"}
        wrong += [(option, line) for option in named - _options_of(command)]
    assert wrong == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_option_in_a_page_is_one_of_ours_or_of_a_program_that_is_named(page: Path) -> None:
    foreign = set().union(*_FOREIGN.values())
    named = {(option, line) for line in _code(page) for option in _OPTION.findall(line)}
    assert {(option, line) for option, line in named if option not in _own_options() | foreign} == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_variable_in_a_page_is_in_the_sources(page: Path) -> None:
    named = {name for line in _code(page) for name in _VARIABLE.findall(line)}
    assert {name for name in named if name not in _sources()} == set()


def _module(parts: list[str]) -> Path | None:
    """Return the file of the module or package that has a dotted name."""
    base = SOURCES.get(parts[0], ROOT).joinpath(*parts)
    kinds = (".py", ".pyi", ".pyx")
    files = (*(base.with_suffix(kind) for kind in kinds), base / "__init__.py")
    return next((file for file in files if file.is_file()), None)


def _is_there(name: str) -> bool:
    """Whether a dotted name is a module and words in it, or a word in the sources: a metric, an attribute, a key."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        file = _module(parts[:end])
        if file is not None:
            words = set(re.findall(r"\w+", file.read_text(encoding="utf-8")))
            if words.issuperset(parts[end:]):
                return True
            break
    return any(f'"{word}' in _sources() or f"'{word}" in _sources() for word in (name, name.replace(".", "_")))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_dotted_name_in_a_page_is_found(page: Path) -> None:
    named = {name for line in _code(page) for name in _DOTTED.findall(line)}
    assert {name for name in named if not _is_there(name)} == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_of_the_repository_that_a_page_names_is_there(page: Path) -> None:
    named = {name for line in _code(page) for name in _FILE.findall(line)}
    package = next((one for one in ROOT.glob("packages/*") if page.is_relative_to(one)), ROOT)
    places = (ROOT, package, ROOT / "packages/headway-machine")  # examples without more are the machine's
    assert {name for name in named if not any((place / name).exists() for place in places)} == set()


def test_every_test_that_the_table_of_claims_names_is_there() -> None:
    text = (ROOT / "tests/README.md").read_text(encoding="utf-8")
    named = re.findall(r"`(\w[\w/]*\.py)(?:::(\w+))?`", text)
    assert len(named) > 50
    wrong = []
    for name, test in named:
        folders = [ROOT, *ROOT.glob("tests"), *ROOT.glob("packages/*/tests")]
        files = [path for folder in folders if (path := folder / name).is_file()]
        if len(files) != 1 or test not in files[0].read_text(encoding="utf-8"):
            wrong.append((name, test))
    assert wrong == []
