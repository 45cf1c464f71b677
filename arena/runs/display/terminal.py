"""Terminal output of a run: one line for each event that matters."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from arena.runs.models import Event, Run
from arena.runs.trace.ansi import without_escapes

POLL_SECONDS = 0.3


def follow(run: Run, after: int = 0) -> Iterator[Event]:
    """Yield every event above `after` as it comes, until the run has ended."""
    while True:
        run.refresh_from_db(fields=["status", "last_seq"])
        events = Event.objects.filter(run=run, seq__gt=after, seq__lte=run.last_seq)
        for event in events.order_by("seq").iterator():
            after = event.seq
            yield event
        if run.ended:
            return
        time.sleep(POLL_SECONDS)


def line_of(event: Event) -> str:
    """Return one line for an event; empty for an event that a terminal does not show."""
    text = _one_line(_text(event.kind, event.body) or "")
    return text and f"{event.t_ms / 1000:8.1f}s  {text}"


def verdict_of(run: Run) -> str:
    """Return the result of a run in one line."""
    words = [f"{run.task_version.task} by {run.agent} on {run.hardware}: {run.status}"]
    kind = run.task_version.task.kind
    if run.speedup is not None and not kind.one_speedup:
        words.append(f"{speedup(run.speedup, run.low, run.high)} on public cases")
    if run.unseen_speedup is not None:
        unseen = speedup(run.unseen_speedup, run.unseen_low, run.unseen_high)
        words.append(f"{unseen} {kind.labels.short if kind.one_speedup else 'on held-out cases'}")
    if run.reason:
        words.append(run.reason)
    return _one_line(", ".join(words))


def _one_line(text: str) -> str:
    """Return a text of others without what a terminal would obey, in one line."""
    shown = without_escapes(text).replace("\n", " ").replace("\t", " ")
    return "".join(filter(str.isprintable, shown)).rstrip()


def speedup(value: float, low: float | None, high: float | None) -> str:
    interval = f" [{low:.2f}, {high:.2f}]" if low is not None and high is not None else ""
    return f"{value:.2f}x{interval}"


def _text(kind: str, body: dict[str, Any]) -> str | None:
    match kind:
        case "status":
            return f"{body['state']}{': ' if body['reason'] else ''}{body['reason']}"
        case "span_begin" if body["span_kind"] == "submission":
            files = ", ".join(f"{path} {size} bytes" for path, size in body["files"].items())
            return f"round {body['round']}: {files}  {body['note']}"
        case "compiler_output" if not body["ok"]:
            lines = body["text"].strip().splitlines() or ["no message"]
            return f"         {body['tool']} failed: {lines[0]}"
        case "gate_result":
            why = " ".join(filter(None, (body["reason"], body["message"])))
            return f"         {body['gate']:<15} {body['verdict']}  {why}".rstrip()
        case "metric" if body["name"] == "speedup" and body["value"] is not None:
            number = speedup(body["value"], body["low"], body["high"])
            best = "" if body["best"] is None else f", best {body['best']:.2f}x"
            return f"         {'speedup':<15} {number}{best}"
        case "message" if body["role"] == "assistant":
            return f"agent: {_first_line(body['text'])}"
        case "tool_call":
            return f"agent: {body['tool']}"
        case "log" if body["level"] in ("warning", "error"):
            return f"{body['level']}: {_first_line(body['text'])}"
        case "note" | "limit" | "interrupt":
            return _first_line(body["text"])
        case "error":
            return f"error: {_first_line(body['message'])}"
        case _:
            return None


def _first_line(text: str, width: int = 160) -> str:
    first, _, rest = text.strip().partition("\n")
    return f"{first[:width]} …" if rest or len(first) > width else first
