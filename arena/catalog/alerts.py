"""Alerts: a request to ARENA_ALERT_URL when workers stop taking work, and when they go on."""

from __future__ import annotations

import json
import logging
import threading
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any

from django.conf import settings
from django.db import DatabaseError, connection

from arena.catalog.workers import Worker

logger = logging.getLogger(__name__)

TIMEOUT_SECONDS = 3.0
SILENT = "It is silent."


def send(texts: Mapping[str, str]) -> bool:
    """Post a JSON object with the `text` of all alerts, as chats take it; a failure is logged.

    `texts` is by name of a worker. Returns: whether the receiver took it.
    """
    body = {"text": "\n".join(texts.values()), "workers": list(texts)}
    return post(settings.ARENA_ALERT_URL, body)


def post(url: str, body: Mapping[str, Any]) -> bool:
    """Post a JSON object; a failure is logged. Return whether the receiver took it."""
    headers = {"Content-Type": "application/json"}
    data = json.dumps(body).encode()
    try:
        # The arena's admins chose the address.
        request = urllib.request.Request(url, data, headers)  # noqa: S310
        urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS).close()  # noqa: S310
    except (OSError, ValueError) as error:
        logger.warning("no alert was sent: %s; it was: %s", error, body["text"])
        return False
    return True


def in_thread(call: Callable[[], None]) -> None:
    """Call in a thread, which the end of this process waits for."""

    def run() -> None:
        try:
            call()
        except DatabaseError:
            logger.exception("an alert that was not sent is not sent again")
        finally:
            connection.close()  # that of the thread

    threading.Thread(target=run, name="alerts").start()


def watch(start: Callable[[Callable[[], None]], None] = in_thread) -> int:
    """Alert of the workers that stopped taking work or go on, all in one; return their number.

    Each change is sent by one process, whichever updates the row first. A drained worker is no
    surprise, so nothing is sent for it. What could not be sent is a change again at the next call.
    """
    if not settings.ARENA_ALERT_URL:
        return 0
    texts: dict[str, str] = {}
    alerted: dict[int, bool] = {}
    for worker in Worker.objects.filter(drained_by=""):
        problem = worker.problem if worker.live else SILENT
        changed = Worker.objects.filter(pk=worker.pk, alerted=not problem)
        if bool(problem) != worker.alerted and changed.update(alerted=bool(problem)):
            texts[worker.name] = f"{worker.name} {_sentence(problem)}"
            alerted[worker.pk] = bool(problem)

    def post() -> None:
        if not send(texts):
            for pk, value in alerted.items():
                Worker.objects.filter(pk=pk, alerted=value).update(alerted=not value)

    if texts:
        start(post)
    return len(texts)


def _sentence(problem: str) -> str:
    return f"takes no work: {problem}" if problem else "takes work again."
