"""Conversion of lines to Textual's strips: the styles become colours of a dark or light screen, or no colours.

Characters that the terminal cannot show are replaced by ASCII here, as the last step.
"""

from __future__ import annotations

from functools import lru_cache

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from headway.views.lines import Line
from headway.views.palette import PALETTE
from headway.views.printable import fit

__all__ = ["Paint"]

_DARK = {
    "": "#d8dbe0",
    "dim": "#8b919b",
    "title": "bold #ffffff",
    "bold": "bold #ffffff",
    "good": "bold #4fc58f",
    "fair": "bold #e5ae02",
    "bad": "bold #ff7a45",
    "key": "bold #ffffff on #3d424a",
}
_LIGHT = {
    "": "#23262b",
    "dim": "#666c75",
    "title": "bold #000000",
    "bold": "bold #000000",
    "good": "bold #04734b",
    "fair": "bold #8a5200",
    "bad": "bold #b03f00",
    "key": "bold #000000 on #dadee3",
}
_GROUNDS = {"dark": ("#121212", "#2b3340", "#1c1f24"), "light": ("#ffffff", "#cfe0f5", "#eef0f3")}
"""The colours of the background, of the chosen row, and of the lines around the list."""
_PLAIN = {
    "": "",
    "dim": "",
    "title": "bold",
    "bold": "bold",
    "good": "",
    "fair": "bold",
    "bad": "bold",
    "key": "reverse",
}
_BARE = frozenset({*_DARK, *(kind.value for kind in PALETTE)} - {"key"})
"""The styles in which spaces look alike."""
_ALIASES = {
    "sorted": "title",
    "yellow": "fair",
    "cyan": "good",
    "red": "bad",
    "bold red": "bad",
    "bold yellow": "fair",
    "bold green": "good",
}
"""The styles of other views' lines."""
_SIMPLER = str.maketrans("≤…·–│×µ─▴▾▸▁▂▃▄▅▆▇█±←", "<~.-|xu-^v>_.-:=+*#+<")


class Paint:
    """The look of a screen's lines. ``ground`` is "dark" or "light"; ``coloured``: use colour."""

    def __init__(self, ground: str = "dark", *, coloured: bool = True, unicode: bool = True) -> None:
        self.ground, self.coloured, self.unicode = ground, coloured, unicode
        self.back, self.chosen, self.frame = (
            (Style(bgcolor=colour) if coloured else Style(reverse=at == 1))
            for at, colour in enumerate(_GROUNDS[ground])
        )
        self._style = lru_cache(self._made)

    def strip(self, line: Line, width: int, back: Style | None = None) -> Strip:
        """Return the line in exactly ``width`` columns, on the background ``back``."""
        back = back or self.back
        segments: list[Segment] = []
        held, named = "", ""
        left = width
        for text, name in line:
            text = text if self.unicode else _encodable(text)
            size = len(text) if text.isascii() else cell_len(text)
            if size > left:
                text, size = (text[:left] if text.isspace() else fit(text, left)), left
            left -= size
            # Every segment costs time, here and in the terminal, so segments that look alike are joined.
            if name == named or (name in _BARE and named in _BARE and text.isspace()):
                held += text
                continue
            if held:
                segments.append(Segment(held, self._style(named, back)))
            held, named = text, name
        if held:
            segments.append(Segment(held, self._style(named, back)))
        if left:
            segments.append(Segment(" " * left, back))
        return Strip(segments, width)

    def _made(self, name: str, back: Style) -> Style:
        word, _, kind = name.partition(" ")
        if word == "on" and kind in _LOOKS:
            look = _LOOKS[kind]
            if not self.coloured:
                return back
            if self.ground == "dark":
                return Style(color=look.ink_on_dark, bgcolor=look.on_dark)
            return Style(color=look.ink_on_light, bgcolor=look.on_light)
        if name in _LOOKS:
            colour = _LOOKS[name].on_dark if self.ground == "dark" else _LOOKS[name].on_light
            return back + Style(color=colour) if self.coloured else back
        name = _ALIASES.get(name, name)
        if not self.coloured:
            return back + Style.parse(_PLAIN.get(name, ""))
        table = _DARK if self.ground == "dark" else _LIGHT
        return back + Style.parse(table.get(name, table[""])) + (Style(underline=True) if name == "sorted" else Style())


_LOOKS = {kind.value: look for kind, look in PALETTE.items()}


@lru_cache(maxsize=4096)
def _encodable(text: str) -> str:
    text = text.translate(_SIMPLER)
    return text if text.isascii() else "".join(c if c.isascii() else "?" * cell_len(c) for c in text)
