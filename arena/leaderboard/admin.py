"""Admin of compositions: read-only, with links to the pages of their architectures."""

from __future__ import annotations

from django.contrib import admin

from arena.admin import ReadOnlyAdmin
from arena.leaderboard.models import Composition


@admin.register(Composition)
class CompositionAdmin(ReadOnlyAdmin):
    list_display = ["__str__", "status", "verdict", "message", "judge_version", "created_at"]
    list_filter = ["status", "verdict", "hardware"]
    list_select_related = ["hardware"]
    search_fields = ["architecture", "key", "message"]
    date_hierarchy = "created_at"
