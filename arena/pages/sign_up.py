"""The page that creates an account."""

from __future__ import annotations

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import login
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from arena.accounts.forms import SignUpForm


@sensitive_post_parameters("password1", "password2")
@require_http_methods(["GET", "HEAD", "POST"])
def sign_up(request: HttpRequest) -> HttpResponse:
    """Create an account and sign its user in, unless the arena's admins closed sign-up."""
    if request.user.is_authenticated:
        return redirect("account")
    if not settings.SIGNUP_OPEN:
        return render(request, "registration/sign_up_closed.html", status=403)
    form = SignUpForm(request, request.POST if request.method == "POST" else None)
    target = request.POST.get("next", request.GET.get("next", ""))
    if form.is_valid() and (user := form.create()):
        login(request, user)
        messages.success(request, f"Welcome, {user.get_username()}. You can submit kernels now.")
        safe = url_has_allowed_host_and_scheme(target, {request.get_host()}, request.is_secure())
        return redirect(target if safe else "account")
    context = {"form": form, "next": target}
    return render(request, "registration/sign_up.html", context, status=422 if form.errors else 200)
