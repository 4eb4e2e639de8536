"""What the base install does without the extras, and what is said where one is missing."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import importlib.util
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tests.compiling import script
from tests.effort import exhaustive

import headway
from headway.commands import group
from headway.extras import EXTRAS, MissingExtraError, explained, install_line, missing, need

pytestmark = pytest.mark.end_to_end

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "headway"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
OTHER_DISTRIBUTIONS = {"trace": "headway-trace", "machine": "headway-machine", "rtl": "headway-machine[rtl]"}
"""Extras that bring another distribution of the project."""

COMMANDS = [name for name in group.list_commands(click.Context(group)) if name not in OTHER_DISTRIBUTIONS]
"""Those of headway itself: the others bring commands of their name."""
BASE = {
    "stat": ["-v", "--", "true"],
    "why": ["-d", "1", "--", "true"],
    "top": ["--plain", "--source", "proc", "-d", "0.2", "--", "sleep", "0.1"],
    "cpu": ["-d", "0.2"],
    "balance": ["--help"],
    "advise": ["--source", "proc", "--", "sleep", "0.1"],
    "compare": ["-r", "1", "-w", "0", "--source", "proc", "--", "true", "--", "true"],
    "serve": ["-q", "--source", "proc", "-d", "0.2", "--listen", "127.0.0.1:0", "--", "sleep", "0.1"],
    "doctor": [],
    "demo": [],
    "schema": [],
}
"""Every command that needs no extra, with arguments."""
WITH_EXTRA = {
    "record": ("recording", ["-o", "run.hw", "--", "true"]),
    "profile": ("recording", ["--", "true"]),
    "report": ("recording", ["run.hw"]),
    "export": ("recording", ["run.hw", "--to", "csv"]),
    "query": ("recording", ["run.hw", "SELECT 1"]),
    "at": ("recording", ["run.hw", "1s"]),
    "diff": ("recording", ["a.hw", "b.hw"]),
    "mcp": ("mcp", ["run.hw"]),
    "critical-path": ("recording", ["run.hw"]),
    "what-if": ("recording", ["run.hw"]),
}
"""Every command that needs one: which, and arguments."""
MORE_OF_BASE = [
    ["stat", "--json", "--source", "proc", "--", "true"],
    ["stat", "--why", "wait", "--source", "proc", "--", "true"],
    ["stat", "--html", "{tmp}/page.html", "--source", "proc", "--", "true"],
    ["schema", "diff"],
    ["compare", "--json", "-r", "1", "-w", "0", "--source", "proc", "--", "true", "--", "true"],
]
OPTIONS = [
    ("recording", ["top", "run.hw"]),
    ("recording", ["top", "--plain", "run.hw"]),
    ("recording", ["query", "--questions"]),
    ("otlp", ["serve", "--otlp", "http://127.0.0.1:1", "--listen", "127.0.0.1:0", "-d", "0.1", "--", "true"]),
]
"""Options and subcommands that need an extra where their command does not."""


# --- the table --------------------------------------------------------------------------------------------------------


def packages_of(extra: str) -> set[str]:
    """The packages that pyproject.toml names for an extra, and for those of ours that it contains."""
    found: set[str] = set()
    for text in PROJECT["optional-dependencies"][extra]:
        requirement = Requirement(text)
        if requirement.name == "headway":
            found.update(*(packages_of(one) for one in requirement.extras))
        else:
            found.add(canonicalize_name(requirement.name))
    return found


def test_the_table_has_every_extra_of_pyproject() -> None:
    assert {*EXTRAS} == {*PROJECT["optional-dependencies"]} - {*OTHER_DISTRIBUTIONS} - {"all"}


def test_other_distributions_are_extras() -> None:
    assert {name: PROJECT["optional-dependencies"][name] for name in OTHER_DISTRIBUTIONS} == {
        name: [distribution] for name, distribution in OTHER_DISTRIBUTIONS.items()
    }


@pytest.mark.parametrize("extra", EXTRAS)
def test_the_packages_of_an_extra_are_those_of_pyproject(extra: str) -> None:
    assert {canonicalize_name(name) for name in EXTRAS[extra].packages.values()} == packages_of(extra)


def test_all_is_every_extra() -> None:
    (one,) = map(Requirement, PROJECT["optional-dependencies"]["all"])
    assert one.name == "headway"
    assert one.extras == {*EXTRAS} | {*OTHER_DISTRIBUTIONS}


def test_an_extra_comes_before_those_that_contain_it() -> None:
    seen: list[set[str]] = []
    for about in EXTRAS.values():
        assert not any({*about.packages} < earlier for earlier in seen)
        seen.append({*about.packages})


def test_no_package_is_in_the_base_and_in_an_extra() -> None:
    base = {canonicalize_name(Requirement(text).name) for text in PROJECT["dependencies"]}
    assert not base & set().union(*map(packages_of, EXTRAS))


@cache
def owners() -> Mapping[str, list[str]]:
    """Top-level module -> the packages that have something in it."""
    found = importlib.metadata.packages_distributions()
    return {module: [canonicalize_name(name) for name in names] for module, names in found.items()}


@pytest.mark.parametrize(
    ("module", "package"), sorted({pair for about in EXTRAS.values() for pair in about.packages.items()})
)
def test_a_module_is_of_the_package_that_the_table_says(module: str, package: str) -> None:
    top = module.partition(".")[0]
    if top not in owners():
        pytest.skip(f"{package} is not installed")
    assert canonicalize_name(package) in owners()[top]


def imported() -> Iterator[tuple[str, str]]:
    """(file, module) of every import in the package, wherever it stands; those in Cython too."""
    for path in sorted(PACKAGE.rglob("*.py")):
        file = str(path.relative_to(PACKAGE))
        todo: list[ast.AST] = [ast.parse(path.read_text())]
        while todo:
            node = todo.pop()
            if isinstance(node, ast.Import):
                yield from ((f"{file}:{node.lineno}", alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and not node.level:
                yield f"{file}:{node.lineno}", node.module or ""
            elif not isinstance(node, ast.expr):  # an expression has no statement in it
                todo += ast.iter_child_nodes(node)
    for path in sorted(PACKAGE.rglob("*.pyx")):
        for line in path.read_text().splitlines():
            found = re.match(r"\s*(?:import|from)\s+([a-z][\w.]*)", line)
            if found and "cimport" not in line:
                yield str(path.relative_to(PACKAGE)), found[1]


def test_whatever_the_package_imports_is_in_the_base_or_in_an_extra() -> None:
    declared = {canonicalize_name(Requirement(text).name) for text in PROJECT["dependencies"]}.union(
        *map(packages_of, EXTRAS)
    )
    known = {*sys.stdlib_module_names, "headway", "cython", "libc", "cpython", "posix"}
    tops = {name.partition(".")[0] for about in EXTRAS.values() for name in about.packages}
    found = 0
    for where, module in imported():
        top = module.partition(".")[0]
        if top in known:
            continue
        found += 1
        assert top in tops or {*owners().get(top, ())} & declared, f"{where} imports {module}, which nothing declares"
    assert found > 50


def test_the_documentation_names_every_extra_and_its_packages() -> None:
    text = (ROOT / "docs" / "extras.md").read_text()
    for extra in (*EXTRAS, *OTHER_DISTRIBUTIONS, "all"):
        assert f"`{extra}`" in text
    for about in EXTRAS.values():
        for package in about.packages.values():
            assert package in text


# --- what is missing --------------------------------------------------------------------------------------------------

MODULES = sorted({module for about in EXTRAS.values() for module in about.packages})
NAMES = st.from_regex(r"[a-z]{1,8}", fullmatch=True)


@given(module=st.sampled_from(MODULES), below=st.lists(NAMES, max_size=3))
def test_a_module_that_is_not_there_is_explained_by_an_extra_that_brings_it(module: str, below: list[str]) -> None:
    name = ".".join([module, *below])
    error = explained(ModuleNotFoundError(f"No module named {name!r}", name=name))
    assert isinstance(error, MissingExtraError)
    assert module in EXTRAS[error.extra].packages
    assert str(error).endswith(install_line(error.extra))
    assert "\n" not in str(error)


@given(name=st.lists(NAMES, min_size=1, max_size=3).map(".".join))
def test_other_modules_are_not_explained(name: str) -> None:
    if not any(name == one or one.startswith(f"{name}.") or name.startswith(f"{one}.") for one in MODULES):
        assert explained(ModuleNotFoundError(f"No module named {name!r}", name=name)) is None


def test_a_module_without_a_name_is_not_explained() -> None:
    assert explained(ModuleNotFoundError("no module")) is None


@pytest.mark.parametrize("extra", EXTRAS)
@given(data=st.data())
def test_exactly_the_packages_that_are_missing_are_named(extra: str, data: st.DataObject) -> None:
    packages = EXTRAS[extra].packages
    already = missing(extra)
    hidden = data.draw(st.sets(st.sampled_from(sorted(packages))))
    with pytest.MonkeyPatch.context() as patch:
        for module in hidden:
            patch.setitem(sys.modules, module, None)
        expected = {module: package for module, package in packages.items() if module in hidden or module in already}
        assert missing(extra) == expected
        if not expected:
            need(extra)
            return
        with pytest.raises(MissingExtraError) as caught:
            need(extra)
    words = str(caught.value).split(": ")[0]
    for package in set(packages.values()):
        assert (re.search(rf"(?<![\w-]){re.escape(package)}(?![\w-])", words) is not None) == (
            package in expected.values()
        )
    assert isinstance(caught.value, ImportError)
    assert caught.value.exit_status == 125


# --- the commands -----------------------------------------------------------------------------------------------------


def closure() -> set[str]:
    """The packages of the base install, with all that they require."""
    todo = [Requirement(text) for text in PROJECT["dependencies"]]
    found: set[tuple[str, frozenset[str]]] = set()
    while todo:
        requirement = todo.pop()
        name, extras = canonicalize_name(requirement.name), frozenset(requirement.extras)
        if (name, extras) in found:
            continue
        found.add((name, extras))
        for text in importlib.metadata.requires(name) or []:
            one = Requirement(text)
            if one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
                todo.append(one)
    return {name for name, _extras in found}


@pytest.fixture(scope="session")
def beyond_base() -> str:
    """The modules of all packages that are installed here and that the base install does not bring."""
    base = closure() | {"headway"}
    found = {module for module, names in owners().items() if not base & {*names}}
    found -= {name for name in found if not name.isidentifier() or "editable" in name}
    assert {"numpy", "pyarrow", "duckdb", "pytest", "hypothesis"} <= found
    return ",".join(sorted(found))


Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run the command line with modules blocked; ``{tmp}`` in an argument is a folder of the test's own."""

    def run(blocked: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        words = [word.replace("{tmp}", str(tmp_path)) for word in arguments]
        return subprocess.run(
            script("without_modules", blocked, *words),
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run


def test_every_command_is_tested() -> None:
    assert {*BASE} | {*WITH_EXTRA} == {*COMMANDS}
    assert not {*BASE} & {*WITH_EXTRA}


LONG = ("doctor", "demo")
"""Of what the base does this takes seconds: it is tried in the base alone when all is."""


@pytest.mark.parametrize(
    "arguments",
    [
        *(
            pytest.param(words, marks=[pytest.mark.exhaustive] if {*words} & {*LONG} else [])
            for words in ([name, *rest] for name, rest in BASE.items())
        ),
        *exhaustive(*MORE_OF_BASE),
    ],
    ids=lambda arguments: " ".join(Path(word).name for word in arguments),
)
def test_the_base_install_does_this(arguments: list[str], run: Run, beyond_base: str) -> None:
    done = run(beyond_base, *arguments)
    assert "Traceback" not in done.stderr
    assert "pip install" not in done.stderr
    assert done.returncode == 0, done.stderr


@pytest.mark.root
def test_the_base_install_finds_functions(run: Run, beyond_base: str) -> None:
    done = run(beyond_base, "stat", "--source", "bpf", "--noneffective", "libc.so.6:getenv", "--", "ls")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("extra", "arguments"),
    [*((extra, [name, *rest]) for name, (extra, rest) in WITH_EXTRA.items()), *OPTIONS],
    ids=lambda value: " ".join(Path(word).name for word in value) if isinstance(value, list) else value,
)
def test_a_command_whose_extra_is_missing_says_how_to_install_it(
    extra: str, arguments: list[str], run: Run, tmp_path: Path
) -> None:
    packages = EXTRAS[extra].packages
    done = run(",".join(packages), *arguments)
    assert done.returncode == 125
    assert done.stderr == f"headway: {MissingExtraError(extra, packages)}\n"
    assert done.stderr.endswith(f": pip install 'headway[{extra}]'\n")
    assert done.stdout == ""
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("url", "extra"), [("spark://local[1]", "spark"), ("sqlite://x", "ibis")])
def test_an_engine_whose_extra_is_missing_says_how_to_install_it(
    url: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = importlib.import_module("headway.recording.queries.elsewhere")
    monkeypatch.setitem(sys.modules, "ibis", None)
    with pytest.raises(MissingExtraError, match=re.escape(install_line(extra))):
        elsewhere.Elsewhere(url)


def test_help_needs_no_extra(beyond_base: str) -> None:
    done = python(beyond_base, "every_help")
    assert (done.returncode, done.stderr) == (0, "")
    first, *helps = done.stdout.split("\f")
    for name, text in zip(COMMANDS, helps, strict=True):
        assert re.search(rf"^  {name} ", first, re.MULTILINE)
        assert text.startswith(f"Usage: headway {name}")


# --- from Python ------------------------------------------------------------------------------------------------------


def python(blocked: str, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program of ``tests/programs/`` with modules blocked."""
    words = script("without_modules", blocked, "--run", *script(program, *arguments)[1:])
    return subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)


def test_from_python_the_base_install_measures_and_marks(beyond_base: str) -> None:
    done = python(beyond_base, "base_from_python")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{MissingExtraError('recording', EXTRAS['recording'].packages)}\n"


def test_an_import_from_the_package_fails_with_the_same_words(beyond_base: str) -> None:
    done = python(beyond_base, "import_open")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith(install_line("recording"))
    assert "\nModuleNotFoundError" not in done.stderr


def test_importing_the_package_loads_none_of_its_code() -> None:
    done = python("nothing", "import_headway")
    assert done.stdout == "['headway']\n"
    assert headway.__version__


# --- what make demo leaves out ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        ("headway.linux.bpf.rings._transitions", ["record", "--", "true"]),
    ],
)
def test_what_was_not_built_is_said_in_a_sentence(module: str, arguments: list[str], run: Run) -> None:
    done = run(module, *arguments)
    assert done.returncode == 125
    assert done.stderr == (
        f"headway: {module} was not built: make demo builds only what the demo needs, make install everything\n"
    )
