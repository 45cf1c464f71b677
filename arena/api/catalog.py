"""API operations of the catalog: tasks, harnesses, agents and hardware."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from django.http import HttpRequest
from ninja import Field, Router, Schema, Status
from ninja.throttling import AuthRateThrottle

from arena.accounts.auth import RUN, signed_in
from arena.catalog import services
from arena.catalog.availability import Availability, Cause, availabilities
from arena.catalog.models import Agent, Hardware, Harness, Task
from arena.catalog.near_tasks import hint_of
from arena.errors import Forbidden, NotFound
from arena.text import JsonObject, Text

router = Router(tags=["catalog"])


class TaskOut(Schema):
    slug: str
    title: str = Field(validation_alias="operator.title")
    category: str = Field(validation_alias="operator.category")
    families: list[str] = Field(validation_alias="operator.families")
    level: int = Field(validation_alias="operator.level")
    suite: str = Field(validation_alias="operator.suite")
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
    source: dict[str, Any] = Field(validation_alias="operator.source")
    public: dict[str, Any]

    @staticmethod
    def resolve_public(task: Task) -> dict[str, Any]:
        return task.version.public if task.version else {}


@dataclass(frozen=True)
class Offered:
    """An agent with its ability to run here."""

    agent: Agent
    availability: Availability


class AvailabilityOut(Schema):
    """Ability of an agent to run here; `reason` says what it lacks, and what to do."""

    available: bool
    cause: Literal[("", *Cause.values)]  # type: ignore[valid-type]  # known at run time
    reason: str
    version: str


class AgentOut(Schema):
    slug: str = Field(validation_alias="agent.slug")
    title: str = Field(validation_alias="agent.title")
    adapter: str = Field(validation_alias="agent.adapter", description="Name of its harness.")
    model: str = Field(validation_alias="agent.model")
    answered_by: str = Field(
        validation_alias="agent.answered_by",
        description="Models that answered, where they are others than `model`.",
    )
    provider: str = Field(validation_alias="agent.provider")
    settings: dict[str, Any] = Field(validation_alias="agent.settings")
    description: str = Field(validation_alias="agent.description")
    tasks: list[str] = Field(validation_alias="agent.tasks")
    kinds: list[str] = Field(validation_alias="agent.kinds")
    open_book: bool = Field(validation_alias="agent.open_book")
    shipped: bool = Field(validation_alias="agent.shipped", description="Comes with its harness.")
    availability: AvailabilityOut


class AgentIn(Schema, extra="forbid"):
    adapter: Text = Field(examples=["claude_code"], description="A name of GET /api/v1/harnesses.")
    slug: Text = Field(examples=["opus-high-effort"])
    title: Text = Field(examples=["Claude Code, Opus, high effort"])
    model: Text = ""
    provider: Text = Field("", description="Name in providers.toml of who serves the model.")
    settings: JsonObject = Field(
        {}, description="Fits the schema of its harness.", examples=[{"effort": "high"}]
    )
    description: Text = ""


class HarnessOut(Schema):
    name: str
    title: str
    wires: list[str] = Field(description="Wire formats it can use; none without a model.")
    program: str
    install: str
    settings_schema: dict[str, Any] = Field(description="JSON Schema, Draft 2020-12.")


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
def list_tasks(request: HttpRequest, category: str = "", track: str = "", suite: str = "") -> Any:
    """List the tasks. The suite `native` has those that were not imported."""
    return Task.objects.listed(request.user).matching(category, track, suite)


@router.get("/tasks/{operator}/{track}", response=TaskDetail)
def get_task(request: HttpRequest, operator: str, track: str) -> Task:
    task = Task.objects.listed(request.user).by_slug(f"{operator}/{track}").first()
    if task is None:
        slug = f"{operator}/{track}"
        raise NotFound(f"There is no task {slug!r}.", hint_of(slug))
    return task


@router.get("/harnesses", response=list[HarnessOut])
def list_harnesses(request: HttpRequest) -> Any:
    """List the harnesses, each with the JSON Schema of its settings."""
    return Harness.objects.all()


@router.get("/agents", response=list[AgentOut])
def list_agents(request: HttpRequest) -> Any:
    """List the agents that are offered for runs, each with its ability to run here."""
    return _offered(list(Agent.objects.filter(active=True)))


@router.post("/agents", response={201: AgentOut}, auth=RUN, throttle=[AuthRateThrottle("60/m")])
def create_agent(request: HttpRequest, body: AgentIn) -> Status[Any]:
    """Create an agent, for staff only; `error.fields` names what its harness does not allow."""
    if not signed_in(request).is_staff:
        raise Forbidden("Only staff make agents: an agent spends their key.")
    [created] = _offered([services.create_agent(by=signed_in(request), **body.dict())])
    return Status(201, created)


@router.get("/hardware", response=list[HardwareOut])
def list_hardware(request: HttpRequest) -> Any:
    return Hardware.objects.all()


def _offered(agents: Sequence[Agent]) -> list[Offered]:
    found = availabilities(agents)
    return [Offered(agent, found[agent.pk]) for agent in agents]
