"""Metrics as text: OpenMetrics 1.0, and the earlier text format 0.0.4.

headway writes the text itself, because it is written up to ten times a second for thousands of series whose labels
hardly change. `benchmarks/serve.py` compares it with prometheus_client, whose parser the tests use to read it.

https://prometheus.io/docs/specs/om/open_metrics_spec/
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from headway.model import TraceContext

from .families import HISTOGRAM_LIMITS, Family, Histogram, Labels, Sort

__all__ = ["CONTENT_TYPE", "PLAIN_CONTENT_TYPE", "write"]

CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
PLAIN_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_SUFFIX = {Sort.COUNTER: "_total", Sort.GAUGE: "", Sort.INFO: "_info", Sort.HISTOGRAM: ""}
_PLAIN_SORT = {Sort.COUNTER: "counter", Sort.GAUGE: "gauge", Sort.INFO: "gauge", Sort.HISTOGRAM: "histogram"}
_LIMITS = tuple(f',le="{limit!r}"' for limit in HISTOGRAM_LIMITS)


def write(families: Iterable[Family], *, plain: bool = False) -> str:
    """Return all families as text. ``plain``: in the text format 0.0.4. Values have all digits of a float."""
    lines: list[str] = []
    for family in families:
        lines += _family(family, plain)
    if not plain:
        lines.append("# EOF\n")
    return "".join(lines)


def _family(family: Family, plain: bool) -> list[str]:
    sample = family.name + _SUFFIX[family.sort]
    name, sort = (sample, _PLAIN_SORT[family.sort]) if plain else (family.name, family.sort.value)
    unit = f"# UNIT {name} {family.unit}\n" if family.unit and not plain else ""
    said = family.help.replace("\\", "\\\\").replace("\n", "\\n")
    lines = [f"# HELP {name} {said}\n# TYPE {name} {sort}\n{unit}"]
    last: Labels | None = None
    shared = ""
    for common, own, value in family.samples:
        if common is not last:  # many consecutive samples share the same labels object
            shared, last = _text(common), common
        labels = shared + _cached_text(own) if own else shared
        line = f"{sample}{{{labels[1:]}}} {value!r}" if labels else f"{sample} {value!r}"
        if not plain and family.exemplars and common in family.exemplars:
            line += _exemplar(family.exemplars[common])
        lines.append(line + "\n")
    for one in family.histograms:
        lines += _histogram(family.name, one)
    return lines


def _exemplar(context: TraceContext) -> str:
    """Return the span in which a counter grew by 1, and when."""
    return (
        f' # {{trace_id="{context.trace}",span_id="{context.span}"}} 1 {context.at // 10**9}.{context.at % 10**9:09d}'
    )


def _histogram(name: str, one: Histogram) -> list[str]:
    """Return the samples of a histogram: how many values are at most each limit, the number of all, and their sum."""
    labels = (_text(one.common) + _cached_text(one.own))[1:]
    lines = [f"{name}_bucket{{{labels}{le}}} {below}\n" for le, below in zip(_LIMITS, one.below, strict=True)]
    lines.append(f'{name}_bucket{{{labels},le="+Inf"}} {one.count}\n')
    lines.append(f"{name}_count{{{labels}}} {one.count}\n{name}_sum{{{labels}}} {one.total!r}\n")
    return lines


def _text(labels: Labels) -> str:
    """Return the labels, each with a comma before it."""
    return "".join([f',{name}="{_escaped(value)}"' for name, value in labels])


@lru_cache(maxsize=8192)
def _cached_text(labels: Labels) -> str:
    return _text(labels)


def _escaped(value: str) -> str:
    if "\\" in value or '"' in value or "\n" in value:
        return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return value
