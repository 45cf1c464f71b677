"""Links that sign the owner of an arena in without a password, once each.

The launcher prints one on the terminal of an arena that only its own machine can reach, and
`manage.py new_sign_in_link` at any time. A link is valid until it is used, and at most for
PASSWORD_RESET_TIMEOUT.
"""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth import login
from django.contrib.auth.tokens import PasswordResetTokenGenerator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from arena.accounts.models import User

OWNER = "owner"
"""Name of the account that is created where there is no administrator."""


class _Tokens(PasswordResetTokenGenerator):
    """Tokens that a sign-in makes void, since it changes the time of the last one."""

    key_salt = "arena.accounts.sign_in_link"


tokens = _Tokens()


def link() -> str:
    """Return the path of a link for the first administrator, who is created if there is none."""
    owner = User.objects.filter(is_superuser=True, is_active=True).order_by("pk").first()
    if owner is None:
        owner = User.objects.create_superuser(OWNER)
    return reverse("sign-in", args=[owner.pk, tokens.make_token(owner)])


def sign_in(request: HttpRequest, user_id: int, token: str) -> HttpResponse:
    """Sign in by a link and open the page on which runs start."""
    user = User.objects.filter(pk=user_id, is_active=True).first()
    if user is None or not tokens.check_token(user, token):
        if request.user.is_authenticated:  # the same link, opened again
            return redirect("run-start")
        return render(request, "registration/bad_link.html", status=403)
    login(request, user)
    if not user.has_usable_password():
        messages.info(
            request, "You have no password. Set one on your account page to log in from elsewhere."
        )
    return redirect("run-start")
