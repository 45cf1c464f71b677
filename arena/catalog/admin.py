"""Admin pages of the catalog; facts read from folders and devices are read-only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html

from arena.admin import ReadOnlyAdmin
from arena.catalog.models import (
    Agent,
    CatalogSync,
    Hardware,
    Harness,
    Operator,
    Task,
    TaskFolder,
    TaskVersion,
    Worker,
)
from arena.catalog.services import inherit
from arena.catalog.settings_form import settings_fields, settings_of

SETTING = "setting_"
"""Prefix of the fields of settings, so that none has the name of another field."""


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


@admin.register(TaskFolder)
class TaskFolderAdmin(ReadOnlyAdmin):
    list_display = ["operator", "content_hash", "created_at"]
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
        address = reverse("admin:catalog_agent_add", query={"adapter": harness.name})
        return format_html('<a href="{}">Add one</a>', address)


class AgentForm(forms.ModelForm):  # type: ignore[type-arg]  # not subscriptable at run time
    """The editable part of an agent; `Agent.clean` checks it.

    A subclass of `_form_of` has a field for each setting of one harness.
    """

    schema: ClassVar[Mapping[str, Any]] = {}
    adapter = forms.ModelChoiceField(Harness.objects.all(), to_field_name="name", label="Harness")

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        for name, value in self.instance.settings.items():
            self.initial[f"{SETTING}{name}"] = value

    def clean_adapter(self) -> str:
        return str(self.cleaned_data["adapter"].name)

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if names := [name for name in self.fields if name.startswith(SETTING)]:
            values = {name.removeprefix(SETTING): cleaned.get(name) for name in names}
            self.instance.settings = settings_of(values, self.schema)
        return cleaned

    def add_error(self, field: str | None, error: Any) -> None:
        """Show errors of the model's fields that the form lacks above the form."""
        if field is None and hasattr(error, "error_dict"):
            for name, errors in error.error_dict.items():
                super().add_error(name if name in self.fields else None, errors)
        else:
            super().add_error(field, error)


@admin.register(Agent)
class AgentAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # nor is this
    """The agents; those that come with an adapter are read-only, and none is deleted."""

    form = AgentForm
    list_display = ["slug", "title", "adapter", "model", "provider", "active", "shipped"]
    list_filter = ["active", "shipped", "adapter", "provider"]
    search_fields = ["slug", "title", "model"]
    main = ("slug", "title", "adapter", "model", "provider", "description", "active")
    inherited = ("shipped", "open_book", "tasks", "kinds")

    def get_form(
        self, request: HttpRequest, obj: Agent | None = None, change: bool = False, **more: Any
    ) -> Any:
        form = _form_of(self._schema(request, obj))
        return super().get_form(request, obj, change, **more, form=form)

    def get_fieldsets(self, request: HttpRequest, obj: Agent | None = None) -> Any:
        names = [f"{SETTING}{name}" for name in self._schema(request, obj).get("properties", ())]
        return [
            (None, {"fields": self.main}),
            ("Settings", {"fields": names or ["settings"]}),
            ("From the harness", {"fields": self.inherited}),
        ]

    def get_readonly_fields(
        self, request: HttpRequest, obj: Agent | None = None
    ) -> tuple[str, ...]:
        if obj is None:
            return self.inherited
        kept = Agent.IDENTITY if _is_kept(obj) else ("adapter",)
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

    def _schema(self, request: HttpRequest, obj: Agent | None) -> Mapping[str, Any]:
        """Return the schema of the settings; empty where they are one JSON object."""
        if obj is not None and _is_kept(obj):
            return {}
        name = obj.adapter if obj else request.GET.get("adapter", "")
        harness = Harness.objects.filter(name=name).first()
        return harness.settings_schema if harness else {}


def _is_kept(agent: Agent) -> bool:
    """Return whether the identity of an agent can no longer change."""
    return agent.shipped or agent.runs.exists()


def _form_of(schema: Mapping[str, Any]) -> type[AgentForm]:
    """Return the form with a field for each setting of a schema."""
    fields = {f"{SETTING}{name}": field for name, field in settings_fields(schema).items()}
    for name, field in fields.items():
        field.label = field.label or name.removeprefix(SETTING)
    return type("AgentForm", (AgentForm,), {**fields, "schema": schema, "__module__": __name__})


@admin.register(Hardware)
class HardwareAdmin(ReadOnlyAdmin):
    list_display = ["slug", "name", "vendor", "kind", "arch", "queue", "seen_at"]
    list_filter = ["kind", "vendor"]
    search_fields = ["slug", "name"]


@admin.register(Worker)
class WorkerAdmin(ReadOnlyAdmin):
    list_display = [
        "name",
        "hardware",
        "queues",
        "pid",
        "live",
        "problem",
        "started_at",
        "last_seen_at",
    ]
    list_filter = ["hardware"]
    list_select_related = ["hardware"]
    search_fields = ["name"]

    @admin.display(boolean=True)
    def live(self, worker: Worker) -> bool:
        return worker.live


@admin.register(CatalogSync)
class CatalogSyncAdmin(ReadOnlyAdmin):
    list_display = ["machine", "checkout", "judge_version", "at"]
    search_fields = ["machine"]
