"""The live screen: the list of threads, the lines above and below it, and a panel for the chosen thread.

A screen shows pictures (`roster.Picture`), one for each interval. A `feed` provides them, and the model gives a ledger
its meaning.
"""

from __future__ import annotations

import asyncio
import codecs
import signal
import sys
import termios
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from types import FrameType

from rich.segment import Segment
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.color import Color
from textual.containers import Container
from textual.drivers import linux_driver
from textual.events import Resize
from textual.filter import LineFilter
from textual.screen import ModalScreen
from textual.widgets import Input

from headway.advice import Advice
from headway.errors import HeadwayError
from headway.model import GroupBy, Ledger
from headway.model.work import FollowedWork
from headway.views.forecast import forecast_text
from headway.views.lines import Line
from headway.views.printable import clean, wrap

from .columns import ColumnLayout, titles
from .feed import Live, Timeline
from .help import help_lines
from .paint import Paint
from .panel import panel
from .roster import KEPT, ORDERS, GroupRow, Key, Order, Picture, Roster, ThreadRow, group_key, in_places
from .summary import HEIGHT, moment_of, summary
from .widgets import Lines, Scroll, ThreadList

__all__ = ["MIN_SIZE", "TopApp"]

MIN_SIZE = (40, 10)
"""The smallest terminal that has room for the screen, in columns and lines."""
_WIDE = 130
"""The width from which on the panel is beside the list and not below it."""
_PLAYING = 0.5
"""Seconds that an interval is shown when playing through time."""
_WATCHED = 0.5
"""Seconds between two checks whether the terminal is still there."""
_MAX_WORDS = 64
_NEXT = {
    GroupBy.THREAD: GroupBy.PROCESS,
    GroupBy.PROCESS: GroupBy.NAME,
    GroupBy.NAME: GroupBy.POD,
    GroupBy.POD: GroupBy.CGROUP,
    GroupBy.CGROUP: GroupBy.THREAD,
}
"""What the key for groups changes to."""
_GROUPS = {
    GroupBy.THREAD: "threads",
    GroupBy.PROCESS: "processes",
    GroupBy.NAME: "names",
    GroupBy.POD: "pods",
    GroupBy.CGROUP: "cgroups",
}
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_TEXTUAL_S = (signal.SIGTSTP, signal.SIGCONT, signal.SIGWINCH)
"""Signals that Textual handles and does not restore."""


def _lenient_decoder(encoding: str) -> Callable[[], codecs.IncrementalDecoder]:
    """Return a decoder for the keyboard that ignores invalid bytes. Textual's own would end at the first of them."""
    return partial(codecs.getincrementaldecoder(encoding), errors="ignore")


class _NoColour(LineFilter):
    """Removes all colour from what Textual draws itself (NO_COLOR). Textual's own filter would make it grey."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return the same text, with bold and reverse kept."""
        return [Segment(text, style and style.without_color, control) for text, style, control in segments]


class _Help(ModalScreen[None]):
    """The window with the help."""

    BINDINGS = [Binding("escape,q,h,question_mark,f1,enter", "dismiss", show=False)]  # noqa: RUF012

    def __init__(self, lines: Callable[[int], Sequence[Line]], paint: Callable[[], Paint]) -> None:
        super().__init__()
        self._lines, self._paint = lines, paint

    def compose(self) -> ComposeResult:
        """Yield the widget of the window."""
        yield Scroll(self._paint, self._fill, id="help")

    def on_mount(self) -> None:
        """Let keys scroll it."""
        self.query_one(Scroll).focus()

    def _fill(self) -> None:
        view = self.query_one(Scroll)
        view.show(self._lines(view.room))


