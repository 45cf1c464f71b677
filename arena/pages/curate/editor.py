"""The page that edits one file of a draft, and the validation while somebody types."""

from __future__ import annotations

import json

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from arena.accounts.access import reviewers_only
from arena.accounts.auth import signed_in
from arena.curation import drafts, files
from arena.curation.models import Draft
from arena.curation.validation import problems_of
from arena.errors import UserError


@require_http_methods(["GET", "HEAD", "POST"])
@reviewers_only
def file(request: HttpRequest, pk: int) -> HttpResponse:
    """Show one file of a draft, `?path=`, and save or remove it."""
    draft = get_object_or_404(Draft, pk=pk)
    path = request.GET.get("path", "") or request.POST.get("path", "")
    context: dict[str, object] = {"draft": draft, "path": path, "known": path in draft.files}
    status = 200
    text = draft.files.get(path, "")
    if request.method == "POST":
        text = request.POST.get("text", "")
        try:
            return _store(request, draft, path, text)
        except UserError as error:
            context["error"], status = error.text, error.status
    shown = {**draft.files, path: text} if path and context["known"] else draft.files
    context |= {
        "text": text,
        "paths": sorted(draft.files),
        "problems": problems_of(draft.name, shown) if draft.is_open else [],
        "readonly": not draft.is_open,
        "max_bytes": files.MAX_FILE_BYTES,
    }
    return render(request, "curate/file.html", context, status=status)


def _store(request: HttpRequest, draft: Draft, path: str, text: str) -> HttpResponse:
    user = signed_in(request)
    if "remove" in request.POST:
        drafts.remove_file(draft, user, path)
        messages.success(request, f"{path} was removed.")
        return redirect("draft", draft.pk)
    drafts.save_file(draft, user, path, text, request.POST.get("content", ""))
    messages.success(request, f"{path} was saved.")
    return redirect(reverse("draft-file", args=[draft.pk], query={"path": path}))


@require_POST
@reviewers_only
def validate(request: HttpRequest, pk: int) -> HttpResponse:
    """Answer with the problems of a draft in which one file has another text."""
    draft = get_object_or_404(Draft, pk=pk)
    try:
        data = json.loads(request.body)
        path, text = str(data["path"]), str(data["text"])
        files.check_path(path)
        files.check_text(path, text)
    except (ValueError, KeyError, TypeError, RecursionError):
        return JsonResponse({"message": "Send the path and the text of a file."}, status=400)
    except UserError as error:
        found = [{"path": "", "message": error.text}]
        return JsonResponse({"problems": found})
    found = [
        {"path": problem.path, "message": problem.message}
        for problem in problems_of(draft.name, {**draft.files, path: text})
    ]
    return JsonResponse({"problems": found})
