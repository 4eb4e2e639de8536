"""The text, as the parsers of prometheus_client read it: for every snapshot the figures that the families have."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ledgers import HOSTILE_NAMES
from tests.views.metrics.readings import ledger, snapshots, thread, totals_of

from headway.model import Cell, Durations, Estimate, Ledger, Overhead, Thread, Window, bucket_of
from headway.views.metrics.families import HISTOGRAM_LIMITS, Family, Sort, families
from headway.views.metrics.openmetrics import write
from headway.views.metrics.totals import By, Cost, Totals, TotalsSnapshot
from headway.views.printable import clean

openmetrics = pytest.importorskip("prometheus_client.openmetrics.parser", reason="needs prometheus_client")
plain_text = pytest.importorskip("prometheus_client.parser", reason="needs prometheus_client")

Read = dict[tuple[str, frozenset[tuple[str, str]]], float]
_SUFFIX = {Sort.COUNTER: "_total", Sort.GAUGE: "", Sort.INFO: "_info", Sort.HISTOGRAM: ""}


def expected(found: Iterable[Family]) -> Read:
    wanted: Read = {}
    for family in found:
        for common, own, value in family.samples:
            wanted[family.name + _SUFFIX[family.sort], frozenset((*common, *own))] = value
        for one in family.histograms:
            labels = (*one.common, *one.own)
            for limit, below in zip((*map(repr, HISTOGRAM_LIMITS), "+Inf"), (*one.below, one.count), strict=True):
                wanted[f"{family.name}_bucket", frozenset((*labels, ("le", limit)))] = below
            wanted[f"{family.name}_count", frozenset(labels)] = one.count
            wanted[f"{family.name}_sum", frozenset(labels)] = one.total
    return wanted


def read(parsed: Iterable[object]) -> Read:
    samples: Read = {}
    for family in parsed:
        for sample in family.samples:  # type: ignore[attr-defined]
            key = sample.name, frozenset(sample.labels.items())
            assert key not in samples
            samples[key] = sample.value
    return samples


@given(snapshots, st.booleans())
def test_the_text_has_the_figures_of_the_snapshot(snapshot: TotalsSnapshot, counts: bool) -> None:
    cost = Cost(1_500_000_000, 4096)
    wanted = expected(families(snapshot, counts=counts, serving=cost))
    text = write(families(snapshot, counts=counts, serving=cost))
    assert read(openmetrics.text_string_to_metric_families(text)) == wanted
    assert text.endswith("# EOF\n")
    plain = write(families(snapshot, counts=counts, serving=cost), plain=True)
    assert read(plain_text.text_string_to_metric_families(plain)) == wanted
    assert "# EOF" not in plain


@given(snapshots)
def test_each_family_says_what_it_is_and_is_named_as_openmetrics_wants(snapshot: TotalsSnapshot) -> None:
    found = list(families(snapshot))
    assert len({family.name for family in found}) == len(found)
    parsed = list(openmetrics.text_string_to_metric_families(write(families(snapshot))))
    for family, seen in zip(found, parsed, strict=True):
        assert (seen.name, seen.type, seen.unit) == (family.name, family.sort.value, family.unit)
        assert seen.documentation == family.help
        assert not family.unit or family.name.endswith(family.unit)
        assert not family.name.endswith("_total")


@given(snapshots)
def test_indices_are_the_models(snapshot: TotalsSnapshot) -> None:
    (found,) = (family for family in families(snapshot) if family.name == "headway_thread_index_seconds")
    values = {(common, dict(own)["index"]): value for common, own, value in found.samples}
    for series in snapshot.series:
        indices = series.amounts().indices(snapshot.precision)
        for name in ("rpi", "epi", "mpi", "kpi", "iopi", "td"):
            figure = getattr(indices, name)
            assert values.get((series.labels, name)) == (None if figure is None else figure / 1e9)


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_hostile_names_come_through_and_do_no_harm(name: str) -> None:
    text = write(families(totals_of([ledger(0, 1, thread(1, name, user=10**9))]).snapshot()))
    text.encode()
    assert all(line.isprintable() for line in text.split("\n"))
    key = (
        "headway_thread_state_seconds_total",
        frozenset(
            {
                ("pid", "1"),
                ("process", clean(name, 64)),
                ("thread", clean(name, 64)),
                ("state", "user"),
                ("kind", "effective"),
            }
        ),
    )
    assert read(openmetrics.text_string_to_metric_families(text))[key] == 1.0


def test_a_quote_a_backslash_and_a_brace_in_a_name() -> None:
    name = 'a"} 1\\n'
    text = write(families(totals_of([ledger(0, 1, thread(1, name, user=1))]).snapshot()))
    assert 'thread="a\\"} 1\\\\n",state="user"' in text


def test_what_was_divided_by_samples_is_told_apart() -> None:
    cells = {"user": Cell(700, 1), "kernel.read": Cell(300, 1)}
    by_samples = {"user": Estimate(350, 7), "kernel.read": Estimate(225, 3)}
    one = Thread(1, 1, "a", 0, 0, None, 1000, 1000, cells, sampled=by_samples)
    snapshot = totals_of([Ledger("bpf", Window(0, 1000), (one,))]).snapshot()
    found = expected(families(snapshot))
    who = {("pid", "1"), ("process", "a"), ("thread", "a")}

    def value(name: str, *labels: tuple[str, str]) -> float | None:
        return found.get((name, frozenset(labels)))

    assert value("headway_thread_sampled_seconds_total", *who, ("kind", "effective")) == 350e-9
    assert value("headway_thread_samples_total", *who, ("kind", "kernel")) == 3
    shares = [value("headway_index_exact_share", ("index", index)) for index in ("rpi", "epi", "mpi", "kpi", "iopi")]
    assert shares == [1, 0.5, 0, 0.25, 0.425]
    assert value("headway_index_quality", ("index", "kpi"), ("quality", "sampled")) == 1
    assert value("headway_index_quality", ("index", "iopi"), ("quality", "partial")) == 1
    plain = totals_of([Ledger("bpf", Window(0, 1000), (Thread(1, 1, "a", 0, 0, None, 1000, 1000, cells),))]).snapshot()
    names = {family.name for family in families(plain)}
    assert "headway_index_exact_share" in names
    assert "headway_thread_samples" not in names


def test_durations_are_a_histogram_whose_limits_are_powers_of_two_of_a_nanosecond() -> None:
    lengths = [900, 1024, 1025, 5000, 100 << 30]
    buckets: dict[int, int] = {}
    for length in lengths:
        buckets[bucket_of(length)] = buckets.get(bucket_of(length), 0) + 1
    lasted = {"ready": Durations(tuple(sorted(buckets.items())), 1, 2, 1)}
    cells = {"ready": Cell(sum(lengths), 8)}
    one = Thread(1, 1, "a", 0, 0, None, 1000, 1000, cells, durations=lasted)
    snapshot = totals_of([Ledger("bpf", Window(0, 1000), (one,))]).snapshot()
    found = read(openmetrics.text_string_to_metric_families(write(families(TotalsSnapshot.unpack(snapshot.pack())))))
    labels = frozenset({("pid", "1"), ("process", "a"), ("thread", "a"), ("state", "ready"), ("kind", "ready")})
    name = "headway_thread_state_duration_seconds"

    def below(limit: str) -> float:
        return found[f"{name}_bucket", labels | {("le", limit)}]

    assert [below(limit) for limit in ("1.024e-06", "2.048e-06", "4.096e-06", "8.192e-06")] == [2, 3, 3, 4]
    assert [below("17.179869184"), below("+Inf"), found[f"{name}_count", labels]] == [4, 5, 5]
    assert found[f"{name}_sum", labels] == pytest.approx(sum(lengths) / 1e9)
    assert found["headway_thread_state_unknown_durations_total", labels] == 2


def test_histograms_without_room_are_added_up_in_the_rest_and_departed_ones_stay() -> None:
    lasted = {"ready": Durations(((12, 3),))}

    def at(start: int, tid: int, end: int | None) -> Ledger:
        cells = {"ready": Cell(10, 3)}
        one = Thread(tid, tid, "a", start, start, end, start + 10, 10, cells, durations=lasted)
        return Ledger("bpf", Window(start, start + 10), (one,), overhead=Overhead(0, 0))

    totals = totals_of([at(0, 1, None), at(10, 2, 20)], most=20)
    assert dict(totals.snapshot().rest.durations) == {"ready": ({12: 6}, 0)}
    roomy = Totals(By.PROCESS, expire=5)
    for ledger_ in (at(0, 1, 10), at(10, 2, None)):
        roomy.add(ledger_)
    snapshot = roomy.snapshot()
    assert dict(snapshot.departed.durations) == {"ready": ({12: 3}, 0)}
    assert [one.durations for one in snapshot.series] == [{"ready": ({12: 3}, 0)}]
    text = write(families(snapshot))
    assert 'headway_departed_thread_state_duration_seconds_count{state="ready",kind="ready"} 3' in text
