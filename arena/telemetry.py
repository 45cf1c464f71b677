"""Traces for OpenTelemetry: requests, messages of the queue, and verdicts with their gates.

They go to OTEL_EXPORTER_OTLP_ENDPOINT. Without it nothing is imported and no span is made.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from django.http import HttpRequest, HttpResponse
from dramatiq import Broker, MessageProxy, Middleware

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"

_tracer: Any = None


def start(processor: Any = None) -> None:
    """Begin to make spans, for a span processor or else for the endpoint, if one is set."""
    global _tracer
    if processor is None and not os.environ.get(ENDPOINT):
        return
    from opentelemetry.sdk.trace import TracerProvider

    provider = TracerProvider()
    provider.add_span_processor(processor or _exporting())
    _tracer = provider.get_tracer("arena")


def stop() -> None:
    """Make no more spans."""
    global _tracer
    _tracer = None


@contextmanager
def span(name: str, carrier: Mapping[str, Any] | None = None, **about: Any) -> Iterator[Any]:
    """Time what is done within, as a part of the span around it, or of the one of a carrier.

    Yields: the span; None where none is made.
    """
    if _tracer is None:
        yield None
        return
    from opentelemetry import propagate

    context = propagate.extract(carrier) if carrier is not None else None
    with _tracer.start_as_current_span(name, context=context, attributes=about) as made:
        yield made


def record(name: str, seconds: float, **about: Any) -> None:
    """Record a span of so many seconds that ends now."""
    if _tracer is not None:
        now = time.time_ns()
        made = _tracer.start_span(name, start_time=now - int(seconds * 1e9), attributes=about)
        made.end(now)


class Requests:
    """Middleware that makes a span of each request, named by its method and route."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        with span(str(request.method)) as made:
            response = self._get_response(request)
            if made is not None:
                route = request.resolver_match.route if request.resolver_match else ""
                made.update_name(f"{request.method} /{route}".strip())
                made.set_attribute("http.request.method", str(request.method))
                made.set_attribute("http.route", f"/{route}")
                made.set_attribute("http.response.status_code", response.status_code)
                if request.resolver_match and "run_id" in request.resolver_match.kwargs:
                    made.set_attribute("run", request.resolver_match.kwargs["run_id"])
        return response


class Messages(Middleware):
    """Makes a span of each message of the queue, as a part of what sent it."""

    def __init__(self) -> None:
        self._open = threading.local()

    def before_process_message(self, broker: Broker, message: MessageProxy) -> None:
        self._open.span = span(f"message {message.actor_name}", message.options)
        self._open.span.__enter__()

    def after_process_message(self, broker: Broker, message: MessageProxy, **ended: Any) -> None:
        error = ended.get("exception")
        self._open.span.__exit__(type(error) if error else None, error, None)


def _exporting() -> Any:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    return BatchSpanProcessor(OTLPSpanExporter())


def carrier() -> dict[str, str]:
    """Return what leads from a message to the present span; empty where there is none."""
    found: dict[str, str] = {}
    if _tracer is not None:
        from opentelemetry import propagate

        propagate.inject(found)
    return found
