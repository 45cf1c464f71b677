"""Forms of accounts: sign up, set a password, close the account, and make an API token."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from django import forms
from django.contrib.auth.forms import PasswordChangeForm, SetPasswordForm, UserCreationForm
from django.core.exceptions import ValidationError
from django.db import transaction
from django.http import HttpRequest
from django.utils import timezone
from django.utils.html import format_html

from arena.accounts.attempts import address_of, count_attempt
from arena.accounts.models import ApiToken, Scope, User
from arena.accounts.names import skeleton
from arena.audit.models import AuditEntry
from arena.audit.services import record, record_of_staff

MAX_SIGN_UPS = 20
"""Attempts of one address, in each period."""
RESERVED_NAMES = (
    "owner", "admin", "administrator", "root", "staff", "arena", "kernel-arena", "kernelarena",
    "official", "judge",
)  # fmt: skip
"""Names that visitors would take for those of the arena's admins."""
CLOSED = "closed"
"""Beginning of the names of closed accounts, which a hyphen and a number follow."""
CLOSE = "account.close"
"""Action of the audit log whose entries keep the names of closed accounts."""
MAX_NAME = 40
MAX_TOKENS = 20
"""Live tokens of one user."""


class SignUpForm(UserCreationForm):  # type: ignore[type-arg]  # not subscriptable at run time
    """Django's form of a new account, with a limit on attempts and short names."""

    class Meta(UserCreationForm.Meta):
        model = User
        fields = ("username",)

    def __init__(self, request: HttpRequest, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self.request = request
        name = self.fields["username"]
        name.label = "Name"
        name.help_text = format_html(
            "Shown beside your runs. At most {} letters from a to z, digits and "
            '<span class="nowrap">@ . + - _</span>',
            MAX_NAME,
        )
        self.fields["password1"].help_text = "At least 8 characters, and not a common password."
        self.fields["password2"].label = "Password again"
        self.fields["password2"].help_text = ""

    def clean_username(self) -> str:
        name: str | None = super().clean_username()
        if name is None:  # it is taken, which the form has noted
            return ""
        if len(name) > MAX_NAME:
            raise ValidationError(f"A name has at most {MAX_NAME} characters.")
        if not name.isascii():
            raise ValidationError(
                "A name has letters from a to z, digits and the signs @ . + - _ only. "
                "Your agents can have names in any script."
            )
        shape = skeleton(name)
        if not shape:
            raise ValidationError("A name has a letter or a digit.")
        if shape in map(skeleton, RESERVED_NAMES) or shape.startswith(f"{CLOSED}-"):
            raise ValidationError("This name is reserved. Choose another.")
        if shape in map(skeleton, _names()):
            raise ValidationError("This name looks like that of another user. Choose another.")
        return name

    def create(self) -> User | None:
        """Create the account of a valid form; None where another took the name meanwhile."""
        user: User = self.save(commit=False)  # the hash takes long, and needs no lock
        with transaction.atomic():
            User.objects.select_for_update(no_key=True).order_by("pk").first()  # one at a time
            try:
                self.clean_username()
            except ValidationError as error:
                self.add_error("username", error)
            if self.errors:
                return None
            user.save()
        return user

    def clean(self) -> dict[str, Any]:
        count_attempt("sign-up", address_of(self.request), MAX_SIGN_UPS)
        return super().clean() or self.cleaned_data


def _names() -> Iterator[str]:
    """Yield the names of all users, also those of closed accounts, which agents still have."""
    yield from User.objects.values_list("username", flat=True)
    closed = AuditEntry.objects.filter(action=CLOSE)
    yield from closed.values_list("actor_name", flat=True)


class PasswordForm(PasswordChangeForm):
    """Django's form of a new password, which also revokes the tokens: who had one may have both."""

    revoke_tokens = forms.BooleanField(
        label="Revoke all API tokens",
        help_text="Programs that use them are refused until they get new ones.",
        initial=True,
        required=False,
    )

    def save(self, commit: bool = True) -> User:
        with transaction.atomic():
            user: User = super().save(commit)
            if self.cleaned_data["revoke_tokens"]:
                user.tokens.all().revoke(user)
        return user


class FirstPasswordForm(SetPasswordForm):  # type: ignore[type-arg]  # not subscriptable either
    """Django's form of a password without the old one, for a user who never had any."""


class CloseForm(forms.Form):
    """The confirmation of a user who closes their account: the password, or else the name."""

    confirmation = forms.CharField(max_length=4096)

    def __init__(self, user: User, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self.user = user
        field = self.fields["confirmation"]
        if user.has_usable_password():
            field.label = "Your password"
            field.widget = forms.PasswordInput(attrs={"autocomplete": "current-password"})
        else:
            field.label = "Your name, as above"

    def clean_confirmation(self) -> str:
        given: str = self.cleaned_data["confirmation"]
        if self.user.has_usable_password():
            if not self.user.check_password(given):
                raise ValidationError("This is not your password.")
        elif given != self.user.get_username():
            raise ValidationError("This is not your name.")
        return given

    def clean(self) -> dict[str, Any]:
        others = User.objects.filter(is_superuser=True, is_active=True).exclude(pk=self.user.pk)
        if self.user.is_superuser and not others.exists():
            raise ValidationError("You are the only administrator. Make another one first.")
        return super().clean() or self.cleaned_data

    def save(self) -> None:
        """Close the account: nobody signs in by it again, and it has no name of a person."""
        user = self.user
        with transaction.atomic():
            record(user, CLOSE, f"account {user.pk}")
            user.tokens.all().revoke(user)
            user.groups.clear()
            user.username, user.first_name, user.last_name, user.email = (
                f"{CLOSED}-{user.pk}",
                "",
                "",
                "",
            )
            user.is_active = user.is_staff = user.is_superuser = False
            user.set_unusable_password()
            user.save()


class TokenForm(forms.Form):
    """A token of one's own: its name, scopes and days until it expires."""

    name = forms.CharField(max_length=100, help_text="Where it is used, such as: laptop")
    scopes = forms.MultipleChoiceField(
        choices=Scope.choices,
        initial=[Scope.READ, Scope.SUBMIT],
        widget=forms.CheckboxSelectMultiple,
        error_messages={"required": "Choose at least one scope."},
    )
    days = forms.TypedChoiceField(
        label="Expires after",
        coerce=int,
        choices=[(7, "7 days"), (30, "30 days"), (90, "90 days"), (365, "1 year")],
        initial=90,
    )

    def __init__(self, user: User, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self.user = user

    def clean(self) -> dict[str, Any]:
        if self.user.tokens.live().count() >= MAX_TOKENS:
            raise ValidationError(f"You have {MAX_TOKENS} live tokens. Revoke one first.")
        return super().clean() or self.cleaned_data

    @property
    def expires_at(self) -> datetime:
        return timezone.now() + timedelta(days=self.cleaned_data["days"])

    def issue(self) -> tuple[ApiToken, str]:
        """Return the new token of a valid form, with its secret."""
        values = self.cleaned_data
        with transaction.atomic():
            made = ApiToken.issue(self.user, values["name"], values["scopes"], self.expires_at)
            record_of_staff(self.user, "token.issue", made[0], f"For {', '.join(made[0].scopes)}.")
        return made
