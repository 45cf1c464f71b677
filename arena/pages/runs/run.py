"""The page of a run with its trace, and the parts that a live page reads."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from arena.accounts.auth import signed_in
from arena.errors import UserError
from arena.notes.context import notes_of
from arena.pages.answers import RefusalAsMessage
from arena.pages.charts.cards import run_card
from arena.pages.charts.files import chart_file
from arena.runs import experiments, services
from arena.runs.display.past import marks, past_of
from arena.runs.display.summary import shown_runs, summary_of
from arena.runs.models import Run
from arena.runs.services.runs import BUDGET_BOUNDS
from arena.runs.trace import exports, timeline
from arena.runs.trace.inspection import inspect
from arena.runs.trace.outline import outline
from arena.runs.trace.sifting import GATES, SUBJECTS, Sieve, chips, seek

TABS = {"trace": "Trace", "code": "Code", "results": "Results", "profile": "Profile"}
OF_TRACE = ("q", "at", "chunk", "show", "actor", "begin", "end")
"""Names in a query that are about the trace."""
EVENTS_OF_LANES = 5000
"""Events up to which the lanes of a run come with its page."""
SPEEDS = (1, 2, 5, 10, 20, 60)
"""Speeds of a replay, relative to the run."""


@require_safe
def run(request: HttpRequest, run_id: str) -> HttpResponse:
    shown = run_of(request, run_id)
    tab = _tab(request, shown)
    context = _summary(request, shown) | {"tab": tab, "tabs": TABS.items()}
    context["template"] = f"runs/tabs/{tab}.html"
    context["card"] = card = run_card(shown, context["rounds"])
    if file := chart_file(request, {"card": card.drawing, "rounds": card.chart}):
        return file
    context["lanes_later"] = shown.last_seq > EVENTS_OF_LANES
    if tab == "trace" and hasattr(shown, "archive"):
        context["template"] = "runs/tabs/archived.html"
        context["downloadable"] = shown.last_seq <= exports.MAX_EVENTS
    elif tab == "trace":
        context |= _stream(request, shown)
    if "at" in request.GET:
        context["outline"] = outline(shown.events.all(), _number(request, "at"))
        context |= _inspected(request, shown)
    return render(request, "run.html", context)


def _tab(request: HttpRequest, shown: Run) -> str:
    """Return the part of a run's page to show: by default the trace until there is a result.

    A kernel that was submitted without an agent has no trace worth following. A run that ended
    without a submission has nothing else.
    """
    asked = request.GET.get("tab", "")
    if asked in TABS:
        return asked
    of_trace = any(name in request.GET for name in OF_TRACE)
    has_result = shown.is_direct or (shown.ended and shown.submissions.exists())
    return "trace" if of_trace or not has_result else "results"


@require_safe
def summary(request: HttpRequest, run_id: str) -> HttpResponse:
    """Return the parts of a run's page that change while it runs, or as they were by `?upto=`."""
    shown = run_of(request, run_id)
    context = _summary(request, shown)
    template = "runs/_past.html" if context["replayed"] else "runs/_fresh.html"
    return render(request, template, context)


@require_safe
def events(request: HttpRequest, run_id: str) -> HttpResponse:
    """Return rows of the trace: `?chunk=` one chunk, `?after=` the new or changed rows above a seq.

    A live page requests what its socket did not send. The next cursor is in the headers.
    """
    shown = run_of(request, run_id)
    events = shown.events.all()
    if "chunk" in request.GET:
        rows, reached = timeline.chunk(events, _number(request, "chunk")).entries, shown.last_seq
    else:
        rows, reached = timeline.since(events, _number(request, "after"), shown.last_seq)
    context = {"entries": rows, "run": shown}
    response = render(request, "runs/_events.html", context)
    cursor = {
        "X-Arena-Cursor": str(reached),
        "X-Arena-Last-Seq": str(shown.last_seq),
        "X-Arena-Status": shown.status,
        "X-Arena-Ended": "1" if shown.ended else "0",
        "Cache-Control": "no-store",
    }
    for name, value in cursor.items():
        response.headers[name] = value
    return response


@require_safe
def lanes(request: HttpRequest, run_id: str) -> HttpResponse:
    """Return the lanes of a run, which a page of a long one requests after its rows."""
    return render(request, "runs/live/waterfall.html", summary_of(run_of(request, run_id)))


