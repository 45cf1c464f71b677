"""Admin pages of users and API tokens."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.forms import AdminPasswordChangeForm
from django.db import transaction
from django.forms import CheckboxSelectMultiple, ModelForm, MultipleChoiceField
from django.http import HttpRequest
from django.template.defaultfilters import pluralize

from arena.accounts.auth import signed_in
from arena.accounts.models import ApiToken, ApiTokenQuerySet, Scope, User
from arena.audit.services import record


class NewPasswordForm(AdminPasswordChangeForm):  # type: ignore[type-arg]  # nor is this
    """Django's form of another user's password, which also revokes the user's tokens."""

    def save(self, commit: bool = True) -> User:
        with transaction.atomic():
            user: User = super().save(commit)
            user.tokens.all().revoke(user)
        return user


@admin.register(User)
class AccountAdmin(UserAdmin):  # type: ignore[type-arg]  # not subscriptable at run time
    """Users, with their limits a day; a group gives a role."""

    fieldsets = (
        *UserAdmin.fieldsets,  # type: ignore[misc]
        ("Limits", {"fields": ("daily_runs", "daily_kernels", "daily_finals")}),
    )
    change_password_form = NewPasswordForm
    list_display = ("username", "date_joined", "last_login", "is_staff", "is_active")
    list_filter = ("groups", "is_staff", "is_superuser", "is_active")
    date_hierarchy = "date_joined"

    def has_delete_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        """Refuse it: results would lose who made them, and the name would be free for others."""
        return False

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """Store the groups, and record who joined or left one."""
        before = set(form.instance.groups.values_list("name", flat=True)) if change else set()
        super().save_related(request, form, formsets, change)
        after = set(form.instance.groups.values_list("name", flat=True))
        for action, names in (("role.grant", after - before), ("role.revoke", before - after)):
            for name in sorted(names):
                record(request.user, action, form.instance, name)


class ApiTokenForm(ModelForm):  # type: ignore[type-arg]  # not subscriptable at run time
    scopes = MultipleChoiceField(choices=Scope.choices, widget=CheckboxSelectMultiple)

    class Meta:
        model = ApiToken
        fields = ["user", "name", "scopes", "expires_at"]


@admin.register(ApiToken)
class ApiTokenAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # nor is this
    """The API tokens; the secret is shown once, in the message after saving."""

    form = ApiTokenForm
    list_display = [
        "name", "user", "prefix", "scopes", "created_at", "expires_at", "last_used_at", "revoked_at"
    ]  # fmt: skip
    list_filter = ["revoked_at", "expires_at"]
    search_fields = ["name", "user__username", "prefix"]
    autocomplete_fields = ["user"]
    actions = ["revoke"]

    def has_change_permission(self, request: HttpRequest, obj: ApiToken | None = None) -> bool:
        return False

    def save_model(
        self, request: HttpRequest, obj: ApiToken, form: ApiTokenForm, change: bool
    ) -> None:
        token, secret = ApiToken.issue(obj.user, obj.name, obj.scopes, obj.expires_at)
        obj.__dict__.update(token.__dict__)
        self.message_user(request, f"The token, shown only once: {secret}", messages.WARNING)

    @admin.action(description="Revoke", permissions=["delete"])
    def revoke(self, request: HttpRequest, tokens: ApiTokenQuerySet) -> None:
        count = tokens.revoke(signed_in(request))
        self.message_user(request, f"{count} token{pluralize(count)} revoked.")
