"""Base of the admins of the apps."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from django.contrib import admin
from django.http import HttpRequest


class ReadOnlyAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # not generic at run time
    """Rows that staff can read and nobody can edit.

    `page_of` leads from a row to the one whose page shows it, such as "evaluation.submission".
    """

    page_of = ""

    def view_on_site(self, obj: Any) -> str | None:
        """Return the page of a row for the link "View on site"; None for a row without one."""
        shown = attrgetter(self.page_of)(obj) if self.page_of else obj
        address: str | None = shown.get_absolute_url() if _has_page(shown) else None
        return address

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


def _has_page(row: Any) -> bool:
    return hasattr(row, "get_absolute_url")
