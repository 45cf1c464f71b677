"""Pages of runs: the list, a run with its trace, a round, and the parts that a live page reads."""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import Any, cast
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.cache import cache
from django.core.exceptions import EmptyResultSet
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from arena.accounts.auth import signed_in
from arena.accounts.models import User
from arena.audit.services import record_of_staff
from arena.catalog.models import Hardware, Task, TaskQuerySet, TaskVersion
from arena.catalog.templatetags.figures import Scale
from arena.errors import UserError
from arena.filters import unknown_value
from arena.runs import agents, experiments, services
from arena.runs.forms import StartForm, initial_of
from arena.runs.models import Run, Submission
from arena.runs.past import marks, past_of
from arena.runs.querysets import RunQuerySet
from arena.runs.rounds import rounds_of
from arena.runs.services.runs import BUDGET_BOUNDS
from arena.runs.sources import changes, sources
from arena.runs.states import EvaluationStatus, RunStatus, Scope
from arena.runs.summary import shown_runs, summary_of, verdict_of
from arena.runs.trace import timeline
from arena.runs.trace.outline import outline
from arena.runs.trace.sifting import GATES, SUBJECTS, Sieve, chips, seek

RUNS_A_PAGE = 50
COUNT_SECONDS = 10
COUNTED_EACH_TIME = 10_000
"""Runs up to which their number is counted for each request."""
FILTERS = ("task", "agent", "hardware", "status", "experiment")
TABS = {"trace": "Trace", "code": "Code", "results": "Results", "profile": "Profile"}
OF_TRACE = ("q", "at", "chunk", "show", "actor")
"""Names in a query that are about the trace."""
EVENTS_OF_LANES = 5000
"""Events up to which the lanes of a run come with its page."""
SPEEDS = (1, 2, 5, 10, 20, 60)
"""Speeds of a replay, relative to the run."""


@require_safe
def runs(request: HttpRequest) -> HttpResponse:
    chosen = {name: request.GET.get(name, "").replace("\0", "") for name in FILTERS}
    tasks = Task.objects.visible_to(request.user)
    named = _named(tasks, chosen["task"])
    found = Run.objects.visible_to(request.user).with_names()
    found = found.matching(**{**chosen, "task": ""})
    if named is not None:
        versions = TaskVersion.objects.filter(task__in=named).values_list("pk", flat=True)
        found = found.filter(task_version__in=list(versions))  # a list, which PostgreSQL can plan
    page = RunPaginator(found, RUNS_A_PAGE).get_page(request.GET.get("page"))
    context = {
        "page": page,
        "scale": Scale.over(page, "unseen_low", "unseen_high"),
        "chosen": chosen,
        "statuses": RunStatus.values,
        "problems": _unknown(request, chosen, named),
        "agents": agents.visible_to(request.user),
        "devices": Hardware.objects.all(),
        "experiments": experiments.visible_to(request.user),
    }
    return render(request, "runs.html", context)


class RunPaginator(Paginator):  # type: ignore[type-arg]  # it takes none when it runs
    """Pages of runs. The number of very many is that of some seconds ago: it takes long to count.

    A small number is always the present one, so that a new run is on the page at once.
    """

    @cached_property
    def count(self) -> int:
        runs = cast(RunQuerySet, self.object_list)
        try:
            text = repr(runs.query.sql_with_params())
        except EmptyResultSet:  # its filters leave nothing
            return 0
        key = f"runs:{hashlib.sha256(text.encode()).hexdigest()}"
        if (kept := cache.get(key)) is not None:
            return cast(int, kept)
        number = runs.count()
        if number > COUNTED_EACH_TIME:
            cache.set(key, number, COUNT_SECONDS)
        return number


def _named(tasks: TaskQuerySet, text: str) -> TaskQuerySet | None:
    """Return the tasks that a text names: one, those of an operator, or those with its words."""
    operator, _, track = text.partition("/")
    if not text:
        return None
    exact = tasks.filter(operator__slug=operator, **({"track": track} if track else {}))
    return exact if exact.exists() else tasks.named(text.replace("/", " "))


