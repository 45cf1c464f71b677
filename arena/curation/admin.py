"""Admin of curation: read-only, with links to the pages."""

from __future__ import annotations

from django.contrib import admin

from arena.admin import ReadOnlyAdmin
from arena.curation.models import Check, CheckStep, Draft, Rejudging, RejudgingItem, Review


@admin.register(Draft)
class DraftAdmin(ReadOnlyAdmin):
    list_display = ["name", "state", "author", "origin", "content_hash", "updated_at"]
    list_filter = ["state", "author"]
    list_select_related = ["author"]
    search_fields = ["name", "content_hash", "origin"]
    date_hierarchy = "created_at"


@admin.register(Check)
class CheckAdmin(ReadOnlyAdmin):
    list_display = ["__str__", "status", "message", "total", "requested_by", "created_at"]
    list_filter = ["status", "hardware"]
    list_select_related = ["draft", "hardware", "requested_by"]
    search_fields = ["draft__name", "content_hash", "message"]
    date_hierarchy = "created_at"


@admin.register(CheckStep)
class CheckStepAdmin(ReadOnlyAdmin):
    page_of = "check_of"
    list_display = ["__str__", "number"]
    list_select_related = ["check_of__draft", "check_of__hardware"]
    search_fields = ["check_of__draft__name"]


@admin.register(Review)
class ReviewAdmin(ReadOnlyAdmin):
    page_of = "draft"
    list_display = ["draft", "approved", "reviewer", "author", "comment", "at"]
    list_filter = ["approved", "reviewer"]
    list_select_related = ["draft", "reviewer", "author"]
    search_fields = ["draft__name", "comment"]
    date_hierarchy = "at"


@admin.register(Rejudging)
class RejudgingAdmin(ReadOnlyAdmin):
    list_display = ["__str__", "state", "requested_by", "reason", "created_at", "ended_at"]
    list_filter = ["state", "requested_by"]
    list_select_related = ["requested_by"]
    search_fields = ["reason"]
    date_hierarchy = "created_at"


@admin.register(RejudgingItem)
class RejudgingItemAdmin(ReadOnlyAdmin):
    page_of = "rejudging"
    list_display = ["rejudging", "evaluation", "status", "message", "ended_at"]
    list_filter = ["status"]
    list_select_related = ["rejudging", "evaluation__submission"]
    search_fields = ["evaluation__submission__run__id", "message"]
