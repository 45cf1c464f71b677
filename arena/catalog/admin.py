"""Admin pages of the catalog; facts read from folders and devices are read-only."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html

from arena.admin import ReadOnlyAdmin
from arena.catalog.models import (
    Agent,
    CatalogSync,
    Device,
    Hardware,
    Harness,
    Operator,
    Task,
    TaskFolder,
    TaskVersion,
)
from arena.catalog.workers import Worker


@admin.register(Operator)
class OperatorAdmin(ReadOnlyAdmin):
    list_display = ["slug", "title", "category", "level", "families"]
    list_filter = ["category", "level"]
    search_fields = ["slug", "title"]


@admin.register(Task)
class TaskAdmin(ReadOnlyAdmin):
    """The tasks; staff retire them, and publish them again, at /curate/."""

    list_display = ["__str__", "status", "in_tree", "admitted"]
    list_filter = ["status", "in_tree", "track", "operator__category"]
    list_select_related = ["operator"]
    search_fields = ["operator__slug", "operator__title", "track"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Task]:
        return Task.objects.with_versions()

    def get_search_results(self, request: HttpRequest, queryset: Any, search_term: str) -> Any:
        """Search for the name of a task, such as relu/cpp-to-cpp, by its two words."""
        return super().get_search_results(request, queryset, search_term.replace("/", " "))

    @admin.display(boolean=True)
    def admitted(self, task: Task) -> bool:
        return bool(task.version and task.version.admitted)


@admin.register(TaskFolder)
class TaskFolderAdmin(ReadOnlyAdmin):
    list_display = ["operator", "content_hash", "imported", "created_at"]
    list_filter = ["imported"]
    search_fields = ["operator", "content_hash"]
    date_hierarchy = "created_at"


@admin.register(TaskVersion)
class TaskVersionAdmin(ReadOnlyAdmin):
    page_of = "task"
    list_display = ["__str__", "admitted", "created_at", "synced_at"]
    list_filter = ["admitted", "task__track"]
    list_select_related = ["task__operator"]
    search_fields = ["content_hash", "task__operator__slug"]
    date_hierarchy = "created_at"


@admin.register(Harness)
class HarnessAdmin(ReadOnlyAdmin):
    list_display = ["name", "title", "wires", "program", "install", "new_agent"]
    search_fields = ["name", "title"]

    @admin.display(description="Agent")
    def new_agent(self, harness: Harness) -> str:
        address = reverse("agent-new", query={"harness": harness.name})
        return format_html('<a href="{}">Add one</a>', address)


@admin.register(Agent)
class AgentAdmin(ReadOnlyAdmin):
    """The agents; staff make and change them on their pages."""

    list_display = ["slug", "title", "adapter", "model", "provider", "active", "shipped"]
    list_filter = ["active", "shipped", "adapter", "provider"]
    search_fields = ["slug", "title", "model"]


@admin.register(Hardware)
class HardwareAdmin(ReadOnlyAdmin):
    list_display = ["slug", "name", "vendor", "kind", "arch", "queue", "seen_at"]
    list_filter = ["kind", "vendor"]
    search_fields = ["slug", "name"]


@admin.register(Worker)
class WorkerAdmin(ReadOnlyAdmin):
    list_display = [
        "name", "hardware", "queues", "pid", "live", "problem", "drained_by", "commit",
        "started_at", "last_seen_at",
    ]  # fmt: skip
    list_filter = ["hardware"]
    list_select_related = ["hardware"]
    search_fields = ["name"]

    @admin.display(boolean=True)
    def live(self, worker: Worker) -> bool:
        return worker.live


@admin.register(Device)
class DeviceAdmin(ReadOnlyAdmin):
    list_display = ["key", "hardware", "worker", "held_at", "latency_us", "compared_at", "excluded"]
    list_filter = ["hardware"]
    list_select_related = ["hardware"]
    search_fields = ["key", "worker", "excluded"]


@admin.register(CatalogSync)
class CatalogSyncAdmin(ReadOnlyAdmin):
    list_display = ["machine", "checkout", "judge_version", "at"]
    search_fields = ["machine"]
