"""Spans of requests and messages, in an exporter of this process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dramatiq
import pytest
from django.test import Client
from dramatiq.brokers.stub import StubBroker
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from arena import queue, telemetry
from arena.runs.models import Run


@pytest.fixture
def exporter() -> Iterator[InMemorySpanExporter]:
    """Record the spans of a test."""
    exporter = InMemorySpanExporter()
    telemetry.start(SimpleSpanProcessor(exporter))
    yield exporter
    telemetry.stop()


def message(options: dict[str, str]) -> Any:
    return dramatiq.MessageProxy(dramatiq.Message("build", "build", (7,), {}, options))


def test_request_is_a_span_with_its_route_and_its_run(
    exporter: InMemorySpanExporter, client: Client, settings: Any, start: Callable[..., Run]
) -> None:
    settings.MIDDLEWARE = ["arena.telemetry.Requests", *settings.MIDDLEWARE]
    run = start()
    client.get(f"/api/v1/runs/{run.pk}")
    client.get("/nowhere/")
    known, unknown = exporter.get_finished_spans()
    assert known.name == "GET /api/v1/runs/<run_id>"
    assert known.attributes["run"] == run.pk
    assert known.attributes["http.response.status_code"] == 200
    assert unknown.attributes["http.response.status_code"] == 404


@pytest.mark.django_db
def test_message_is_a_part_of_the_request_that_sent_it(
    exporter: InMemorySpanExporter, settings: Any, django_capture_on_commit_callbacks: Any
) -> None:
    settings.HEADLESS = True  # the queue is in this process
    with django_capture_on_commit_callbacks(execute=True), telemetry.span("request"):
        queue.enqueue("build", "telemetry", 7)
    sent = dramatiq.Message.decode(queue.broker().queues["telemetry"].get_nowait())
    messages, broker = telemetry.Messages(), StubBroker()
    messages.before_process_message(broker, message(sent.options))
    telemetry.record("gate compile", 0.5, verdict="passed")
    messages.after_process_message(broker, message(sent.options))
    spans = {span.name: span for span in exporter.get_finished_spans()}
    request, working, gate = (spans[n] for n in ("request", "message build", "gate compile"))
    assert working.parent.span_id == request.context.span_id
    assert gate.parent.span_id == working.context.span_id
    assert working.context.trace_id == request.context.trace_id
    assert gate.end_time - gate.start_time == 500_000_000


def test_message_that_fails_is_a_span_with_the_error(exporter: InMemorySpanExporter) -> None:
    messages, broker = telemetry.Messages(), StubBroker()
    messages.before_process_message(broker, message({}))
    error = ValueError("no such kernel")
    messages.after_process_message(broker, message({}), exception=error)
    (failed,) = exporter.get_finished_spans()
    assert not failed.status.is_ok and failed.parent is None


def test_telemetry_without_an_endpoint_imports_nothing_and_makes_no_span(
    repository: Path, tmp_path: Path
) -> None:
    program = (
        "import sys, django; django.setup(); from arena import asgi, telemetry\n"
        "from django.conf import settings\n"
        "with telemetry.span('x') as made: assert made is None\n"
        "assert telemetry.carrier() == {} and 'opentelemetry.sdk' not in sys.modules\n"
        "assert not any('telemetry' in each for each in settings.MIDDLEWARE)\n"
    )
    environment = {
        "ARENA_HOME": str(tmp_path), "DJANGO_SETTINGS_MODULE": "arena.settings", "PATH": "",
    }  # fmt: skip
    subprocess.run([sys.executable, "-c", program], cwd=repository, env=environment, check=True)
