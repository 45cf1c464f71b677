"""Alerts: a request to ARENA_ALERT_URL when a worker stops to take work, and when it goes on."""

from __future__ import annotations

import json
import logging
import urllib.request
from collections.abc import Callable

from django.conf import settings

from arena.catalog.workers import Worker

logger = logging.getLogger(__name__)

TIMEOUT_SECONDS = 3.0
SILENT = "It is silent."


def send(text: str, worker: Worker) -> None:
    """Post a JSON object with `text`, as chats take it; a failure is logged."""
    body = {"text": text, "worker": worker.name, "machine": worker.machine}
    headers = {"Content-Type": "application/json"}
    data = json.dumps(body).encode()
    try:
        # The operator chose the address.
        request = urllib.request.Request(settings.ARENA_ALERT_URL, data, headers)  # noqa: S310
        urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS).close()  # noqa: S310
    except (OSError, ValueError) as error:
        logger.warning("no alert was sent for %s: %s", worker.name, error)


def watch(send: Callable[[str, Worker], None] = send) -> int:
    """Send an alert for each worker that stopped to take work or goes on; return their number.

    Each change is sent by one process, whichever updates the row first. A drained worker is no
    surprise, so nothing is sent for it.
    """
    if not settings.ARENA_ALERT_URL:
        return 0
    count = 0
    for worker in Worker.objects.filter(drained_by=""):
        problem = worker.problem if worker.live else SILENT
        changed = Worker.objects.filter(pk=worker.pk, alerted=not problem)
        if bool(problem) != worker.alerted and changed.update(alerted=bool(problem)):
            send(f"{worker.name} {_sentence(problem)}", worker)
            count += 1
    return count


def _sentence(problem: str) -> str:
    return f"takes no work: {problem}" if problem else "takes work again."