@require_safe
def part_of_outline(request: HttpRequest, run_id: str) -> HttpResponse:
    """Return the stops of a trace around `?at=`; of all of it if they are few."""
    shown = run_of(request, run_id)
    found = outline(shown.events.all(), _number(request, "at"))
    return render(request, "runs/live/outline.html", {"run": shown, "outline": found})


@require_safe
def inspector(request: HttpRequest, run_id: str) -> HttpResponse:
    """Return the pane of the event `?at=`: its figures, its notes, and how it is stored."""
    shown = run_of(request, run_id)
    context = {"run": shown, **_inspected(request, shown)}
    return render(request, "runs/_inspector.html", context)


def _inspected(request: HttpRequest, shown: Run) -> dict[str, Any]:
    seq = _number(request, "at")
    context = notes_of(shown, request.user, seq)
    context["notes_here"] = context.pop("notes")
    return context | {"inspected": inspect(shown.events.all(), shown.pk, seq)}


@require_safe
def seek_row(request: HttpRequest, run_id: str) -> JsonResponse:
    """Return the seq of the next row of a subject, or of the one before; null without one."""
    shown = run_of(request, run_id)
    condition = SUBJECTS.get(request.GET.get("to", ""), GATES)
    forward = "back" not in request.GET
    seq = seek(shown.events.all(), condition, _number(request, "from"), forward)
    return JsonResponse({"seq": seq})


@require_safe
def event(request: HttpRequest, run_id: str, seq: int) -> HttpResponse:
    """Show one row whole, with the result of a call, and as it is stored.

    An event that another row shows leads to that one.
    """
    shown = run_of(request, run_id)
    found = inspect(shown.events.all(), shown.pk, seq)
    if found is None and hasattr(shown, "archive"):
        return redirect(f"{shown.get_absolute_url()}?tab=trace")
    if found is None:
        raise Http404
    entry = found.entry
    if entry.seq != seq:
        return redirect("run-event", shown.pk, entry.seq)
    context = {"run": shown, "entries": [entry], "entry": entry, "inspected": found, "whole": True}
    context |= notes_of(shown, request.user, entry.seq)
    before, after = timeline.neighbours(shown.events.all(), seq, shown.last_seq)
    context |= {"before": before, "after": after}
    return render(request, "event.html", context)


@require_safe
def export(request: HttpRequest, run_id: str, form: str) -> HttpResponse:
    """Return the trace as one file to download.

    A refusal is no message: each would be a session of a visitor in the database.
    """
    shown = run_of(request, run_id)
    if form not in exports.FORMATS:
        raise Http404
    try:
        text = exports.export(shown, form)
    except UserError as error:
        plain = "text/plain; charset=utf-8"
        return HttpResponse(f"{error.text}\n", status=error.status, content_type=plain)
    response = HttpResponse(text, content_type=exports.FORMATS[form].content_type)
    response.headers["Content-Disposition"] = f'attachment; filename="{shown.pk}.{form}"'
    return response


@require_safe
def moments(request: HttpRequest, run_id: str) -> JsonResponse:
    """Return when each chunk of the trace begins, when it ends, and when more becomes known.

    Units: milliseconds since the run started.
    """
    shown = run_of(request, run_id)
    starts, ends = timeline.moments(shown.events.all())
    return JsonResponse({"starts": starts, "ends": ends, "marks": marks(shown.events.all())})


@require_POST
def continue_(request: HttpRequest, run_id: str) -> HttpResponse:
    """Continue a broken run and open the page of the new one."""
    if not request.user.is_authenticated:
        return redirect("login")
    with RefusalAsMessage(request):
        return redirect(services.continue_run(run_of(request, run_id), signed_in(request)))
    return redirect("run", run_id)


@require_POST
def cancel(request: HttpRequest, run_id: str) -> HttpResponse:
    if not request.user.is_authenticated:
        return redirect("login")
    with RefusalAsMessage(request):
        services.cancel_run(run_of(request, run_id), signed_in(request))
    return redirect("run", run_id)


def run_of(request: HttpRequest, run_id: str) -> Run:
    """Return the run of an address. Raises Http404 for one that the user may not see."""
    return get_object_or_404(shown_runs(request.user), pk=run_id)


