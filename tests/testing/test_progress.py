from __future__ import annotations

import json

from hypothesis import given
from tests.ledgers import ledgers

from headway.model import Kind, Ledger, Quality
from headway.testing.progress import Piece, Progress, piece_of, together

from .progresses import pieces, progresses


@given(pieces, pieces, pieces)
def test_pieces_add_up_in_any_grouping_and_order(a: Piece, b: Piece, c: Piece) -> None:
    assert (a + b) + c == a + (b + c)
    assert a + b == b + a


@given(pieces)
def test_a_piece_is_the_same_on_both_ends_of_the_pipe(piece: Piece) -> None:
    assert Piece.of_document(json.loads(json.dumps(piece.to_document()))) == piece


@given(progresses)
def test_progress_is_the_same_where_the_report_arrives(progress: Progress) -> None:
    assert Progress.of_document(json.loads(json.dumps(progress.to_document()))) == progress


@given(progresses)
def test_a_figure_is_missing_just_where_its_quality_says_so(progress: Progress) -> None:
    for index in ("rpi", "epi", "mpi", "kpi", "iopi", "te"):
        assert (getattr(progress, index) is None) == (progress.quality[index] is Quality.UNAVAILABLE)


@given(ledgers())
def test_what_belongs_to_a_test_and_what_does_not_is_all_there_is(ledger: Ledger) -> None:
    first = {thread.key for thread in ledger.threads[:1]}
    ours = piece_of(ledger, lambda thread: thread.key in first)
    theirs = piece_of(ledger, lambda thread: thread.key not in first)
    whole = piece_of(ledger, lambda thread: True)
    assert whole.others == 0
    for kind in Kind:
        assert ours.time[kind] + theirs.time[kind] == whole.time[kind]
    own = sum(time for thread in ledger.threads[:1] for kind, time in thread.times().items() if kind.in_rpi)
    assert theirs.others == own


@given(pieces, pieces)
def test_the_indices_are_those_of_all_pieces_together(a: Piece, b: Piece) -> None:
    apart = together(([a], 3), ([b], 4))
    assert apart == together(([a, b], 7))
    assert apart.unit == ("cycles" if a.cycles is not None and b.cycles is not None else "ns")
    if apart.rpi is not None:
        amounts = [piece.cycles if apart.unit == "cycles" else piece.time for piece in (a, b)]
        assert apart.rpi == sum(had[kind] for had in amounts if had is not None for kind in Kind if kind.in_rpi)
