"""State of the arena for its operator's tools: liveness, readiness, and figures for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db.models import Count, Min
from django.db.models.functions import Now
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_safe
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from arena import queue
from arena.accounts.auth import TokenAuth
from arena.accounts.models import Scope
from arena.catalog.checkouts import schema_problem
from arena.catalog.models import Hardware, Worker
from arena.errors import UserError
from arena.leases import database_time
from arena.runs.models import Evaluation, Run
from arena.runs.states import EVALUATION_ACTIVE, RUN_ACTIVE

LATELY = timedelta(hours=1)
NO_STORE = {"Cache-Control": "no-store"}


@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """Answer while this process serves, without looking at any other."""
    return HttpResponse("ok\n", "text/plain", headers=NO_STORE)


@require_safe
def readyz(request: HttpRequest) -> HttpResponse:
    """Answer 200 when the database, its tables and the queue are there, else 503 and why."""
    problems = {
        "database": schema_problem(),
        "queue": "" if queue.is_reachable() else "unreachable",
    }
    missing = {name: text for name, text in problems.items() if text}
    return JsonResponse(
        {"ready": not missing, **missing}, status=503 if missing else 200, headers=NO_STORE
    )


@csrf_exempt
@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Show figures in Prometheus's text format to staff, by a session or a token that may read."""
    if not request.user.is_staff and not _by_token(request):
        text = "Send `Authorization: Bearer TOKEN`, a token of a member of the staff.\n"
        return HttpResponse(text, "text/plain", status=401, headers={"WWW-Authenticate": "Bearer"})
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Figures())
    return HttpResponse(generate_latest(registry), CONTENT_TYPE_LATEST, headers=NO_STORE)


@require_safe
def robots(request: HttpRequest) -> HttpResponse:
    """Let crawlers read what is public, but no page that computes for each query."""
    closed = ("account", "admin", "api", "curate", "login", "sign-in", "analysis", "compare")
    lines = ["User-agent: *", *(f"Disallow: {settings.PREFIX}/{each}/" for each in closed)]
    return HttpResponse("\n".join(lines) + "\n", content_type="text/plain")


def _by_token(request: HttpRequest) -> bool:
    try:
        user = TokenAuth(Scope.READ)(request)
    except UserError:
        return False
    return user is not None and user.is_staff


class Figures(Collector):
    """Queues, workers, work and verdicts, read from the database at each scrape."""

    def collect(self) -> Iterator[Metric]:
        names = [queue.AGENTS, queue.BUILD, *Hardware.objects.values_list("queue", flat=True)]
        lengths = {(name,): queue.length(name) for name in names}
        yield _gauge("arena_queue_messages", "Messages that no worker took", ["queue"], lengths)
        yield from self._work()
        yield from self._workers()
        verdicts = Evaluation.objects.filter(ended_at__gt=Now() - LATELY).exclude(verdict="")
        yield _gauge(
            "arena_verdicts_last_hour",
            "Verdicts of the last hour",
            ["hardware", "verdict", "judge"],
            _counted(verdicts, "hardware__slug", "verdict", "judge_version"),
        )
        interrupted = Evaluation.objects.filter(ended_at__gt=Now() - LATELY, interruptions__gt=0)
        yield _gauge(
            "arena_interrupted_last_hour",
            "Evaluations that ended in the last hour and had lost a worker",
            ["hardware"],
            _counted(interrupted, "hardware__slug"),
        )
        offset = (timezone.now() - database_time()).total_seconds()
        text = "Clock of the web server less that of the database"
        yield _gauge("arena_clock_offset_seconds", text, [], {(): offset})

    def _work(self) -> Iterator[Metric]:
        runs = Run.objects.filter(status__in=RUN_ACTIVE)
        yield _gauge("arena_runs", "Runs that have not ended", ["status"], _counted(runs, "status"))
        active = Evaluation.objects.filter(status__in=EVALUATION_ACTIVE)
        label = ["hardware", "status"]
        keys = ("hardware__slug", "status")
        text = "Evaluations that have not ended"
        yield _gauge("arena_evaluations", text, label, _counted(active, *keys))
        now = database_time()
        oldest = active.order_by().values_list(*keys).annotate(first=Min("created_at"))
        ages = {(slug, status): (now - first).total_seconds() for slug, status, first in oldest}
        text = "Age of the oldest evaluation that has not ended"
        yield _gauge("arena_oldest_evaluation_seconds", text, label, ages)

    def _workers(self) -> Iterator[Metric]:
        found: dict[tuple[str, ...], float] = {}
        for worker in Worker.objects.all():
            state = ("unfit" if worker.problem else "fit") if worker.live else "silent"
            for name in worker.queues:
                found[name, state] = found.get((name, state), 0) + 1
        yield _gauge("arena_workers", "Workers by queue and state", ["queue", "state"], found)


def _counted(rows: Any, *keys: str) -> dict[tuple[str, ...], float]:
    counts = rows.order_by().values_list(*keys).annotate(count=Count("pk"))
    return {tuple(map(str, labels)): count for *labels, count in counts}


def _gauge(name: str, text: str, labels: list[str], values: Mapping[Any, float]) -> Metric:
    found = GaugeMetricFamily(name, text, labels=labels)
    for key, value in values.items():
        found.add_metric(list(key), value)
    return found
