"""The documents hang together: their links lead somewhere, and every page has its place."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from headway.model import every_loss

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
PAGES += sorted(
    page for kind in ("*.md", "docs/*.md", "examples/**/README.md") for page in ROOT.glob(f"packages/*/{kind}")
)
PACKAGES = sorted(link.name for link in DOCS.iterdir() if link.is_symlink())
PAGES_OF_PACKAGES = {f"{name}/{page.stem}" for name in PACKAGES for page in (DOCS / name).glob("*.md")}
"""The pages of each package, as the site has them."""
_FENCE = re.compile(r"^(```+)[^\n]*\n.*?^\1$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`\n]*`")
_LINK = re.compile(r"\]\(([^)\s]+)\)")


def _prose(page: Path) -> str:
    """Return the text of a page without its blocks of code."""
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


def _anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them: a second one of a name ends in ``-1``."""
    headings = re.findall(r"^#+ (.*)$", _prose(page), re.MULTILINE)
    words = [re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings]
    earlier = [words[:place].count(word) for place, word in enumerate(words)]
    return {f"{word}-{times}" if times else word for word, times in zip(words, earlier, strict=True)}


def _links(page: Path) -> list[str]:
    """Return the links to files; a link within a span of code is an example."""
    return [link for link in _LINK.findall(_CODE.sub("", _prose(page))) if "://" not in link]


def _sections() -> dict[str, list[str]]:
    """Return the sections of the site with their pages, as docs/index.md has them."""
    text = (DOCS / "index.md").read_text(encoding="utf-8")
    trees = re.findall(r"```\{toctree\}\n:caption: ([^\n]+)\n:hidden:\n\n(.*?)```", text, re.DOTALL)
    return {caption: pages.split() for caption, pages in trees}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    lost = []
    for link in _links(page):
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in _anchors(target)):
            lost.append(link)
    assert lost == []


def test_every_page_is_in_one_section() -> None:
    places = Counter(page for pages in _sections().values() for page in pages)
    assert {page for page in places if page.partition("/")[0] in PACKAGES} == PAGES_OF_PACKAGES
    assert {page for page, times in places.items() if times > 1} == set()


def test_the_index_lists_every_page_in_the_same_sections() -> None:
    table = (DOCS / "index.md").read_text(encoding="utf-8").partition("## All pages")[2]
    rows = re.findall(r"^\| (\w[\w ]*) \| (.*) \|$", table, re.MULTILINE)
    named = {section: {Path(link).stem for link in _LINK.findall(links)} for section, links in rows}
    sections = {
        section: {page.rpartition("/")[2] for page in pages if page in PAGES_OF_PACKAGES}
        for section, pages in _sections().items()
    }
    assert named == {section: pages for section, pages in sections.items() if pages}
    assert "docs/index.md#all-pages" in _links(ROOT / "README.md")


def test_the_outputs_in_the_readme_fit_a_terminal() -> None:
    blocks = [match[0] for match in _FENCE.finditer((ROOT / "README.md").read_text(encoding="utf-8"))]
    assert [line for block in blocks for line in block.splitlines() if len(line) > 80] == []


def test_the_commands_of_make_for_users_and_contributors_are_in_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    pages = [*ROOT.glob("*.md"), DOCS / "headway/installing.md", *(ROOT / ".github").rglob("*.*"), ROOT / ".ci/run"]
    command = re.compile(r"(?:`|^|sudo |run: )make ([a-z][a-z-]*)", re.MULTILINE)
    named = {(page.name, name) for page in pages for name in command.findall(page.read_text(encoding="utf-8"))}
    assert len(named) > 20
    assert {(page, name) for page, name in named if name not in targets} == set()


def test_the_glossary_names_what_is_there() -> None:
    text = (ROOT / "docs/headway/glossary.md").read_text(encoding="utf-8")
    source = ROOT / "packages/headway/src/headway"
    sources = [source, *ROOT.glob("packages/*/src")]
    places = re.findall(r"`(\w+/[\w/]*(?:\.\w+)*)`(?: `([^`]+)`)?", text)
    assert len(places) > 40
    wrong = []
    for path, name in places:
        there = next((folder / path for folder in sources if (folder / path).exists()), source / path)
        if not there.exists() or (name and name.rpartition(" ")[2] not in there.read_text(encoding="utf-8")):
            wrong.append((path, name))
    assert wrong == []


def test_the_table_of_losses_is_that_of_the_code() -> None:
    written = [
        line for line in (DOCS / "headway/losses.md").read_text(encoding="utf-8").splitlines() if line.startswith("| `")
    ]
    losses = sorted(every_loss().values(), key=lambda loss: loss.name)
    assert written == [f"| `{loss.name}` | {loss.unit or 'count'} | {loss.what} |" for loss in losses]
