"""Admin pages of the catalog; facts read from folders and devices are read-only."""

from __future__ import annotations

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from arena.admin import ReadOnlyAdmin
from arena.catalog.models import Agent, Hardware, Harness, Operator, Task, TaskVersion, Worker
from arena.catalog.services import inherit


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


@admin.register(Harness)
class HarnessAdmin(ReadOnlyAdmin):
    list_display = ["name", "title", "wires", "program", "install"]
    search_fields = ["name", "title"]


class AgentForm(forms.ModelForm):  # type: ignore[type-arg]  # not subscriptable at run time
    """The editable part of an agent; `Agent.clean` checks it."""

    adapter = forms.ModelChoiceField(Harness.objects.all(), to_field_name="name", label="Harness")

    def clean_adapter(self) -> str:
        return str(self.cleaned_data["adapter"].name)


@admin.register(Agent)
class AgentAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # nor is this
    """The agents; those that come with an adapter are read-only, and none is deleted."""

    form = AgentForm
    list_display = ["slug", "title", "adapter", "model", "provider", "active", "shipped"]
    list_filter = ["active", "shipped", "adapter", "provider"]
    search_fields = ["slug", "title", "model"]
    fields = [
        "slug", "title", "adapter", "model", "provider", "settings", "description", "active",
        "shipped", "open_book", "tasks", "kinds",
    ]  # fmt: skip
    inherited = ("shipped", "open_book", "tasks", "kinds")

    def get_readonly_fields(
        self, request: HttpRequest, obj: Agent | None = None
    ) -> tuple[str, ...]:
        if obj is None:
            return self.inherited
        kept = Agent.IDENTITY if obj.runs.exists() else ()
        return ("slug", *kept, *self.inherited)

    def has_change_permission(self, request: HttpRequest, obj: Agent | None = None) -> bool:
        editable = obj is None or not obj.shipped
        return editable and super().has_change_permission(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Agent | None = None) -> bool:
        return False

    def save_model(self, request: HttpRequest, obj: Agent, form: AgentForm, change: bool) -> None:
        if not change:
            inherit(obj)
        super().save_model(request, obj, form, change)


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
