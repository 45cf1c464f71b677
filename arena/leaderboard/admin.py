"""Admin of compositions and announcements: read-only."""

from __future__ import annotations

from django.contrib import admin

from arena.admin import ReadOnlyAdmin
from arena.leaderboard.models import Announcement, Composition


@admin.register(Composition)
class CompositionAdmin(ReadOnlyAdmin):
    list_display = ["__str__", "status", "verdict", "message", "judge_version", "created_at"]
    list_filter = ["status", "verdict", "hardware"]
    list_select_related = ["hardware"]
    search_fields = ["architecture", "key", "message"]
    date_hierarchy = "created_at"


@admin.register(Announcement)
class AnnouncementAdmin(ReadOnlyAdmin):
    list_display = ["__str__", "kind", "subject", "number", "created_at", "sent_at"]
    list_filter = ["kind"]
    search_fields = ["subject"]
    date_hierarchy = "created_at"
