"""What is pushed: the figures that are served, under OpenTelemetry's names."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.views.metrics.readings import ledger, thread

from headway.model import Cell, Task, TraceContext
from headway.views.metrics.families import families
from headway.views.metrics.otlp import PushExporter
from headway.views.metrics.totals import Totals

pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="needs the extra otlp")


def pushed(totals: Totals) -> dict[str, Any]:
    """The metrics that are sent, by name."""
    sent: list[Any] = []
    exporter = PushExporter("http://localhost:1")

    class Taker:
        def export(self, data: Any) -> None:
            sent.append(data)

    exporter._exporter = Taker()
    snapshot = totals.snapshot()
    exporter.push(snapshot, families(snapshot))
    ((resource,),) = [data.resource_metrics for data in sent]
    (scope,) = resource.scope_metrics
    return {metric.name: metric for metric in scope.metrics}


def test_where_a_process_belongs_has_opentelemetrys_names() -> None:
    where = {
        "k8s_pod_uid": "k8s.pod.uid",
        "container_id": "container.id",
        "systemd_unit_name": "systemd.unit.name",
        "cgroup": "process.linux.cgroup",
    }
    totals = Totals(place_of=lambda pid: tuple((name, f"of {name}") for name in where))
    totals.add(ledger(0, 1, thread(1, "a", user=1)))
    (point,) = pushed(totals)["headway.thread.state"].data.data_points
    place = {attribute: f"of {name}" for name, attribute in where.items()}
    assert point.attributes == {
        "pid": "1",
        "process": "a",
        "thread": "a",
        **place,
        "state": "user",
        "kind": "effective",
    }
    assert point.value == 1e-9


def test_tasks_have_their_names_and_ids_as_attributes() -> None:
    tasks = (Task("checkout", 0, 3, {"user": Cell(5)}), Task("", 2**64 - 1, 1, {"wait.futex": Cell(2)}))
    one = replace(thread(1, "a", user=6, wait_futex=2), tasks=tasks)
    totals = Totals()
    totals.add(ledger(0, 10, one))
    sent = pushed(totals)
    points = {tuple(sorted(point.attributes.items())): point.value for point in sent["headway.task"].data.data_points}
    assert points == {
        (("headway.task.name", "checkout"), ("kind", "effective"), ("process", "a")): 5e-9,
        (("headway.task.id", str(2**64 - 1)), ("kind", "wait"), ("process", "a")): 2e-9,
        (("kind", "effective"), ("process", "a")): 1e-9,
    }
    changes = {
        point.attributes.get("headway.task.name"): point.value
        for point in sent["headway.task.changes"].data.data_points
    }
    assert changes == {"checkout": 3, None: 1}


def test_a_task_that_is_a_span_is_linked_to_it() -> None:
    context = TraceContext(0x4BF92F3577B34DA6A3CE929D0E0E4736, 0x00F067AA0BA902B7, 5)
    one = replace(thread(1, "a", user=5), tasks=(Task("checkout", 0, 3, {"user": Cell(5)}, context=context),))
    totals = Totals()
    totals.add(ledger(0, 10, one))
    changes, times = (pushed(totals)[name].data.data_points for name in ("headway.task.changes", "headway.task"))
    ((exemplar,),) = [point.exemplars for point in changes]
    assert (exemplar.trace_id, exemplar.span_id, exemplar.value) == (*context[:2], 1)
    assert exemplar.time_unix_nano == totals.snapshot().epoch + 5
    assert not any(point.exemplars for point in times)


def test_links_are_encoded_as_opentelemetry_has_them() -> None:
    from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics

    context = TraceContext(0x4BF92F3577B34DA6A3CE929D0E0E4736, 0x00F067AA0BA902B7, 5)
    one = replace(thread(1, "a", user=5), tasks=(Task("checkout", 0, 3, {"user": Cell(5)}, context=context),))
    totals = Totals()
    totals.add(ledger(0, 10, one))
    sent: list[Any] = []
    exporter = PushExporter("http://localhost:1")

    class Taker:
        def export(self, data: Any) -> None:
            sent.append(encode_metrics(data))

    exporter._exporter = Taker()
    exporter.push(totals.snapshot(), families(totals.snapshot()))
    (message,) = sent
    metrics = {metric.name: metric for metric in message.resource_metrics[0].scope_metrics[0].metrics}
    (exemplar,) = metrics["headway.task.changes"].sum.data_points[0].exemplars
    assert exemplar.trace_id == bytes.fromhex("4bf92f3577b34da6a3ce929d0e0e4736")
    assert exemplar.span_id == bytes.fromhex("00f067aa0ba902b7")
    assert exemplar.as_int == 1
