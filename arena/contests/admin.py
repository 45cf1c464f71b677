"""Admin of contests: staff make them; entries are read-only."""

from __future__ import annotations

from django.contrib import admin
from django.http import HttpRequest

from arena.admin import ReadOnlyAdmin
from arena.contests.models import Contest, Entry

RESTED_ON = ["task", "hardware", "starts_at", "ends_at"]
"""Fields that say which entries count and how they are judged."""


@admin.register(Contest)
class ContestAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # not generic at run time
    list_display = ["slug", "title", "task", "hardware", "starts_at", "ends_at"]
    list_filter = ["hardware"]
    list_select_related = ["task__operator", "hardware"]
    search_fields = ["slug", "title", "description", "task__operator__slug"]
    prepopulated_fields = {"slug": ["title"]}
    date_hierarchy = "ends_at"

    def get_readonly_fields(self, request: HttpRequest, obj: Contest | None = None) -> list[str]:
        """Return what the requested final verdicts rest on; before the request, nothing."""
        return RESTED_ON if obj and obj.finals_requested_at else []


@admin.register(Entry)
class EntryAdmin(ReadOnlyAdmin):
    list_display = ["team", "contest", "owner", "run", "speedup", "entered_at", "final"]
    list_filter = ["contest"]
    list_select_related = ["contest", "owner", "run", "final__submission"]
    search_fields = ["team", "run__id", "contest__slug", "owner__username"]
    date_hierarchy = "entered_at"
