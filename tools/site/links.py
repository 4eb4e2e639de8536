"""Links of the Markdown files, which lead from file to file, as the site needs them.

A link to a page of the site leads to that page. A link to a file outside docs/ that a page includes leads to that page
too. A link to a source file leads to a copy of the file in the site. A link to a folder becomes its words, which name
the folder. Man pages have no links.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx

__all__ = ["file_included", "links_resolved", "page_read", "relinked"]

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
_INCLUDED = {
    ROOT / "README.md": "index.md",
    ROOT / "CONTRIBUTING.md": "project/contributing.md",
    ROOT / "SECURITY.md": "project/security.md",
    **dict.fromkeys(ROOT.glob("packages/*/CHANGELOG.md"), "project/changelog.md"),
}
"""The files outside docs/ that the site has, each with the page that includes it."""
_PACKAGES = {path.resolve(): path.name for path in DOCS.iterdir() if path.is_symlink()}
"""The pages of each package, and the folder of the site that they are in: docs/ has links to them."""

_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^)\s]+)\)")


def page_read(_app: Sphinx, page: str, source: list[str]) -> None:
    """Rewrite the links of a page in docs/, when Sphinx has read it."""
    path = DOCS / f"{page}.md"
    if path.exists():
        source[0] = relinked(source[0], path.resolve().parent)


def pages_found(app: Sphinx, _env: object, _pages: list[str]) -> None:
    """Let Sphinx know the pages of the packages by their own paths, too: it follows the links in docs/ to those."""
    places = app.project._path_to_docname
    places.update({(DOCS / path).resolve(): page for path, page in list(places.items())})


def file_included(_app: Sphinx, path: Path, _page: str, source: list[str]) -> None:
    """Rewrite the links of a file that a page includes; ``path`` is relative to docs/."""
    source[0] = relinked(source[0], (DOCS / path).resolve().parent)


def links_resolved(app: Sphinx, page: nodes.document, _name: str) -> None:
    """Leave the words of the links in a man page, and nothing of their targets."""
    if app.builder.name == "man":
        for link in list(page.findall(nodes.reference)):
            link.parent.replace(link, link.children)


def relinked(text: str, folder: Path) -> str:
    """Return Markdown whose relative links are relative to docs/, written with a leading slash.

    ``folder`` is where the text's own links start.
    """

    def replaced(match: re.Match[str]) -> str:
        mark, words, link = match.groups()
        name, hash_, anchor = link.partition("#")
        if not name or "://" in name or name.startswith("/"):
            return match[0]
        target = (folder / name).resolve()
        if not target.exists():
            return match[0]
        if target.is_dir():
            return words
        place = _INCLUDED.get(target) or _place_of(target)
        return f"{mark}[{words}](/{place}{hash_}{anchor})"

    return _LINK.sub(replaced, text)


def _place_of(target: Path) -> str:
    """Return the path of a file, relative to docs/."""
    for folder, name in _PACKAGES.items():
        if target.is_relative_to(folder):
            return os.path.join(name, target.relative_to(folder))
    return os.path.relpath(target, DOCS)
