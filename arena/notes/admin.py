"""Admin of notes: staff read them here, and remove one on its page."""

from __future__ import annotations

from django.contrib import admin

from arena.admin import ReadOnlyAdmin
from arena.notes.models import Hit, Note, Scan


@admin.register(Note)
class NoteAdmin(ReadOnlyAdmin):
    list_display = ["run", "seq", "mark", "quote", "author", "created_at"]
    list_filter = ["mark"]
    list_select_related = ["author"]
    search_fields = ["run__id", "quote", "text", "author__username"]
    date_hierarchy = "created_at"


@admin.register(Scan)
class ScanAdmin(ReadOnlyAdmin):
    list_display = ["run", "version", "at"]
    list_filter = ["version"]
    search_fields = ["run__id"]
    page_of = "run"


@admin.register(Hit)
class HitAdmin(ReadOnlyAdmin):
    list_display = ["run", "seq", "rule", "excerpt"]
    list_filter = ["rule"]
    search_fields = ["run__id", "excerpt"]