def _unknown(request: HttpRequest, chosen: dict[str, str], named: TaskQuerySet | None) -> list[str]:
    """Return a sentence for each filter of runs whose value stands for nothing here."""
    known = {
        "task": named if named is not None else Task.objects.none(),
        "agent": agents.visible_to(request.user).filter(slug=chosen["agent"]),
        "hardware": Hardware.objects.filter(slug=chosen["hardware"]),
        "experiment": experiments.visible_to(request.user).filter(slug=chosen["experiment"]),
    }
    found = [
        unknown_value(name, chosen[name])
        for name, rows in known.items()
        if chosen[name] and not rows.exists()
    ]
    statuses = set(filter(None, chosen["status"].split(",")))
    if unknown := sorted(statuses - set(RunStatus.values)):
        known_ones = ", ".join(RunStatus.values)
        found.append(f"There is no status “{unknown[0][:100]}”. Known: {known_ones}.")
    return found


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def start(request: HttpRequest) -> HttpResponse:
    """Show the form that starts runs, filled in from the query, or start what it names.

    With `estimate` in the form, only show it again with its estimate.
    """
    user = signed_in(request)
    if request.method != "POST":
        form = StartForm(user, initial=initial_of(request.GET))
        return render(request, "start.html", {"form": form})
    form = StartForm(user, request.POST)
    if form.is_valid() and "estimate" not in request.POST:
        try:
            return redirect(_started(request, form, user))
        except UserError as error:
            form.add_error(None, error.text)
    return render(request, "start.html", {"form": form}, status=422 if form.errors else 200)


def _started(request: HttpRequest, form: StartForm, user: User) -> str:
    """Start the runs of a valid form; return the address of the run or of the experiment."""
    if single := form.single():
        run = services.start_run(owner=user, **single)
        record_of_staff(user, "run.start", run)
        return run.get_absolute_url()
    visibility = form.cleaned_data["visibility"]
    started = experiments.start(form.plan(), owner=user, visibility=visibility)
    left_out = [*form.pairs.left_out, *started.left_out]
    if left_out:
        more = f" And {len(left_out) - 1} more." if len(left_out) > 1 else ""
        messages.warning(request, f"Left out: {left_out[0]}{more}")
    return reverse("experiment", args=[started.experiment.slug])


@require_POST
def continue_experiment(request: HttpRequest, slug: str) -> HttpResponse:
    """Continue the interrupted runs of an experiment."""
    if not request.user.is_authenticated:
        return redirect("login")
    found = get_object_or_404(experiments.visible_to(request.user), slug=slug)
    try:
        runs = experiments.continue_interrupted(found, signed_in(request))
    except UserError as error:
        messages.error(request, error.text)
    else:
        messages.success(request, f"{len(runs)} run{'s' if len(runs) > 1 else ''} continued.")
    return redirect("experiment", slug)


@require_safe
def run(request: HttpRequest, run_id: str) -> HttpResponse:
    shown = _run(request, run_id)
    tab = _tab(request, shown)
    context = _summary(request, shown) | {"tab": tab, "tabs": TABS.items()}
    context["template"] = f"runs/tabs/{tab}.html"
    context["lanes_later"] = shown.last_seq > EVENTS_OF_LANES
    if tab == "trace":
        context |= _stream(request, shown)
    if "at" in request.GET:
        context["outline"] = outline(shown.events.all(), _number(request, "at"))
    return render(request, "run.html", context)


def _tab(request: HttpRequest, shown: Run) -> str:
    """Return the part of a run's page to show: by default the trace until there is a result.

    A kernel that was submitted without an agent has no trace worth following.
    """
    asked = request.GET.get("tab", "")
    if asked in TABS:
        return asked
    of_trace = any(name in request.GET for name in OF_TRACE)
    return "trace" if of_trace or not (shown.ended or shown.is_direct) else "results"


@require_safe
def summary(request: HttpRequest, run_id: str) -> HttpResponse:
    """Return the parts of a run's page that change while it runs, or as they were by `?upto=`."""
    shown = _run(request, run_id)
    context = _summary(request, shown)
    template = "runs/_past.html" if context["replayed"] else "runs/_fresh.html"
    return render(request, template, context)


@require_safe
def events(request: HttpRequest, run_id: str) -> HttpResponse:
    """Return rows of the trace: `?chunk=` one chunk, `?after=` the new or changed rows above a seq.

    A live page requests what its socket did not send. The next cursor is in the headers.
    """
    shown = _run(request, run_id)
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
    return render(request, "runs/live/waterfall.html", summary_of(_run(request, run_id)))


@require_safe
def part_of_outline(request: HttpRequest, run_id: str) -> HttpResponse:
    """Return the stops of a trace around `?at=`; of all of it if they are few."""
    shown = _run(request, run_id)
    found = outline(shown.events.all(), _number(request, "at"))
    return render(request, "runs/live/outline.html", {"run": shown, "outline": found})


@require_safe
def seek_row(request: HttpRequest, run_id: str) -> JsonResponse:
    """Return the seq of the next row of a subject, or of the one before; null without one."""
    shown = _run(request, run_id)
    condition = SUBJECTS.get(request.GET.get("to", ""), GATES)
    forward = "back" not in request.GET
    seq = seek(shown.events.all(), condition, _number(request, "from"), forward)
    return JsonResponse({"seq": seq})


