"""The pages of drafts: the list, a new one, one with its review, and its difference."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import PurePosixPath

from django.contrib import messages
from django.core.files.uploadedfile import UploadedFile
from django.core.paginator import Paginator
from django.db.models import Prefetch, Q
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from arena.accounts.access import reviewers_only, staff_only
from arena.accounts.auth import signed_in
from arena.accounts.models import User, reviewers_among
from arena.catalog.models import Operator, Task
from arena.curation import archives, checks, drafts, files, short_form
from arena.curation.files import BadFiles
from arena.curation.models import Check, Draft
from arena.curation.validation import lacks_tolerance, problems_of
from arena.errors import Conflict, Invalid, NotFound, UserError
from arena.filters import words_of
from arena.pages.answers import RefusalAsMessage, refusal
from arena.runs.code.sources import changes
from evaluation.tasks.spec import CATEGORIES

MAX_CLOSED = 20
STATES = {
    "published": Q(status=Task.Status.PUBLISHED),
    "retired": Q(status=Task.Status.RETIRED),
    "no folder": Q(in_tree=False),
}
"""Choices of the list of tasks."""
OPERATORS_A_PAGE = 20
INCORRECT = "No draft was made: correct the marked fields."


@require_safe
@reviewers_only
def index(request: HttpRequest) -> HttpResponse:
    """List open drafts, the newest closed ones, and the operators with their tasks, by pages."""
    words = words_of(request)
    named_drafts = Draft.objects.named(words).select_related("author").defer("files")
    chosen = Prefetch("reviewers", reviewers_among(User.objects.all()))
    listed = named_drafts.prefetch_related(chosen)
    waiting = listed.waiting_for(signed_in(request))
    rest = listed.open().exclude(pk__in=[each.pk for each in waiting])
    groups = {"Waiting for your review": waiting, "Open drafts": rest}
    state = request.GET.get("state", "")
    named = Task.objects.named(words)
    if state in STATES:
        named = named.filter(STATES[state])
    operators = Operator.objects.filter(pk__in=named.values("operator")).order_by("slug")
    page = Paginator(operators, OPERATORS_A_PAGE).get_page(request.GET.get("page"))
    tasks = named.filter(operator__in=list(page)).select_related("operator")
    context = {
        "words": words,
        "state": state if state in STATES else "",
        "states": STATES,
        "page": page,
        "open": {title: found for title, found in groups.items() if found},
        "closed": listed.exclude(state__in=("draft", "review", "approved"))[:MAX_CLOSED],
        "tasks": tasks.order_by("operator__slug", "track"),
    }
    return render(request, "curate/index.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@reviewers_only
def new(request: HttpRequest) -> HttpResponse:
    """Create drafts by form, or from an archive or a folder."""
    context: dict[str, object] = {
        "suffixes": archives.SUFFIXES,
        "short": short_form.EXAMPLE,
        "chosen": short_form.LANGUAGES[:2],
        "languages": short_form.LANGUAGES,
        "categories": CATEGORIES,
    }
    if request.method == "POST":
        try:
            made = _create(request)
        except UserError as error:
            context |= _refused(_form_of(request.POST), request.POST, error)
            return render(request, "curate/new.html", context, status=error.status)
        if len(made) > 1:
            messages.success(request, f"{len(made)} drafts were made.")
            return redirect("curate")
        return redirect("draft", made[0].pk)
    return render(request, "curate/new.html", context)


def _form_of(given: QueryDict) -> str:
    """Return which of the three forms was sent."""
    sent = str(given.get("from"))
    return sent if sent in ("short", "form") else "upload"


def _refused(form: str, given: QueryDict, error: UserError) -> dict[str, object]:
    """Return what the page shows of an error: beside its form, and at the fields of that form."""
    wrong = error.fields if form != "upload" and isinstance(error, Invalid) else {}
    shown: dict[str, object] = {
        "error": {form: INCORRECT if wrong else refusal(error)},
        "wrong": {form: wrong},
        "given": {form: given},
    }
    if form == "short":
        shown |= {"short": given, "chosen": given.getlist("languages")}
    return shown


def _create(request: HttpRequest) -> list[Draft]:
    user = signed_in(request)
    name = request.POST.get("name", "").strip()
    form = _form_of(request.POST)
    if form == "form":
        return [drafts.create_from_form(user, name, request.POST.get("title", ""))]
    if form == "short":
        texts = {name: request.POST.get(name, "") for name in short_form.TEXTS}
        short = short_form.ShortForm(languages=tuple(request.POST.getlist("languages")), **texts)
        return drafts.create(user, {name: short.files()}, "the short form")
    found, origin = _uploaded(request)
    if "" not in found:
        return drafts.create(user, found, origin, rename="Rename the folder.")
    if not name:
        raise BadFiles(
            "The archive has no folder around its task.", "Give the name of the task, too."
        )
    return drafts.create(user, {name: found.pop(""), **found}, origin)


def _uploaded(request: HttpRequest) -> tuple[dict[str, dict[str, str]], str]:
    """Return the task folders of an uploaded archive or folder. Raises BadFiles."""
    uploads = request.FILES.getlist("folder")
    archive = request.FILES.get("archive")
    if isinstance(archive, UploadedFile):
        if (archive.size or 0) > archives.MAX_UPLOAD_BYTES:
            raise BadFiles(
                f"The archive is {archive.size} bytes.",
                f"The limit is {archives.MAX_UPLOAD_BYTES} bytes.",
            )
        entries = archives.files_in(archive.read())
        return files.folders_of(entries), f"the archive {str(archive.name)[:100]}"
    if uploads:
        paths = request.POST.getlist("paths")
        if len(paths) != len(uploads):
            raise BadFiles("The browser did not send the paths.", "Upload an archive instead.")
        if sum(each.size or 0 for each in uploads) > archives.MAX_UNPACKED_BYTES:
            raise BadFiles("The folder is too large.", "Upload the folder of one task.")
        named = (
            (archives.safe_path(path), each.read())
            for path, each in zip(paths, uploads, strict=True)
        )
        return files.folders_of(named), f"the folder {PurePosixPath(paths[0]).parts[0][:100]}"
    raise BadFiles("Nothing was uploaded.", "Choose an archive or a folder.")


@require_safe
@reviewers_only
def draft(request: HttpRequest, pk: int) -> HttpResponse:
    """Show a draft: its files and problems, its checks, its reviews, and what comes next."""
    shown = get_object_or_404(Draft.objects.select_related("author"), pk=pk)
    user = signed_in(request)
    found = problems_of(shown.name, shown.files) if shown.is_open else []
    refused = drafts.fit_problem(shown) if found else None
    of_draft = Check.objects.filter(draft=shown).select_related("hardware", "requested_by")
    context = {
        "draft": shown,
        "files": [(path, len(text.encode())) for path, text in sorted(shown.files.items())],
        "problems": [refused] if refused else found,
        "lacks_tolerance": bool(found) and not refused and lacks_tolerance(shown.name, shown.files),
        "fitted": drafts.fitted(shown) if shown.is_open else None,
        "lacking": drafts.lacking(shown) if shown.is_open and not found else [],
        "checks": of_draft,
        "unjudged": drafts.unjudged(shown) if shown.state == "approved" and not found else [],
        "checking": any(check.active for check in of_draft),
        "hardware": checks.hardware_for_checks() if shown.is_open else [],
        "reviews": shown.reviews.select_related("reviewer"),
        "may_review": drafts.reviewer_problem(shown, user) is None,
        "reviewers": shown.chosen_reviewers(),
        "others": shown.possible_reviewers().exclude(pk__in=shown.reviewers.all()),
        "published": Task.objects.filter(operator__slug=shown.name).select_related("operator"),
    }
    return render(request, "curate/draft.html", context)


@require_safe
@reviewers_only
def diff(request: HttpRequest, pk: int) -> HttpResponse:
    """Compare a draft with the published version of its operator."""
    shown = get_object_or_404(Draft, pk=pk)
    before = drafts.published_files(shown.name)
    context = {"draft": shown, "before": before, "changes": changes(before, shown.files)}
    return render(request, "curate/diff.html", context)


@require_POST
@reviewers_only
def act(request: HttpRequest, pk: int, action: str) -> HttpResponse:
    """Do one thing with a draft, and show the draft with what came of it."""
    shown = get_object_or_404(Draft, pk=pk)
    with RefusalAsMessage(request):
        if (do := ACTIONS.get(action)) is None:
            raise NotFound(f"There is no action {action!r}.")
        messages.success(request, do(request, shown, signed_in(request)))
    return redirect("draft", pk)


def _check(request: HttpRequest, draft: Draft, user: User) -> str:
    check = checks.request_check(draft, user, request.POST.get("hardware", ""))
    return f"The check waits for {check.hardware.name}."


def _fit(request: HttpRequest, draft: Draft, user: User) -> str:
    check = checks.request_fit(draft, user, request.POST.get("hardware", ""))
    return f"The fit waits for {check.hardware.name}."


def _use_fit(request: HttpRequest, draft: Draft, user: User) -> str:
    drafts.use_fit(draft, user)
    return "The tolerance is a file of the draft now: run the checks."


def _request_review(request: HttpRequest, draft: Draft, user: User) -> str:
    drafts.request_review(draft, user)
    return "A second person can review it now."


def _add_reviewer(request: HttpRequest, draft: Draft, user: User) -> str:
    chosen = drafts.add_reviewer(draft, user, request.POST.get("reviewer", ""))
    return f"{chosen} is a reviewer of this draft now."


def _remove_reviewer(request: HttpRequest, draft: Draft, user: User) -> str:
    name = request.POST.get("reviewer", "")
    drafts.remove_reviewer(draft, user, name)
    return f"{name} is no reviewer of this draft any more."


def _review(request: HttpRequest, draft: Draft, user: User) -> str:
    approved = request.POST.get("decision") == "approve"
    content_hash, comment = request.POST.get("content", ""), request.POST.get("comment", "")
    drafts.review(draft, user, content_hash, approved, comment)
    return "Approved: staff can publish it." if approved else "Returned to its author."


def _publish(request: HttpRequest, draft: Draft, user: User) -> str:
    if not request.POST.get("unjudged") and (tracks := drafts.unjudged(draft)):
        raise Conflict(f"No check has judged {', '.join(tracks)}.", "Confirm to publish them too.")
    versions = drafts.publish(draft, user)
    return f"Published: {', '.join(version.task.slug for version in versions)}."


def _discard(request: HttpRequest, draft: Draft, user: User) -> str:
    drafts.discard(draft, user)
    return "Discarded."


def _replace(request: HttpRequest, draft: Draft, user: User) -> str:
    found, origin = _uploaded(request)
    if set(found) - {draft.name, ""} or len(found) != 1:
        raise BadFiles(
            f"The upload must have the one folder {draft.name}.", "Make a new draft for others."
        )
    drafts.replace_files(draft, user, next(iter(found.values())), origin)
    return "All files were replaced."


ACTIONS: Mapping[str, Callable[[HttpRequest, Draft, User], str]] = {
    "check": _check,
    "fit": _fit,
    "use-fit": _use_fit,
    "request-review": _request_review,
    "add-reviewer": _add_reviewer,
    "remove-reviewer": _remove_reviewer,
    "review": _review,
    "publish": _publish,
    "discard": _discard,
    "replace": _replace,
}


@require_POST
@reviewers_only
def of_task(request: HttpRequest, operator: str) -> HttpResponse:
    """Create a draft of the published files of an operator."""
    with RefusalAsMessage(request):
        return redirect("draft", drafts.edit_published(signed_in(request), operator).pk)
    return redirect("curate")


@require_POST
@staff_only
def task_status(request: HttpRequest, operator: str, track: str) -> HttpResponse:
    """Retire a task, or publish it again, with a reason."""
    task = get_object_or_404(Task, operator__slug=operator, track=track)
    status, reason = request.POST.get("status", ""), request.POST.get("reason", "")
    with RefusalAsMessage(request):
        drafts.set_task_status(task, signed_in(request), status, reason)
        messages.success(request, f"{task} is {task.status} now.")
    return redirect(f"{reverse('curate')}?{QueryDict(request.POST.get('back', '')).urlencode()}")
