"""What the admins of the apps share."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest


class Facts(admin.ModelAdmin):
    """Rows that say what happened: staff look at them, and nobody edits them."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
