"""Parsing of the plugin's options. Every pytest loads this module, so it imports nothing of headway."""

from __future__ import annotations

import argparse

__all__ = ["percent", "percent_option", "rounds_option"]


def percent(text: str) -> float:
    """Return text such as ``10%`` as a share of one. Raises ValueError with a sentence."""
    words = text.strip()
    number = words.removesuffix("%").strip()
    try:
        value = float(number) / 100
    except ValueError:
        value = -1.0
    if not words.endswith("%") or not 0 <= value < 1e6:
        raise ValueError(f"{text!a} is not a threshold: write it like 10%")
    return value


def percent_option(text: str) -> float:
    """Return `percent` for argparse. Raises ArgumentTypeError with a sentence."""
    try:
        return percent(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def rounds_option(text: str) -> int:
    """Return a number of rounds for argparse. Raises ArgumentTypeError with a sentence."""
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:7]) <= 100_000):
        raise argparse.ArgumentTypeError(f"{text!a} is not a number of rounds: give 1 to 100000")
    return int(text)
