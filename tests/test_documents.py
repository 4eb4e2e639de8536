"""The documents hang together: their links lead somewhere, and the README leads to every page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *(ROOT / "docs").glob("*.md")])
_LINK = re.compile(r"\]\(([^)\s]+)\)")


def _anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    words = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {word.strip().replace(" ", "-") for word in words}


def _links(page: Path) -> list[str]:
    return [link for link in _LINK.findall(page.read_text(encoding="utf-8")) if "://" not in link]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    lost = []
    for link in _links(page):
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in _anchors(target)):
            lost.append(link)
    assert lost == []


def test_the_readme_leads_to_every_page() -> None:
    linked = {(ROOT / link.partition("#")[0]).resolve() for link in _links(ROOT / "README.md")}
    assert [page.name for page in (ROOT / "docs").glob("*.md") if page not in linked] == []


def test_the_glossary_names_what_is_there() -> None:
    text = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")
    source = ROOT / "src/headway"
    places = re.findall(r"`(\w+/[\w/]*(?:\.\w+)*)`(?: `([^`]+)`)?", text)
    assert len(places) > 40
    wrong = []
    for path, name in places:
        there = source / path
        if not there.exists() or (name and name.rpartition(" ")[2] not in there.read_text(encoding="utf-8")):
            wrong.append((path, name))
    assert wrong == []
