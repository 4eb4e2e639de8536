"""Metrics sent by the OpenTelemetry protocol, with OpenTelemetry's SDK (the extra ``otlp``).

The SDK's instruments keep every set of attributes for ever. So its data classes are filled from a snapshot, whose
number of series is bounded, and its exporter sends them. Names are OpenTelemetry's: ``headway.thread.state`` with the
unit ``s`` becomes ``headway_thread_state_seconds_total`` in Prometheus. The names of attributes are OpenTelemetry's
too, where it has one: ``k8s.pod.uid`` is the label ``k8s_pod_uid``. It has none for tasks: those are
``headway.task.name`` and ``headway.task.id``. A task that is a span is linked to it by an exemplar.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from typing import Any

from headway._version import __version__
from headway.errors import HeadwayError
from headway.extras import need
from headway.model import TraceContext

from .families import HISTOGRAM_LIMITS, Family, Histogram, Sort
from .totals import TotalsSnapshot

__all__ = ["PushExporter", "interval_seconds"]

_UNITS = {"seconds": "s", "bytes": "By", "": "1"}
_ATTRIBUTES = {
    "k8s_pod_uid": "k8s.pod.uid",
    "container_id": "container.id",
    "systemd_unit_name": "systemd.unit.name",
    "systemd_user_unit_name": "systemd.user_unit.name",
    "systemd_slice_name": "systemd.slice.name",
    "cgroup": "process.linux.cgroup",
    "task_name": "headway.task.name",
    "task_id": "headway.task.id",
    "spans": "headway.task.spans",
}
_DEFAULT_INTERVAL = 60.0
_MIN_INTERVAL = 0.1


def interval_seconds() -> float:
    """Return the seconds between two pushes: OTEL_METRIC_EXPORT_INTERVAL (in ms), or 60. Raises HeadwayError."""
    text = os.environ.get("OTEL_METRIC_EXPORT_INTERVAL", "")
    if not text.strip():
        return _DEFAULT_INTERVAL
    try:
        seconds = float(text) / 1000
    except ValueError:
        seconds = 0.0
    if not _MIN_INTERVAL <= seconds < 1e6:
        raise HeadwayError(
            f"OTEL_METRIC_EXPORT_INTERVAL is {text!a}: give a number of milliseconds, 100 or more, or unset it"
        )
    return seconds


class PushExporter:
    """Sends metrics to one address."""

    def __init__(self, address: str) -> None:
        """``address``: that of a collector, ``http://HOST:PORT``. Raises HeadwayError if the SDK is not installed."""
        if not address.startswith(("http://", "https://")) or len(address.split("://", 1)[1]) < 1:
            raise HeadwayError(f"{address!a} is not the address of a collector: give one like http://localhost:4318")
        need("otlp")
        from opentelemetry.exporter.otlp.proto.http import metric_exporter
        from opentelemetry.sdk.metrics import Exemplar, export
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope

        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)  # the caller reports a failure once
        address = address.rstrip("/")
        if not address.endswith("/v1/metrics"):
            address += "/v1/metrics"
        self._types: Any = export
        self._exemplar: Any = Exemplar
        self._exporter: Any = metric_exporter.OTLPMetricExporter(endpoint=address)
        self._resource = Resource.create(
            {"service.name": "headway", "service.version": __version__, "host.name": os.uname().nodename}
        )
        self._scope = InstrumentationScope("headway", __version__)
        self.address = address
        """The address with its path."""

    def push(self, snapshot: TotalsSnapshot, families: Iterable[Family]) -> bool:
        """Send the families and return whether they arrived. Blocks until then, limited by the SDK's settings."""
        starts = {one.labels: one.since for one in snapshot.series}
        metrics = [self._metric(family, snapshot, starts) for family in families]
        export = self._types
        scope = export.ScopeMetrics(scope=self._scope, metrics=metrics, schema_url="")
        resource = export.ResourceMetrics(resource=self._resource, scope_metrics=[scope], schema_url="")
        result = self._exporter.export(export.MetricsData(resource_metrics=[resource]))
        return bool(result is export.MetricExportResult.SUCCESS)

    def close(self) -> None:
        """Stop sending. A push in progress gives up."""
        self._exporter.shutdown()

    def _metric(self, family: Family, snapshot: TotalsSnapshot, starts: dict[Any, int]) -> Any:
        export, epoch = self._types, snapshot.epoch
        if family.sort is Sort.HISTOGRAM:
            data = export.Histogram(
                data_points=[self._distribution(one, snapshot, starts) for one in family.histograms],
                aggregation_temporality=export.AggregationTemporality.CUMULATIVE,
            )
            return self._named(family, data)
        points = [
            export.NumberDataPoint(
                attributes={_ATTRIBUTES.get(name, name): value for name, value in (*common, *own)},
                start_time_unix_nano=starts.get(common, snapshot.began) + epoch,
                time_unix_nano=snapshot.at + epoch,
                value=figure,
                exemplars=self._exemplars(family.exemplars.get(common)),
            )
            for common, own, figure in family.samples
        ]
        if family.sort is Sort.COUNTER:
            cumulative = export.AggregationTemporality.CUMULATIVE
            data = export.Sum(data_points=points, aggregation_temporality=cumulative, is_monotonic=True)
        else:
            data = export.Gauge(data_points=points)
        return self._named(family, data)

    def _exemplars(self, context: TraceContext | None) -> list[Any]:
        """Return the link to the span in which a counter grew by 1."""
        if context is None:
            return []
        return [
            self._exemplar(
                filtered_attributes={},
                value=1,
                time_unix_nano=context.at,
                span_id=context.span_id,
                trace_id=context.trace_id,
            )
        ]

    def _distribution(self, one: Histogram, snapshot: TotalsSnapshot, starts: dict[Any, int]) -> Any:
        below = (*one.below, one.count)
        return self._types.HistogramDataPoint(
            attributes={_ATTRIBUTES.get(name, name): value for name, value in (*one.common, *one.own)},
            start_time_unix_nano=starts.get(one.common, snapshot.began) + snapshot.epoch,
            time_unix_nano=snapshot.at + snapshot.epoch,
            count=one.count,
            sum=one.total,
            bucket_counts=[later - earlier for earlier, later in zip((0, *below[:-1]), below, strict=True)],
            explicit_bounds=list(HISTOGRAM_LIMITS),
            min=None,
            max=None,
        )

    def _named(self, family: Family, data: Any) -> Any:
        export = self._types
        name = family.name.removesuffix(f"_{family.unit}").replace("_", ".")
        return export.Metric(name=name, description=family.help, unit=_UNITS[family.unit], data=data)
