"""Admin pages of the catalog; facts read from folders and devices are read-only."""

from __future__ import annotations

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from arena.admin import ReadOnlyAdmin
from arena.catalog.models import Agent, Hardware, Operator, Task, TaskVersion, Worker


@admin.register(Operator)
class OperatorAdmin(ReadOnlyAdmin):
    list_display = ["slug", "title", "category", "level", "families"]
    list_filter = ["category", "level"]
    search_fields = ["slug", "title"]


@admin.register(Task)
class TaskAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # not subscriptable at run time
    """The tasks; staff publish and retire them, the rest comes from the folder."""

    list_display = ["__str__", "status", "in_tree", "admitted"]
    list_editable = ["status"]
    list_filter = ["status", "in_tree", "track", "operator__category"]
    list_select_related = ["operator"]
    search_fields = ["operator__slug", "operator__title", "track"]
    readonly_fields = ["operator", "track", "in_tree"]

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def get_queryset(self, request: HttpRequest) -> QuerySet[Task]:
        return Task.objects.with_versions()

    @admin.display(boolean=True)
    def admitted(self, task: Task) -> bool:
        return bool(task.version and task.version.admitted)


@admin.register(TaskVersion)
class TaskVersionAdmin(ReadOnlyAdmin):
    list_display = ["__str__", "admitted", "created_at", "synced_at"]
    list_filter = ["admitted", "task__track"]
    list_select_related = ["task__operator"]
    search_fields = ["content_hash", "task__operator__slug"]
    date_hierarchy = "created_at"


@admin.register(Agent)
class AgentAdmin(ReadOnlyAdmin):
    list_display = ["slug", "title", "adapter", "model", "active"]
    list_filter = ["active", "adapter"]
    search_fields = ["slug", "title", "model"]


@admin.register(Hardware)
class HardwareAdmin(ReadOnlyAdmin):
    list_display = ["slug", "name", "vendor", "kind", "arch", "queue", "seen_at"]
    list_filter = ["kind", "vendor"]
    search_fields = ["slug", "name"]


@admin.register(Worker)
class WorkerAdmin(ReadOnlyAdmin):
    list_display = ["name", "hardware", "queues", "pid", "live", "started_at", "last_seen_at"]
    list_filter = ["hardware"]
    list_select_related = ["hardware"]
    search_fields = ["name"]

    @admin.display(boolean=True)
    def live(self, worker: Worker) -> bool:
        return worker.live
