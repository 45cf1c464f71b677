"""Admin of published kernels: read-only, since a file of claims is loaded by a command."""

from __future__ import annotations

from django.contrib import admin

from arena.admin import ReadOnlyAdmin
from arena.published.models import PublishedFile, PublishedKernel, PublishedVerdict


@admin.register(PublishedFile)
class PublishedFileAdmin(ReadOnlyAdmin):
    list_display = ["name", "judge_version", "device", "started_at", "loaded_at"]
    search_fields = ["name", "digest"]
    date_hierarchy = "loaded_at"


@admin.register(PublishedKernel)
class PublishedKernelAdmin(ReadOnlyAdmin):
    list_display = [
        "id", "model", "suite", "level", "problem", "sample", "claimed_speedup", "status", "reason",
        "speedup", "low", "high", "noisy",
    ]  # fmt: skip
    list_filter = ["collection", "suite", "model", "status", "reason", "noisy"]
    search_fields = ["id", "model", "problem", "task", "message"]


@admin.register(PublishedVerdict)
class PublishedVerdictAdmin(ReadOnlyAdmin):
    list_display = [
        "operator", "track", "agent", "scope", "verdict", "reason", "speedup", "low", "high",
        "noisy", "judged_at",
    ]  # fmt: skip
    list_filter = ["file", "track", "agent", "verdict", "reason", "noisy"]
    search_fields = ["operator", "track", "agent", "message"]
    date_hierarchy = "judged_at"
