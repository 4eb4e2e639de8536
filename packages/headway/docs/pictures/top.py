"""Draws the pictures of docs/top.md: ``headway top`` on the demo program, measured now, on screens of two sizes.

    sudo python docs/pictures/top.py [FOLDER]

As root the figures are those of eBPF. The pictures are what Textual exports of its screen, without the fonts that it
would load from elsewhere.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from headway.advice import Advice, advise
from headway.demo import program
from headway.linux.options import MeasureOptions, Selection
from headway.linux.placement.facilities import facilities
from headway.model import Ledger
from headway.session.child import SuspendedChild
from headway.session.live import LiveFeed
from headway.session.measure import measuring
from headway.views.screen.app import TopApp

SECONDS = 14.0
PICTURES = (
    ("top-80x24", (80, 24), (), ""),
    ("top-panel", (150, 40), ("down", "enter"), "poll"),
    ("top-light", (120, 26), ("t", "l"), ""),
)
"""Name, columns and lines, keys, and the words by which a thread is chosen."""


def _advise(ledger: Ledger) -> Sequence[Advice]:
    return advise(ledger, None, facilities())


async def _draw(app: TopApp, size: tuple[int, int], keys: Sequence[str], words: str, file: Path) -> None:
    async with app.run_test(size=size) as pilot:
        await pilot.pause(6)
        if words:
            row = next((row for row in app._list._rows if words in row.name), None)
            if row is not None:
                app._list.choose(row.key)
            keys = [key for key in keys if key != "down"]
        await pilot.press(*keys)
        await pilot.pause(1.5)
        text = app.export_screenshot(title="headway top")
        file.write_text(re.sub(r"@font-face \{.*?\}\s*", "", text, flags=re.DOTALL))


def main() -> None:
    """Draw all of them."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    with open(os.devnull, "wb") as nothing:
        for name, size, keys, words in PICTURES:
            command = [str(program()), "--seconds", str(SECONDS)]
            with measuring(
                Selection(),
                command,
                options=MeasureOptions(why=True),
                intervals=True,
                hold=lambda words: SuspendedChild(words, nothing.fileno()),
            ) as measurement:
                feed = LiveFeed(measurement, "-- headway-demo", 0.5, None)
                app = TopApp(feed, advise=_advise)
                asyncio.run(_draw(app, size, keys, words, folder / f"{name}.svg"))
            held = measurement.held
            assert held is not None
            held.send(9)
            held.wait()
            print(folder / f"{name}.svg")


if __name__ == "__main__":
    main()