def _number(request: HttpRequest, name: str) -> int:
    """Return a whole number of the query string; 0 for anything else."""
    text = request.GET.get(name, "")
    return int(text) if text.isdecimal() and len(text) < 10 else 0


def _summary(request: HttpRequest, shown: Run) -> dict[str, Any]:
    """Return the context of a run's page, without the trace."""
    may_change = Run.objects.changeable_by(request.user).contains(shown)
    of_user = not shown.by_arena and not shown.is_external
    upto = request.GET.get("upto", "")
    past = past_of(shown, _number(request, "upto")) if upto.isdecimal() else None
    return {
        **summary_of(shown, past),
        "again": _again(shown),
        "submit_again": (
            shown.is_direct and shown.owner == request.user and shown.task_version.task.takes_runs
        ),
        "notes": notes_of(shown, request.user)["notes"],
        "raw_output": shown.events.filter(kind="raw_output").order_by("seq").first(),
        "continued_by": Run.objects.filter(continues=shown).first(),
        "by_user": (shown.owner or experiments.OF_ANOTHER_ARENA) if of_user else None,
        "may_change": may_change,
        "may_cancel": may_change and not shown.ended and not shown.cancel_requested,
        "may_continue": may_change and services.can_continue(shown),
    }


def _again(shown: Run) -> str:
    """Return the query of a form that starts this run again; empty if that is impossible.

    The new run belongs to no experiment, and takes the hardware of an imported run from here.
    """
    task, agent = shown.task_version.task, shown.agent
    if not (agent.active and task.takes_runs):
        return ""
    values = {
        "task": task.slug,
        "agent": agent.slug,
        "hardware": "" if shown.imported_at else shown.hardware.slug,
        **{name: shown.budget[name] for name in BUDGET_BOUNDS if name in shown.budget},
        "label": "" if shown.experiment_id else shown.label,
        "visibility": shown.visibility,
    }
    return urlencode(values)


def _bounds(request: HttpRequest, sieve: Sieve) -> dict[str, Any]:
    """Return the chosen time as it was asked for, and the query without it."""
    known = {"begin": sieve.begin_ms, "end": sieve.end_ms}
    timeless = request.GET.copy()
    for name in known:
        timeless.pop(name, None)
    timeless["tab"] = "trace"
    bounds = {name: request.GET[name] for name, at in known.items() if at is not None}
    return {"bounds": bounds, "timeless": timeless.urlencode(safe=",")}


def _stream(request: HttpRequest, shown: Run) -> dict[str, Any]:
    """Return the part of the trace that the query names: a search, a chunk, or the newest."""
    words, sieve = request.GET.get("q", "").strip()[:200], Sieve.of(request.GET)
    events = shown.events.all()
    subjects, actors = chips(events, request.GET)
    found: dict[str, Any] = {"query": words, "sieve": sieve, "subjects": subjects, "actors": actors}
    found |= _bounds(request, sieve)
    if words or sieve:
        rows = timeline.matching(events, words, sieve.condition, _number(request, "from"))
        hits = [(entry, entry.excerpt(words.casefold())) for entry in rows.entries]
        more = request.GET.copy()
        more["from"] = str(rows.more_after)
        next_page = more.urlencode(safe=",") if rows.more_after else ""
        return found | {
            "found": rows.entries,
            "hits": hits,
            "more": next_page,
            "whole": bool(words),
        }
    if _number(request, "at") > shown.last_seq:
        found["beyond"] = _number(request, "at")
    last = timeline.chunk_of(shown.last_seq)
    if "at" in request.GET:
        numbers = [min(timeline.chunk_of(_number(request, "at")), last)]
    elif "chunk" in request.GET:
        numbers = [min(_number(request, "chunk"), last)]
    else:
        numbers = list(range(max(last - 1, 0), last + 1))
    address = reverse("run", args=[shown.pk])
    return found | {
        "exports": exports.FORMATS.items(),
        "chunks": [timeline.chunk(shown.events.all(), number) for number in numbers],
        "older": f"{address}?chunk={numbers[0] - 1}#trace" if numbers[0] else "",
        "newer": f"{address}?chunk={numbers[-1] + 1}#trace" if numbers[-1] < last else "",
        "speeds": SPEEDS,
    }
