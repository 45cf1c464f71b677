"""The account page: tokens, limits and what the user's runs wait for; its password and its end."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import logout
from django.contrib.auth.decorators import login_required
from django.contrib.auth.views import PasswordChangeView
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from arena.accounts.auth import signed_in
from arena.accounts.forms import CloseForm, FirstPasswordForm, PasswordForm, TokenForm
from arena.catalog.templatetags.figures import Scale
from arena.contests.entries import rename_own
from arena.errors import Conflict
from arena.pages.client import lines
from arena.runs import services
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


class Password(PasswordChangeView):
    """Change a password; who signed in by a link and has none sets the first one."""

    success_url = reverse_lazy("account")

    def get_form_class(self) -> Any:
        known = signed_in(self.request).has_usable_password()
        return PasswordForm if known else FirstPasswordForm

    def form_valid(self, form: Any) -> HttpResponse:
        messages.success(self.request, "Your password is set. Other browsers are logged out.")
        return super().form_valid(form)


@never_cache
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def close(request: HttpRequest) -> HttpResponse:
    """Close the user's own account once they confirm it; what is public stays without a name."""
    user = signed_in(request)
    form = CloseForm(user, request.POST if request.method == "POST" else None)
    if not form.is_valid():
        context = {"form": form}
        return render(
            request, "registration/close.html", context, status=422 if form.errors else 200
        )
    for run in Run.objects.filter(owner=user).active():
        with suppress(Conflict):  # it ends meanwhile
            services.cancel_run(run, user)
    name = user.get_username()
    with transaction.atomic():
        form.save()
        rename_own(user, name)
    logout(request)
    messages.success(request, "Your account is closed.")
    return redirect("home")
