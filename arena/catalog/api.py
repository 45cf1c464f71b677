"""API operations of the catalog: read tasks, agents and hardware."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.http import HttpRequest
from ninja import Field, Router, Schema

from arena.catalog.models import Agent, Hardware, Task
from arena.errors import NotFound

router = Router(tags=["catalog"])


class TaskOut(Schema):
    slug: str
    title: str = Field(validation_alias="operator.title")
    category: str = Field(validation_alias="operator.category")
    families: list[str] = Field(validation_alias="operator.families")
    level: int = Field(validation_alias="operator.level")
    track: str
    status: str
    content_hash: str | None
    admitted: bool

    @staticmethod
    def resolve_content_hash(task: Task) -> str | None:
        return task.version.content_hash if task.version else None

    @staticmethod
    def resolve_admitted(task: Task) -> bool:
        return bool(task.version and task.version.admitted)


class TaskDetail(TaskOut):
    prompt: str = Field(validation_alias="operator.prompt")
    reference: str = Field(validation_alias="operator.reference_source")
    public: dict[str, Any]

    @staticmethod
    def resolve_public(task: Task) -> dict[str, Any]:
        return task.version.public if task.version else {}


class AgentOut(Schema):
    slug: str
    title: str
    adapter: str
    model: str
    settings: dict[str, Any]
    description: str
    tasks: list[str]


class HardwareOut(Schema):
    slug: str
    name: str
    vendor: str
    kind: str
    arch: str
    peaks: dict[str, Any]
    isolation: dict[str, Any]
    queue: str
    seen_at: datetime
    live_workers: int = Field(validation_alias="live_workers.count")


@router.get("/tasks", response=list[TaskOut])
def list_tasks(request: HttpRequest, category: str = "", track: str = "") -> Any:
    return Task.objects.listed(request.user).matching(category, track)


@router.get("/tasks/{operator}/{track}", response=TaskDetail)
def get_task(request: HttpRequest, operator: str, track: str) -> Task:
    task = Task.objects.listed(request.user).by_slug(f"{operator}/{track}").first()
    if task is None:
        raise NotFound(f"There is no task '{operator}/{track}'.", "See GET /api/v1/tasks.")
    return task


@router.get("/agents", response=list[AgentOut])
def list_agents(request: HttpRequest) -> Any:
    return Agent.objects.filter(active=True)


@router.get("/hardware", response=list[HardwareOut])
def list_hardware(request: HttpRequest) -> Any:
    return Hardware.objects.all()
