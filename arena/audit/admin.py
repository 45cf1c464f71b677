"""Admin of the audit log, which nobody can edit."""

from __future__ import annotations

from django.contrib import admin

from arena.admin import ReadOnlyAdmin
from arena.audit.models import AuditEntry


@admin.register(AuditEntry)
class AuditEntryAdmin(ReadOnlyAdmin):
    list_display = ["at", "actor_name", "action", "object_kind", "object_label", "text"]
    list_filter = ["action", "object_kind", "actor_name"]
    search_fields = ["object_label", "text", "actor_name"]
    date_hierarchy = "at"

    def view_on_site(self, obj: AuditEntry) -> str | None:
        """Return the page of what an action changed."""
        return obj.url or None