class TopApp(App[None]):
    """The screen of ``headway top``. Call `show` to run it.

    ``advise`` returns advice on a ledger. ``coloured``: use colour. ``unicode``: the terminal has more than ASCII.
    ``leave``: end when the feed ends.
    """

    ENABLE_COMMAND_PALETTE = False
    ALLOW_SELECT = False
    TITLE = "headway top"
    CSS = f"""
    Screen {{ layout: vertical; overflow: hidden; }}
    #summary {{ height: {HEIGHT}; }}
    #body {{ height: 1fr; layout: vertical; }}
    #left {{ height: 1fr; width: 1fr; layout: vertical; }}
    #titles {{ height: 1; }}
    #threads {{ height: 1fr; }}
    #panel {{ height: 55%; width: 100%; display: none; }}
    #keys {{ height: 1; }}
    #words {{ height: 1; border: none; padding: 0 1; display: none; }}
    #small {{ height: 1fr; display: none; }}
    #threads, #panel, #help {{ overflow-x: hidden; overflow-y: auto; }}
    #threads, #panel, #help {{ scrollbar-size-vertical: 1; scrollbar-gutter: stable; }}
    Screen.-panel #panel {{ display: block; }}
    Screen.-wide #body {{ layout: horizontal; }}
    Screen.-wide #panel {{ width: 45%; height: 100%; }}
    Screen.-small #summary, Screen.-small #body, Screen.-small #keys, Screen.-small #words {{ display: none; }}
    Screen.-small #small {{ display: block; }}
    _Help {{ align: center middle; }}
    #help {{ width: 90%; max-width: 100; height: 90%; border: round $primary; }}
    """
    BINDINGS = [  # noqa: RUF012
        Binding("q", "quit"),
        Binding("ctrl+c", "quit", priority=True),
        Binding("ctrl+z", "suspend_process", priority=True),
        Binding("question_mark,h,f1", "help"),
        Binding("slash", "words"),
        Binding("escape", "all_words"),
        Binding("less_than_sign,comma", "order(-1)"),
        Binding("greater_than_sign,full_stop", "order(1)"),
        Binding("r", "backwards"),
        Binding("i", "busy"),
        Binding("t", "group"),
        Binding("minus", "fold(True)"),
        Binding("plus,equals_sign", "fold(False)"),
        Binding("enter", "panel"),
        Binding("tab", "other_side", priority=True),
        Binding("space", "pause"),
        Binding("l", "ground"),
        Binding("left_square_bracket", "earlier(10)"),
        Binding("right_square_bracket", "later(10)"),
        Binding("g", "to_end(-1)"),
        Binding("G", "to_end(1)"),
        Binding("z", "rescale(True)"),
        Binding("Z", "rescale(False)"),
    ]

    def __init__(
        self,
        feed: Live | Timeline,
        *,
        advise: Callable[[Ledger], Sequence[Advice]] = lambda ledger: (),
        coloured: bool = True,
        unicode: bool = True,
        ground: str = "dark",
        order: Order = Order(),  # noqa: B008
        leave: bool = False,
        work: FollowedWork | None = None,
    ) -> None:
        super().__init__()
        self._feed, self._advise, self._work = feed, advise, work
        self._expected = ""  # when the work will be done
        self._coloured, self._unicode = coloured, unicode
        self._paint = Paint(ground, coloured=coloured, unicode=unicode)
        self._order = order
        self._placed: Order | None = None  # the order that the rows have, and the place of each
        self._places: dict[Key, int] = {}
        self._names = False  # grouped by name because there are more threads than lines
        self._leave = leave
        self._roster = Roster()
        self._latest: Picture | None = None
        self._shown: Picture | None = None
        self._began: int | None = None
        self._paused = False
        self._going = False
        self._place = 0
        self._heading = 0  # the interval to be shown when all reads are done
        self._wanted: int | None = None
        self._reading = False
        self._note = ""
        self._columns: ColumnLayout | None = None
        self._listed = 0
        self._events: asyncio.AbstractEventLoop | None = None
        self.failure: BaseException | None = None
        """The error that ended the screen; None: a key or a signal did."""
        self.received: list[int] = []
        """The signals that ended it."""

    # --- what there is on the screen ----------------------------------------------------------------------------------

    def compose(self) -> ComposeResult:
        """Yield summary, list and panel, and keys; and the sentence shown if there is no room for them."""
        yield Lines(self._summary, self._painter, id="summary")
        with Container(id="body"):
            with Container(id="left"):
                yield Lines(self._titles, self._painter, id="titles")
                yield ThreadList(self._painter, id="threads")
            yield Scroll(self._painter, self._renew_panel, id="panel")
        yield Input(placeholder="words of a name, tid or pid", max_length=_MAX_WORDS, id="words")
        yield Lines(self._keys, self._painter, id="keys")
        yield Lines(self._too_small, self._painter, id="small")

    def on_mount(self) -> None:
        """Begin to follow the feed."""
        self._set_ground()
        self._list.focus()
        self._events = asyncio.get_running_loop()
        if self.received:
            self.exit()
        if not self.is_headless:
            self.set_interval(_WATCHED, self._watch_terminal)
        if isinstance(self._feed, Timeline):
            self._go(0)
        else:
            self.run_worker(self._follow(self._feed))

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Return no filters with colour, so that Textual does not dim; without colour, one that removes all of it."""
        return [] if self._coloured else [_NoColour()]

    def _painter(self) -> Paint:
        return self._paint

    @property
    def _list(self) -> ThreadList:
        return self.query_one("#threads", ThreadList)

    @property
    def _panel(self) -> Scroll:
        return self.query_one("#panel", Scroll)

    def show(self) -> None:
        """Run the screen until a key, a signal or a failure ends it. The terminal is left as it was."""
        linux_driver.getincrementaldecoder = _lenient_decoder  # type: ignore[assignment, attr-defined]
        old = {number: signal.getsignal(number) for number in (*_ENDING, *_TEXTUAL_S)}
        for number in _ENDING:
            if old[number] is not signal.SIG_IGN:
                signal.signal(number, self._signalled)
        try:
            self.run()
        finally:
            for number, handler in old.items():
                if handler is not None:
                    signal.signal(number, handler)
        if self.return_code and self.failure is None:
            self.failure = HeadwayError("the screen has failed, see the error above: headway stat -I shows the same")

    def _watch_terminal(self) -> None:
        """End if the terminal has gone away. No signal may have come, and the screen would wait for ever."""
        stdin = sys.__stdin__
        try:
            termios.tcgetattr(-1 if stdin is None else stdin.fileno())
        except (termios.error, ValueError, OSError):
            self.exit()

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        self.received.append(number)
        if self._events is not None:
            self._events.call_soon_threadsafe(self.exit)

    def on_resize(self, event: Resize) -> None:
        """Adapt the columns and the panel to the new size, or show that it is too small."""
        screen = self.screen_stack[0]
        screen.set_class(event.size.width < MIN_SIZE[0] or event.size.height < MIN_SIZE[1], "-small")
        screen.set_class(event.size.width >= _WIDE, "-wide")
        self._names = False  # there may be enough lines now
        self.call_after_refresh(self._renew)

    # --- pictures -----------------------------------------------------------------------------------------------------

    async def _follow(self, feed: Live) -> None:
        try:
            async for ledger in feed.ledgers():
                if self._work is not None:
                    self._expected = forecast_text(self._work.work, self._work.take(ledger), ledger)
                self._take(self._roster.take(ledger))
            if self._leave:
                self.exit()
            self._note = feed.last_words()
            self._renew()
        except Exception as error:  # shown when the terminal is restored
            self.failure = error
            self.exit()

    def _take(self, picture: Picture) -> None:
        self._latest = picture
        if self._began is None:
            self._began = picture.ledger.window.start
        if not self._paused or self._shown is None:
            self._shown = picture
            self._renew()

    def _go(self, place: int) -> None:
        """Show this interval of a timeline when it has been read. A later call replaces an earlier one."""
        assert isinstance(self._feed, Timeline)
        self._wanted = self._heading = min(max(place, 0), self._feed.number - 1)
        if not self._reading:
            self._reading = True
            self.run_worker(self._read(self._feed))

    async def _read(self, feed: Timeline) -> None:
        try:
            while self._wanted is not None:
                place, self._wanted = self._wanted, None
                picture = await asyncio.to_thread(self._recalled, feed, place)
                self._place, self._began = place, feed.began
                self._latest = self._shown = picture
                self._renew()
        except Exception as error:
            self.failure = error
            self.exit()
        finally:
            self._reading = False

    def _recalled(self, feed: Timeline, place: int) -> Picture:
        if self._shown is not None and place == self._place + 1:  # the history is known
            return self._roster.take(feed.ledgers(place, 1)[-1])
        picture = self._roster.recall(feed.ledgers(place, KEPT))
        if picture is None:
            raise HeadwayError("there is no interval to show")
        return picture

    def _renew(self) -> None:
        """Redraw everything that may have changed."""
        picture = self._shown
        if picture is None or not self.is_running or self.screen_stack[0].has_class("-small"):
            return
        self._listed = len(picture.kept(self._order))
        self._names = self._many(self._listed)
        rows = self._in_order(picture)
        digits = max(5, len(str(picture.largest)))
        self._columns = ColumnLayout.of(picture.ledger, self._list.room, digits=digits, letters=not self._coloured)
        self._list.show(rows, self._columns)
        for name in ("summary", "titles", "keys"):
            self.query_one(f"#{name}", Lines).renew()
        self._renew_panel()

    def _in_order(self, picture: Picture) -> list[ThreadRow]:
        """Return the rows in order. Once the user has chosen one, they stay where they are until the order changes."""
        wanted = replace(self._order, by=self._by)
        rows, usual = picture.rows(wanted), replace(wanted, turned=frozenset())
        if self._list.chosen is not None and usual == self._placed:
            rows = in_places(rows, self._places)
        self._placed, self._places = usual, {row.key: place for place, row in enumerate(rows)}
        return rows

    def _many(self, threads: int) -> bool:
        """Return whether there are more threads than lines. What is grouped stays so until they take half of them."""
        lines = self.query_one("#body").size.height - 1  # those of the panel too; none before the first layout
        return threads > (lines // 2 if self._names else lines) if lines > 0 else self._names

    @property
    def _by(self) -> GroupBy:
        """What a row is for."""
        return self._order.by or (GroupBy.NAME if self._names else GroupBy.THREAD)

    def _renew_panel(self) -> None:
        picture, row = self._shown, self._list.row
        if picture is None or not self.screen_stack[0].has_class("-panel"):
            return
        view = self._panel
        if row is None:
            view.show([[("no thread is chosen", "dim")]])
            return
        advice = self._advise(replace(picture.ledger, threads=row.threads))
        view.show(panel(picture, row, view.room, advice=advice, letters=not self._coloured))

    # --- lines above and below the list -------------------------------------------------------------------------------

    def _summary(self, width: int) -> Sequence[Line]:
        if self._shown is None:
            return [[("headway top ", "title"), (clean(self._feed.title, 400), "")], [("measuring …", "dim")]]
        ledger = self._shown.ledger
        moment = moment_of(ledger, self._began if self._began is not None else ledger.window.start)
        if isinstance(self._feed, Timeline):
            moment = f"{self._place + 1:,} of {self._feed.number:,} · {moment}"
        return summary(
            self._shown,
            self._feed.title,
            moment,
            width,
            note=self._state_in_words(),
            letters=not self._coloured,
            work=self._expected,
        )

    def _state_in_words(self) -> str:
        if self._note:
            return clean(self._note, 200)
        return "paused" if self._paused else ""

    def _titles(self, width: int) -> Sequence[Line]:
        return [] if self._columns is None else [titles(self._columns, self._order, width)]

    def _keys(self, width: int) -> Sequence[Line]:
        line: Line = [(" ", "")]
        if self._shown is not None and (self._order.words or self._order.busy):
            text = f"{self._listed:,} of {len(self._shown.every):,}"
            text += f" with {clean(self._order.words)!r}" if self._order.words else ""
            text += " busy" if self._order.busy else ""
            line += [(text, "fair"), ("  ", "")]
        for key, words, _ in self._shown_keys():
            line += [(key, "key"), (f" {words}  ", "dim")]
        return [line]

    def _shown_keys(self) -> Sequence[tuple[str, str, str]]:
        time = isinstance(self._feed, Timeline)
        return (
            ("q", "quit", "quit"),
            ("?", "help", "help"),
            ("/", "find", "words"),
            ("t", _GROUPS[_NEXT[self._by]], "group"),
            (">", "order", "order(1)"),
            ("⏎" if self._unicode else "Enter", "thread", "panel"),
            *(
                (
                    ("→" if self._unicode else ">", "time", "later(1)"),
                    ("Space", "stop" if self._going else "go", "pause"),
                )
                if time
                else (("Space", "go on" if self._paused else "pause", "pause"),)
            ),
            ("i", "all" if self._order.busy else "busy", "busy"),
        )

    def _too_small(self, width: int) -> Sequence[Line]:
        size = self.size
        text = f"{size.width} × {size.height} is too small: {MIN_SIZE[0]} × {MIN_SIZE[1]} is the minimum; q quits"
        return [[(line, "bad")] for line in wrap(text, max(width, 1))]

    def on_lines_clicked(self, message: Lines.Clicked) -> None:
        """Order by the clicked title, or run the clicked key."""
        if message.widget.id == "titles" and self._columns is not None:
            name = self._columns.at(message.x)
            if name is not None:
                self._order_by(name)
        elif message.widget.id == "keys":
            self._click_key(message.x)

    def _click_key(self, x: int) -> None:
        line = self._keys(self.size.width)[0]
        end, keys = 0, iter(self._shown_keys())
        key = None
        for text, style in line:
            if style == "key":
                key = next(keys)
            end += len(text)
            if x < end:
                break
        else:
            return
        if key is not None:
            self.call_later(self.run_action, key[2])

    # --- what can be done ---------------------------------------------------------------------------------------------

    def _order_by(self, name: str) -> None:
        backwards = not self._order.backwards if name == self._order.column else False
        self._order = replace(self._order, column=name, backwards=backwards)
        self._renew()

    def action_order(self, by: int) -> None:
        """Order by the next column, or the previous one."""
        names = [column.name for column in self._columns.columns if column.name in ORDERS] if self._columns else []
        if names:
            at = names.index(self._order.column) if self._order.column in names else 0
            self._order = replace(self._order, column=names[(at + by) % len(names)], backwards=False)
            self._renew()

    def action_backwards(self) -> None:
        """Reverse the order."""
        self._order = replace(self._order, backwards=not self._order.backwards)
        self._renew()

    def action_busy(self) -> None:
        """Show only threads that had a processor, or all."""
        self._order = replace(self._order, busy=not self._order.busy)
        self._renew()

    def action_group(self) -> None:
        """Show processes, the threads of each name, pod or cgroup together, or single threads."""
        self._order = replace(self._order, by=_NEXT[self._by])
        self._renew()

    def action_fold(self, fold: bool) -> None:
        """Hide or show the threads of the chosen group, or of the chosen thread's group."""
        row = self._list.row
        if row is not None and (row.inside or isinstance(row, GroupRow)):
            self._fold(row, fold)

    def _fold(self, row: ThreadRow, fold: bool) -> None:
        names = self._by is not GroupBy.PROCESS  # that is how these groups are folded at first
        key = group_key(row.thread, self._by)
        turned = self._order.turned | {key} if fold is not names else self._order.turned - {key}
        self._order = replace(self._order, turned=turned)
        if fold:
            self._list.chosen = key
        self._renew()

    def action_pause(self) -> None:
        """Pause or continue the picture. In a timeline, play through it or stop."""
        if isinstance(self._feed, Timeline):
            self._going = not self._going
            if self._going:
                self.set_timer(_PLAYING, self._play)
        else:
            self._paused = not self._paused
            if not self._paused and self._latest is not None:
                self._shown = self._latest
        self._renew()

    def _play(self) -> None:
        if not self._going or not isinstance(self._feed, Timeline):
            return
        if self._place + 1 >= self._feed.number:
            self._going = False
            self._renew()
            return
        if not self._reading:
            self._go(self._place + 1)
        self.set_timer(_PLAYING, self._play)

    def _move(self, by: int) -> None:
        if isinstance(self._feed, Timeline):
            self._go(self._heading + by)

    def action_earlier(self, by: int) -> None:
        """Go back by ``by`` intervals."""
        self._move(-by)

    def action_later(self, by: int) -> None:
        """Go forward by ``by`` intervals."""
        self._move(by)

    def action_to_end(self, way: int) -> None:
        """Go to the beginning or the end of the timeline."""
        if isinstance(self._feed, Timeline):
            self._go(0 if way < 0 else self._feed.number - 1)

    def action_rescale(self, halve: bool) -> None:
        """Make intervals half or twice as long."""
        if isinstance(self._feed, Timeline) and not self._reading:
            place = self._feed.rescaled(halve, self._place)
            if place is not None:
                self._shown = None  # the history has another interval length
                self._go(place)

    def action_panel(self) -> None:
        """Show or hide the panel."""
        screen = self.screen_stack[0]
        screen.toggle_class("-panel")
        if not screen.has_class("-panel"):
            self._list.focus()
        self._list.choose(self._list.row.key if self._list.row is not None else None)
        self.call_after_refresh(self._renew)

    def action_other_side(self) -> None:
        """Move the focus between the list and the panel."""
        if len(self.screen_stack) > 1:
            return
        if self._list.has_focus and self.screen.has_class("-panel"):
            self._panel.focus()
        else:
            self._list.focus()

    def action_help(self) -> None:
        """Show the help."""
        if len(self.screen_stack) == 1 and self._shown is not None:
            ledger, time = self._shown.ledger, isinstance(self._feed, Timeline)
            self.push_screen(_Help(lambda width: help_lines(ledger, width, time=time), self._painter))

    def action_ground(self) -> None:
        """Switch between light and dark."""
        ground = "light" if self._paint.ground == "dark" else "dark"
        self._paint = Paint(ground, coloured=self._coloured, unicode=self._unicode)
        self._set_ground()
        self._renew()

    def _set_ground(self) -> None:
        self.theme = f"textual-{self._paint.ground}"

    def on_thread_list_chosen(self, message: ThreadList.Chosen) -> None:
        """Show another thread in the panel; on a second click on the same one, show or hide the panel."""
        row = self._list.row
        if message.fold and isinstance(row, GroupRow):
            self._fold(row, not row.folded)
        elif message.again:
            self.action_panel()
        else:
            self._panel.scroll_to(y=0, animate=False)
            self._renew_panel()

    # --- words --------------------------------------------------------------------------------------------------------

    def action_words(self) -> None:
        """Let the user type words that names must contain."""
        words = self.query_one("#words", Input)
        words.display, self.query_one("#keys").display = True, False
        words.focus()

    def action_all_words(self) -> None:
        """Show all threads again, in order, and the first of them chosen."""
        words = self.query_one("#words", Input)
        words.value = ""
        self._list.chosen = self._placed = None
        self._hide_words()
        self._order = replace(self._order, words="")
        self._renew()

    def on_input_changed(self, message: Input.Changed) -> None:
        """Apply the words while they are typed."""
        self._order = replace(self._order, words=message.value)
        self._renew()

    def on_input_submitted(self, message: Input.Submitted) -> None:
        """Return to the list."""
        self._hide_words()

    def _hide_words(self) -> None:
        words = self.query_one("#words", Input)
        words.display, self.query_one("#keys").display = False, True
        self._list.focus()
        self._renew()
