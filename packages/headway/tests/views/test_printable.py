from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from tests.ledgers import HOSTILE_NAMES

from headway.views.printable import clean, fit, fit_name, width_of, wrap

texts = st.text() | st.sampled_from(HOSTILE_NAMES)


@given(texts)
def test_clean_text_neither_acts_on_a_terminal_nor_reorders_the_line(text: str) -> None:
    shown = clean(text)
    shown.encode()
    for character in shown:
        assert character.isprintable()
        assert unicodedata.bidirectional(character) not in ("R", "AL", "AN", "RLO", "RLE", "RLI")
    assert width_of(shown) == sum(map(cell_len, shown))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("xz-worker", "xz-worker"),
        ("[red]x[/red]", "[red]x[/red]"),
        ("a\x1b[31mb\n", "a\\x1b[31mb\\x0a"),
        ("\x9b2J\x7f", "\\x9b2J\\x7f"),
        ("\udcff", "\\xff"),
        ("\ud800", "\\ud800"),
        ("日本語", "日本語"),
        ("Zoe\u0308", "Zoë"),
        ("\u0301x", "\\u0301x"),
        ("x\u0300\u0301\u0302\u0303", "x̀" + "\u0301\\u0302\\u0303"),
        ("\u202eevil", "\\u202eevil"),
        ("\u05d0", "\\u05d0"),
        ("\u00a0", "\\xa0"),
    ],
)
def test_what_could_do_harm_is_shown_by_its_number(text: str, shown: str) -> None:
    assert clean(text) == unicodedata.normalize("NFC", shown)


@given(texts, st.integers(0, 40), st.booleans())
def test_text_is_made_to_fit_exactly(text: str, width: int, right: bool) -> None:
    shown = clean(text)
    fitted = fit(shown, width, right)
    assert width_of(fitted) == width
    if width_of(shown) <= width:
        assert fitted.strip(" ") == shown.strip(" ")


@given(texts, st.integers(2, 60))
def test_wrapped_text_is_all_there_and_no_line_is_too_long(text: str, width: int) -> None:
    shown = clean(text, 300)
    lines = wrap(shown, width)
    assert all(width_of(line) <= width for line in lines)
    assert "".join(lines).replace(" ", "") == shown.replace(" ", "")


def test_a_command_in_several_lines_is_still_a_command() -> None:
    assert wrap("sudo perf record -t 4712", 16, " \\") == ["sudo perf \\", "record -t 4712"]


@given(texts, st.integers(0, 30))
def test_a_name_keeps_its_beginning_and_its_end(text: str, width: int) -> None:
    shown = clean(text)
    fitted = fit_name(shown, width)
    assert width_of(fitted) == width
    if width_of(shown) > width >= 3 and "…" not in shown:
        head, _, tail = fitted.rstrip(" ").rpartition("…")
        assert shown.startswith(head)
        assert shown.rstrip(" ").endswith(tail)


def test_threads_that_differ_in_their_numbers_only_stay_apart() -> None:
    eight = {fit_name(f"rocksdb:bottom-{number}", 10) for number in range(8)}
    assert len(eight) == 8
    assert "rocks…om-7" in eight
