"""The widgets of the screen: fixed lines, scrolling lines, and the list of threads.

All of them draw single lines (Textual's line API). So only the visible ones of thousands of threads cost anything, and
no name is ever interpreted as markup.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.style import Style
from textual import events
from textual.binding import Binding
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from headway.views.lines import Line

from .columns import ColumnLayout, line_of
from .paint import Paint
from .roster import GroupRow, Key, ThreadRow

__all__ = ["Lines", "Scroll", "ThreadList"]


class Lines(Widget):
    """Fixed lines, which are made for the available width when they change."""

    class Clicked(Message):
        """The user clicked on the widget at column ``x``."""

        def __init__(self, widget: Lines, x: int) -> None:
            super().__init__()
            self.widget, self.x = widget, x

    def __init__(self, make: Callable[[int], Sequence[Line]], paint: Callable[[], Paint], *, id: str) -> None:
        super().__init__(id=id)
        self._make, self._paint = make, paint
        self._strips: list[Strip] = []
        self._width = -1

    def renew(self) -> None:
        """Make the lines again, because what they show has changed."""
        self._width = -1
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Return one of its lines."""
        width = self.size.width
        if width != self._width:
            paint = self._paint()
            self._strips = [paint.strip(line, width, paint.frame) for line in self._make(width)]
            self._width = width
        return self._strips[y] if y < len(self._strips) else Strip.blank(width, self._paint().frame)

    def on_click(self, event: events.Click) -> None:
        """Post `Clicked`."""
        self.post_message(self.Clicked(self, event.x))


class Scroll(ScrollView, can_focus=True):
    """Lines that can be scrolled."""

    def __init__(self, paint: Callable[[], Paint], fill: Callable[[], None], *, id: str) -> None:
        """``fill`` is called when there is another room for lines; it calls `show`."""
        super().__init__(id=id)
        self._paint, self._fill = paint, fill
        self._lines: Sequence[Line] = ()

    def on_resize(self) -> None:
        """Have lines made for the new width."""
        self._fill()

    def show(self, lines: Sequence[Line]) -> None:
        """Show these lines."""
        self._lines = lines
        _resize(self, len(lines))
        self.refresh()

    @property
    def room(self) -> int:
        """The width of a line."""
        return max(self.scrollable_content_region.width - 1, 1)

    def render_line(self, y: int) -> Strip:
        """Return one of the visible lines."""
        width, at, paint = self.size.width, y + self.scroll_offset.y, self._paint()
        line = self._lines[at] if at < len(self._lines) else []
        return paint.strip([(" ", ""), *line], width, paint.frame)


class ThreadList(ScrollView, can_focus=True):
    """The list of threads, one a line. The chosen one stays chosen wherever it moves."""

    BINDINGS = [  # noqa: RUF012
        Binding("up,k", "move(-1)", show=False),
        Binding("down,j", "move(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("home", "end(-1)", show=False),
        Binding("end", "end(1)", show=False),
        Binding("left", "app.earlier(1)", show=False),
        Binding("right", "app.later(1)", show=False),
    ]

    class Chosen(Message):
        """The user chose a row. ``again``: a click on the chosen one. ``fold``: a click on the sign before it."""

        def __init__(self, key: Key, *, again: bool = False, fold: bool = False) -> None:
            super().__init__()
            self.key, self.again, self.fold = key, again, fold

    def __init__(self, paint: Callable[[], Paint], *, id: str) -> None:
        super().__init__(id=id)
        self._paint = paint
        self._rows: Sequence[ThreadRow] = ()
        self._layout_of_columns: ColumnLayout | None = None
        self.chosen: Key | None = None
        """The key of the marked row; None: the first row, whichever that is."""
        self._place = 0

    @property
    def room(self) -> int:
        """The width of a row."""
        return max(self.scrollable_content_region.width, 1)

    @property
    def row(self) -> ThreadRow | None:
        """The marked row."""
        return self._rows[self._place] if self._place < len(self._rows) else None

    def show(self, rows: Sequence[ThreadRow], layout: ColumnLayout) -> None:
        """Show these rows. If the chosen one was visible before, it is followed."""
        top, height = self.scroll_offset.y, max(self.size.height, 1)
        was_seen = top <= self._place < top + height
        self._rows, self._layout_of_columns = rows, layout
        self._find()
        _resize(self, len(rows))
        if was_seen and self.chosen is not None:
            self._see()
        self.refresh()

    def choose(self, key: Key | None) -> None:
        """Mark the row with this key."""
        self.chosen = key
        self._find()
        self._see()
        self.refresh()

    def _find(self) -> None:
        if self.chosen is None:
            self._place = 0
            return
        found = next((at for at, row in enumerate(self._rows) if row.key == self.chosen), None)
        if found is None:  # it may have become a part of a group, or a group single threads
            found = next((at for at, row in enumerate(self._rows) if row.stands_for(self.chosen)), None)
        if found is None:  # the row is gone: mark the one in its place, and follow that
            self._place = min(self._place, max(len(self._rows) - 1, 0))
            self.chosen = self._rows[self._place].key if self._rows else None
        else:
            self._place = found

    def _see(self) -> None:
        """Scroll by the smallest amount that makes the marked row visible."""
        top, height = self.scroll_offset.y, max(self.size.height, 1)
        if self._place < top:
            self.scroll_to(y=self._place, animate=False, immediate=True)
        elif self._place >= top + height:
            self.scroll_to(y=self._place - height + 1, animate=False, immediate=True)

    def _go(self, place: int) -> None:
        if self._rows:
            self.choose(self._rows[min(max(place, 0), len(self._rows) - 1)].key)
            assert self.chosen is not None
            self.post_message(self.Chosen(self.chosen))

    def action_move(self, by: int) -> None:
        """Move the mark by ``by`` rows."""
        self._go(self._place + by)

    def action_page(self, by: int) -> None:
        """Move the mark by ``by`` pages."""
        self._go(self._place + by * max(self.size.height - 1, 1))

    def action_end(self, way: int) -> None:
        """Move the mark to the first or last row."""
        self._go(0 if way < 0 else len(self._rows))

    def on_click(self, event: events.Click) -> None:
        """Choose the row at the click."""
        place = event.y + self.scroll_offset.y
        if not 0 <= place < len(self._rows):
            return
        row = self._rows[place]
        again = row.key == self.chosen
        self.choose(row.key)
        self.post_message(self.Chosen(row.key, again=again, fold=isinstance(row, GroupRow) and event.x < 2))

    def render_line(self, y: int) -> Strip:
        """Return one of the visible rows."""
        width, at, paint = self.size.width, y + self.scroll_offset.y, self._paint()
        if at >= len(self._rows) or self._layout_of_columns is None:
            return Strip.blank(width, paint.back)
        back: Style = paint.chosen if at == self._place else paint.back
        return paint.strip(line_of(self._rows[at], self._layout_of_columns, width), width, back)


def _resize(view: ScrollView, lines: int) -> None:
    """Set the number of lines of a view, if it has changed: setting it causes a new layout."""
    if view.virtual_size.height != lines:
        view.virtual_size = Size(0, lines)
