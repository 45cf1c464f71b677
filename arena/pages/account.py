"""The account page: tokens and their end, limits, and what the user's runs wait for."""

from __future__ import annotations

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from arena.accounts.auth import signed_in
from arena.accounts.forms import TokenForm
from arena.catalog.templatetags.figures import Scale
from arena.pages.client import lines
from arena.runs.display.waiting import waiting_of
from arena.runs.models import Run
from arena.runs.quotas import quotas_of

MAX_ACTIVE, MAX_RECENT, MAX_OLD_TOKENS = 20, 10, 10


@never_cache
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def account(request: HttpRequest) -> HttpResponse:
    """Show the account; a POST makes a token, whose secret is shown in this answer alone."""
    user = signed_in(request)
    secret = ""
    form = TokenForm(user, request.POST if request.method == "POST" else None)
    if form.is_valid():
        _, secret = form.issue()
        form = TokenForm(user)
    own = Run.objects.filter(owner=user)
    active = own.active().with_names().order_by("created_at")
    recent = list(own.exclude(pk__in=active.values("pk")).with_names()[:MAX_RECENT])
    live = user.tokens.live()
    context = {
        "form": form,
        "secret": secret,
        "client": lines(request),
        "tokens": live,
        "old_tokens": user.tokens.exclude(pk__in=live.values("pk"))[:MAX_OLD_TOKENS],
        "roles": user.groups.values_list("name", flat=True),
        "quotas": quotas_of(user),
        "at_a_time": [
            ("Runs at a time", own.of_agents().active().count(), settings.MAX_ACTIVE_RUNS),
            ("Kernels waiting", own.direct().active().count(), settings.MAX_PENDING_SUBMISSIONS),
        ],
        "active": [(run, waiting_of(run)) for run in active[:MAX_ACTIVE]],
        "recent": recent,
        "scale": Scale.over(recent),
    }
    return render(request, "account.html", context, status=422 if form.errors else 200)


@login_required
@require_POST
def revoke_token(request: HttpRequest, token_id: int) -> HttpResponse:
    """Revoke one of the user's own tokens; another's is not found, and nothing happens."""
    user = signed_in(request)
    own = user.tokens.filter(pk=token_id).first()
    if own is not None and own.revoke(user):
        messages.success(request, "The token is revoked. Programs that use it are refused now.")
    else:
        messages.error(request, "You have no such token.")
    return redirect("account")
