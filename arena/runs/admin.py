"""Admin of runs: read-only, with actions that cancel runs and show what staff alone can see.

Nothing hides a run: one that shall not count is put into quarantine, and its page says why.
"""

from __future__ import annotations

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest

from arena.accounts.auth import signed_in
from arena.admin import ReadOnlyAdmin
from arena.errors import UserError
from arena.runs import services
from arena.runs.models import (
    ArchivedTrace,
    Artefact,
    Blob,
    Evaluation,
    Event,
    Experiment,
    GateResult,
    ImportedFile,
    Measurement,
    Run,
    SpeedRecord,
    Standing,
    StandingsState,
    Submission,
    TrafficPart,
)
from arena.runs.states import Visibility


@admin.register(Experiment)
class ExperimentAdmin(ReadOnlyAdmin):
    list_display = ["slug", "title", "created_at"]
    search_fields = ["slug", "title"]


@admin.register(Run)
class RunAdmin(ReadOnlyAdmin):
    list_display = [
        "id", "status", "task_version", "agent", "hardware", "fault", "speedup", "unseen_speedup",
        "rounds", "owner", "created_at", "imported_from",
    ]  # fmt: skip
    list_filter = ["status", "fault", "agent", "hardware", "visibility", "experiment"]
    list_select_related = ["task_version__task__operator", "agent", "hardware", "owner"]
    search_fields = ["id", "label", "reason", "task_version__task__operator__slug"]
    date_hierarchy = "created_at"
    actions = ["cancel", "show"]

    def has_steer_permission(self, request: HttpRequest) -> bool:
        """Allow the actions to users who may change runs."""
        return request.user.has_perm("runs.change_run")

    @admin.action(description="Cancel", permissions=["steer"])
    def cancel(self, request: HttpRequest, runs: QuerySet[Run]) -> None:
        for run in runs:
            try:
                services.cancel_run(run, signed_in(request))
            except UserError as error:
                self.message_user(request, f"{run}: {error.message}", messages.WARNING)

    @admin.action(description="Show to everybody what staff alone can see", permissions=["steer"])
    def show(self, request: HttpRequest, runs: QuerySet[Run]) -> None:
        for run in runs.filter(visibility=Visibility.STAFF):
            services.show_run(run)
            self.log_change(request, run, "Shown to everybody.")


@admin.register(ImportedFile)
class ImportedFileAdmin(ReadOnlyAdmin):
    list_display = ["name", "sha256", "loaded_at"]
    search_fields = ["name", "sha256"]
    date_hierarchy = "loaded_at"


@admin.register(Submission)
class SubmissionAdmin(ReadOnlyAdmin):
    list_display = ["run", "round", "content_hash", "note", "created_at"]
    search_fields = ["run__id", "content_hash", "note"]
    date_hierarchy = "created_at"


@admin.register(Evaluation)
class EvaluationAdmin(ReadOnlyAdmin):
    page_of = "submission"
    list_display = [
        "submission", "scope", "hardware", "status", "verdict", "reason", "speedup", "low", "high",
        "noisy", "attempts", "created_at",
    ]  # fmt: skip
    list_filter = ["status", "verdict", "reason", "scope", "hardware", "noisy"]
    list_select_related = ["submission", "hardware"]
    search_fields = ["submission__run__id", "message"]
    date_hierarchy = "created_at"


@admin.register(GateResult)
class GateResultAdmin(ReadOnlyAdmin):
    page_of = "evaluation.submission"
    list_display = ["evaluation", "gate", "verdict", "reason", "rule", "passed", "total", "message"]
    list_filter = ["gate", "verdict", "reason"]
    list_select_related = ["evaluation__submission"]
    search_fields = ["evaluation__submission__run__id", "message", "rule"]


@admin.register(Measurement)
class MeasurementAdmin(ReadOnlyAdmin):
    page_of = "evaluation.submission"
    list_display = [
        "evaluation", "case", "split", "dtype", "candidate_us", "baseline_us", "speedup", "low",
        "high", "roofline_share", "noisy",
    ]  # fmt: skip
    list_filter = ["split", "dtype", "kind", "noisy"]
    list_select_related = ["evaluation__submission"]
    search_fields = ["evaluation__submission__run__id", "case"]


@admin.register(Event)
class EventAdmin(ReadOnlyAdmin):
    page_of = "run"
    list_display = ["run_id", "seq", "kind", "rev", "actor", "producer", "at"]
    list_filter = ["kind", "actor"]
    search_fields = ["run__id", "event_id"]
    show_full_result_count = False


@admin.register(Blob)
class BlobAdmin(ReadOnlyAdmin):
    list_display = ["sha256", "size"]
    search_fields = ["sha256"]


@admin.register(ArchivedTrace)
class ArchivedTraceAdmin(ReadOnlyAdmin):
    page_of = "run"
    list_display = ["run", "last_seq", "size", "sha256", "archived_at"]
    search_fields = ["run__id", "run__task_version__task__operator__slug", "sha256"]
    date_hierarchy = "archived_at"


@admin.register(Standing)
class StandingAdmin(ReadOnlyAdmin):
    page_of = "run"
    list_display = ["run", "task", "agent", "hardware", "repeat", "run__judge_version", "version"]
    list_filter = ["hardware", "agent"]
    list_select_related = ["run", "task__operator", "agent", "hardware"]
    search_fields = ["run__id", "task__operator__slug", "agent__slug"]


@admin.register(SpeedRecord)
class SpeedRecordAdmin(ReadOnlyAdmin):
    page_of = "run"
    list_display = ["run", "task_version", "hardware", "since", "until", "beaten", "beaten_unseen"]
    list_filter = ["hardware"]
    list_select_related = ["run", "task_version__task__operator", "hardware"]
    search_fields = ["run__id", "task_version__task__operator__slug"]
    date_hierarchy = "since"


@admin.register(StandingsState)
class StandingsStateAdmin(ReadOnlyAdmin):
    list_display = ["number", "epoch"]
    search_fields = ["epoch"]


@admin.register(Artefact)
class ArtefactAdmin(ReadOnlyAdmin):
    list_display = ["evaluation", "key", "sha256", "built_at"]
    list_select_related = ["evaluation__submission"]
    search_fields = ["key", "sha256", "evaluation__submission__run__id"]
    fields = ["evaluation", "key", "sha256", "built_at"]


@admin.register(TrafficPart)
class TrafficPartAdmin(ReadOnlyAdmin):
    list_display = ["run", "start"]
    search_fields = ["run__id", "run__label", "lines"]