@require_safe
def event(request: HttpRequest, run_id: str, seq: int) -> HttpResponse:
    """Show one event whole, with the result of a call, and as it is stored."""
    shown = _run(request, run_id)
    entries = timeline.folded(shown.events.all(), list(shown.events.filter(seq=seq)))
    if not entries:
        raise Http404
    entry = entries[0]
    stored = [each.event.envelope() for each in (entry, entry.result) if each]
    context = {"run": shown, "entries": entries, "entry": entry, "stored": stored, "whole": True}
    context |= {"before": seq - 1, "after": seq + 1}
    return render(request, "event.html", context)


@require_safe
def moments(request: HttpRequest, run_id: str) -> JsonResponse:
    """Return when each chunk of the trace begins, when it ends, and when more becomes known.

    Units: milliseconds since the run started.
    """
    shown = _run(request, run_id)
    starts, ends = timeline.moments(shown.events.all())
    return JsonResponse({"starts": starts, "ends": ends, "marks": marks(shown.events.all())})


@require_safe
def one_round(request: HttpRequest, run_id: str, number: int) -> HttpResponse:
    shown = _run(request, run_id)
    submission = get_object_or_404(Submission, run=shown, round=number)
    before = shown.submissions.filter(round=number - 1).first()
    files = before.files if before else shown.task_version.public.get("starter", {})
    baseline = {path: text for path, text in files.items() if path in submission.files}
    every = rounds_of(shown)
    this = next(r for r in every if r.number == number)
    profiles = submission.evaluations.filter(scope=Scope.PROFILE, status=EvaluationStatus.DONE)
    context = {
        "run": shown,
        "round": this,
        "profiles": profiles.order_by("pk"),
        "sources": sources(submission.files),
        "changes": changes(baseline, submission.files),
        "before": before.files if before else {},
        "against": f"round {number - 1}" if before else "the starter files",
        "previous": number - 1 if before else None,
        "next": number + 1 if number < len(every) else None,
        **verdict_of(shown, this.evaluation),
    }
    return render(request, "round.html", context)


@require_safe
def file(request: HttpRequest, run_id: str, number: int, path: str) -> HttpResponse:
    """Return a file of a round as text."""
    submission = get_object_or_404(Submission, run=_run(request, run_id), round=number)
    if path not in submission.files:
        raise Http404
    return HttpResponse(submission.files[path], content_type="text/plain; charset=utf-8")


@require_POST
def continue_(request: HttpRequest, run_id: str) -> HttpResponse:
    """Continue a broken run and open the page of the new one."""
    if not request.user.is_authenticated:
        return redirect("login")
    try:
        return redirect(services.continue_run(_run(request, run_id), signed_in(request)))
    except UserError as error:
        messages.error(request, error.text)
    return redirect("run", run_id)


@require_POST
def cancel(request: HttpRequest, run_id: str) -> HttpResponse:
    if not request.user.is_authenticated:
        return redirect("login")
    try:
        services.cancel_run(_run(request, run_id), signed_in(request))
    except UserError as error:
        messages.error(request, error.text)
    return redirect("run", run_id)


def _run(request: HttpRequest, run_id: str) -> Run:
    return get_object_or_404(shown_runs(request.user), pk=run_id)


def _number(request: HttpRequest, name: str) -> int:
    """Return a whole number of the query string; 0 for anything else."""
    text = request.GET.get(name, "")
    return int(text) if text.isdecimal() and len(text) < 10 else 0


def _summary(request: HttpRequest, shown: Run) -> dict[str, Any]:
    """Return the context of a run's page, without the trace."""
    owned = request.user.is_staff or (
        request.user.is_authenticated and shown.owner_id == request.user.pk
    )
    upto = request.GET.get("upto", "")
    past = past_of(shown, _number(request, "upto")) if upto.isdecimal() else None
    return {
        **summary_of(shown, past),
        "again": _again(shown),
        "raw_output": shown.events.filter(kind="raw_output").order_by("seq").first(),
        "continued_by": Run.objects.filter(continues=shown).first(),
        "owned": owned,
        "may_cancel": owned and not shown.ended and not shown.cancel_requested,
        "may_continue": owned and services.can_continue(shown),
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


def _stream(request: HttpRequest, shown: Run) -> dict[str, Any]:
    """Return the part of the trace that the query names: a search, a chunk, or the newest."""
    words, sieve = request.GET.get("q", "").strip()[:200], Sieve.of(request.GET)
    events = shown.events.all()
    subjects, actors = chips(events, request.GET)
    found: dict[str, Any] = {"query": words, "sieve": sieve, "subjects": subjects, "actors": actors}
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
        "chunks": [timeline.chunk(shown.events.all(), number) for number in numbers],
        "older": f"{address}?chunk={numbers[0] - 1}#trace" if numbers[0] else "",
        "newer": f"{address}?chunk={numbers[-1] + 1}#trace" if numbers[-1] < last else "",
        "speeds": SPEEDS,
    }
