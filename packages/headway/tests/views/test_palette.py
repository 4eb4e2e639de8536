"""The kinds' colours: everybody can tell them apart, and read what is written on them."""

from __future__ import annotations

import math
import re
from itertools import combinations

import pytest

from headway.model import Kind
from headway.views.palette import OFF_PROCESSOR, ON_PROCESSOR, ORDER, PALETTE

Colour = tuple[float, float, float]
Matrix = tuple[Colour, Colour, Colour]

# Machado, Oliveira and Fernandes, "A Physiologically-based Model for Simulation of Color Vision Deficiency" (2009), at
# severity 1, for linear light.
EYES: dict[str, Matrix] = {
    "three cones": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "no L cones": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "no M cones": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "no S cones": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}


def linear(colour: str) -> Colour:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return red, green, blue


def times(matrix: Matrix, colour: Colour) -> Colour:
    red, green, blue = (sum(a * b for a, b in zip(row, colour, strict=True)) for row in matrix)
    return red, green, blue


def oklab(colour: Colour) -> Colour:
    """Björn Ottosson, "A perceptual color space for image processing" (2020)."""
    red, green, blue = (min(max(part, 0.0), 1.0) for part in colour)
    long = (0.4122214708 * red + 0.5363325363 * green + 0.0514459929 * blue) ** (1 / 3)
    middle = (0.2119034982 * red + 0.6806995451 * green + 0.1073969566 * blue) ** (1 / 3)
    short = (0.0883024619 * red + 0.2817188376 * green + 0.6299787005 * blue) ** (1 / 3)
    return (
        0.2104542553 * long + 0.7936177850 * middle - 0.0040720468 * short,
        1.9779984951 * long - 2.4285922050 * middle + 0.4505937099 * short,
        0.0259040371 * long + 0.7827717662 * middle - 0.8086757660 * short,
    )


def contrast(a: str, b: str) -> float:
    """As WCAG 2 defines it."""
    light = [0.2126 * red + 0.7152 * green + 0.0722 * blue for red, green, blue in (linear(a), linear(b))]
    return (max(light) + 0.05) / (min(light) + 0.05)


def colours(ground: str) -> dict[Kind, str]:
    return {kind: getattr(look, f"on_{ground}") for kind, look in PALETTE.items()}


@pytest.mark.parametrize("eyes", EYES)
@pytest.mark.parametrize("ground", ["light", "dark"])
def test_any_two_kinds_can_be_told_apart_by_their_colour(ground: str, eyes: str) -> None:
    seen = {kind: oklab(times(EYES[eyes], linear(colour))) for kind, colour in colours(ground).items()}
    nearest = min((math.dist(seen[a], seen[b]) * 100, a.value, b.value) for a, b in combinations(seen, 2))
    assert nearest[0] >= 10, nearest


@pytest.mark.parametrize("ground", ["light", "dark"])
def test_what_is_written_on_a_colour_can_be_read(ground: str) -> None:
    for look in PALETTE.values():
        assert contrast(getattr(look, f"on_{ground}"), getattr(look, f"ink_on_{ground}")) >= 4.5


def test_every_kind_has_a_look_and_a_letter_of_its_own() -> None:
    assert set(PALETTE) == set(Kind) == set(ORDER)
    assert len(ORDER) == len(Kind)
    assert ORDER == ON_PROCESSOR + OFF_PROCESSOR
    letters = [look.letter for look in PALETTE.values()]
    assert len(set(letters)) == len(letters)
    for look in PALETTE.values():
        assert len(look.letter) == 1
        assert look.letter.isascii()
        for colour in (look.on_light, look.ink_on_light, look.on_dark, look.ink_on_dark):
            assert re.fullmatch("#[0-9A-F]{6}", colour)
