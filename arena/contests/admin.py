"""Admin of contests: staff make them; entries are read-only."""

from __future__ import annotations

from django.contrib import admin

from arena.admin import ReadOnlyAdmin
from arena.contests.models import Contest, Entry


@admin.register(Contest)
class ContestAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # not generic at run time
    list_display = ["slug", "title", "task", "hardware", "starts_at", "ends_at"]
    list_filter = ["hardware"]
    list_select_related = ["task__operator", "hardware"]
    search_fields = ["slug", "title", "description", "task__operator__slug"]
    prepopulated_fields = {"slug": ["title"]}
    date_hierarchy = "ends_at"


@admin.register(Entry)
class EntryAdmin(ReadOnlyAdmin):
    list_display = ["team", "contest", "owner", "run", "speedup", "entered_at", "final"]
    list_filter = ["contest"]
    list_select_related = ["contest", "owner", "run", "final__submission"]
    search_fields = ["team", "run__id", "contest__slug", "owner__username"]
    date_hierarchy = "entered_at"
