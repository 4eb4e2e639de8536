"""The verdict: where the time of the threads that work went, and why, in at most three sentences.

It is made of a ledger and of nothing else, so each view that has a ledger has the same verdict.
"""

from typing import TYPE_CHECKING

from headway.lazy import lazily

from .why import Why

if TYPE_CHECKING:
    from .judging import MOST, Verdict, verdict
else:
    __getattr__ = lazily(__name__, {".judging": "MOST Verdict verdict"})

__all__ = ["MOST", "Verdict", "Why", "verdict"]
