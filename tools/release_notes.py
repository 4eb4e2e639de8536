"""``python -m tools.release_notes [TAG]``: print the news of the release that headway's ``CHANGELOG.md`` has first.

With a tag, it is first checked that the release is that of the tag, and that it has a date, which a candidate
(``v1.2.0rc1``) need not have.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def notes(changelog: str, tag: str | None = None) -> str:
    """Return the first section of a changelog without its heading. Raises ValueError if the tag is of another one."""
    found = re.search(r"^## (\S+) \(([^)]*)\)\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    if found is None:
        raise ValueError("the changelog has no heading such as '## 1.2.0 (2026-12-01)'")
    release, date, text = found.groups()
    if tag is not None:
        base = re.sub(r"(a|b|rc)\d+$", "", tag.removeprefix("v"))
        if base != release:
            raise ValueError(f"the tag {tag} is not of the first release in the changelog, {release}")
        if base == tag.removeprefix("v") and not re.fullmatch(r"\d{4}-\d\d-\d\d", date):
            raise ValueError(f"the changelog says that {release} is {date}: give it the date of its release")
    return text.strip() + "\n"


def main() -> int:
    """Print the news. Return the exit status."""
    try:
        text = notes((ROOT / "packages/headway/CHANGELOG.md").read_text(encoding="utf-8"), *sys.argv[1:2])
    except ValueError as error:
        print(f"release notes: {error}", file=sys.stderr)
        return 1
    sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
