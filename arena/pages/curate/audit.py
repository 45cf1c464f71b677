"""The page of the audit log, with filters."""

from __future__ import annotations

from urllib.parse import urlencode

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from arena.accounts.access import staff_only
from arena.audit.models import AuditEntry

PAGE_ENTRIES = 50


@require_safe
@staff_only
def audit(request: HttpRequest) -> HttpResponse:
    """List the entries that match `?actor=`, `?action=` and `?text=`, newest first."""
    names = ("actor", "action", "text")
    chosen = {name: request.GET.get(name, "") for name in names}
    found = AuditEntry.objects.matching(**chosen)
    context = {
        "page": Paginator(found, PAGE_ENTRIES).get_page(request.GET.get("page")),
        "chosen": chosen,
        "query": urlencode({name: value for name, value in chosen.items() if value}),
        "actors": AuditEntry.objects.values_of("actor_name"),
        "actions": AuditEntry.objects.values_of("action"),
    }
    return render(request, "curate/audit.html", context)
