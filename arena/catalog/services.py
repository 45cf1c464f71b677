"""Writes to the catalog: agents, hardware, workers and admissions. Tasks are in `sync`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.text import slugify

from arena.accounts.models import User
from arena.accounts.names import normal
from arena.audit.services import record
from arena.catalog.agent_settings import problems_text, settings_problems
from arena.catalog.models import (
    DIRECT,
    EXTERNAL,
    RESERVED_SLUGS,
    Agent,
    Hardware,
    Harness,
    TaskVersion,
)
from arena.catalog.workers import MachineState, Worker
from arena.errors import Conflict, Invalid, NotFound

MAX_SLUG = 100


@dataclass(frozen=True)
class AgentSpec:
    """An agent as its adapter describes it."""

    slug: str
    title: str
    adapter: str
    model: str = ""
    provider: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    description: str = ""
    tasks: Sequence[str] = ()
    """Globs of the slugs of the tasks it supports; empty for all."""
    kinds: Sequence[str] = ()
    """Kinds of device it supports; empty for all."""
    open_book: bool = False


@dataclass(frozen=True)
class HarnessSpec:
    """An adapter as its module describes it; the fields are those of `Harness`."""

    name: str
    title: str
    wires: Sequence[str] = ()
    program: str = ""
    install: str = ""
    settings_schema: Mapping[str, Any] = field(default_factory=dict)


def sync_agents(specs: Iterable[AgentSpec]) -> list[str]:
    """Write a row for each agent that comes with an adapter, and return the slugs.

    Those that no longer come are deactivated. Agents that people made stay as they are; one that a
    user brings gets another slug where it has that of a new one.
    """
    slugs = []
    with transaction.atomic():
        for spec in specs:
            for brought in Agent.objects.filter(slug=spec.slug, adapter=EXTERNAL):
                brought.slug = _with_digest(brought.slug, brought.title)
                brought.save(update_fields=["slug"])
            values = asdict(spec) | {"active": True, "shipped": True}
            Agent.objects.update_or_create(slug=values.pop("slug"), defaults=values)
            slugs.append(spec.slug)
        Agent.objects.filter(shipped=True).exclude(slug__in=slugs).update(active=False)
    return slugs


def sync_harnesses(specs: Iterable[HarnessSpec]) -> None:
    """Write a row for each harness; remove all others, and deactivate their agents."""
    names = []
    with transaction.atomic():
        for spec in specs:
            values = asdict(spec)
            Harness.objects.update_or_create(name=values.pop("name"), defaults=values)
            names.append(spec.name)
        Harness.objects.exclude(name__in=names).delete()
        Agent.objects.exclude(adapter__in=names).update(active=False)


def create_agent(
    *,
    adapter: str,
    slug: str,
    title: str,
    model: str = "",
    provider: str = "",
    settings: Mapping[str, Any] | None = None,
    description: str = "",
    by: User | None = None,
) -> Agent:
    """Create an agent of a known harness; `by` is None for the command line.

    Raises: Invalid, with a message for each field.
    """
    agent = Agent(
        adapter=adapter,
        slug=slug,
        title=title,
        model=model,
        provider=provider,
        settings=dict(settings or {}),
        description=description,
    )
    inherit(agent)
    with transaction.atomic():
        record(by, "agent.create", _saved(agent), agent.model)
    return agent


def direct_agent() -> Agent:
    """Return the agent that stands for kernels submitted without one; no run of it can start."""
    values = {
        "title": "Direct submission",
        "adapter": DIRECT,
        "description": "Kernels that were submitted by the API, without an agent.",
        "active": False,
    }
    agent, _ = Agent.objects.get_or_create(slug=DIRECT, defaults=values)
    return agent


def external_agent(owner: User, name: str, model: str) -> Agent:
    """Return the agent of this name that a user brings; no run of it can start here.

    Raises: Invalid for a name without letters; Conflict where the name is another's or has
    another model.
    """
    name = normal(name)
    if not any(map(str.isalnum, name)):
        raise Invalid(f"The name {name!r} has no letter or digit.", "Choose another name.")
    slug = _external_slug(owner, name)
    values = {
        "title": _external_title(owner, name),
        "adapter": EXTERNAL,
        "model": model,
        "owner": owner,
        "description": "It runs outside this arena. Its tokens and cost are what it reports.",
        "active": False,
    }
    agent, _ = Agent.objects.get_or_create(slug=slug, defaults=values)
    if agent.owner_id != owner.pk:
        raise Conflict(f"The agent {slug!r} is another's.", "Choose another name.")
    if agent.model != model:
        has = f"the model {agent.model!r}" if agent.model else "no model"
        raise Conflict(f"Your agent {name!r} has {has}.", "Another model is another agent.")
    return agent


def _external_title(owner: User, name: str) -> str:
    return f"{name} ({owner.get_username()})"[:200]


def _external_slug(owner: User, name: str) -> str:
    """Return the slug of a user's agent, which is ASCII; a digest stands for other letters.

    So it does where the slug is another's: the user `a-b` can call an agent `c`, and `a` one `b-c`.
    """
    slug = slugify(f"{owner.get_username()}-{name}")[:MAX_SLUG]
    others = Agent.objects.filter(slug=slug).exclude(adapter=EXTERNAL, owner=owner)
    if name.isascii() and slugify(name) and slug not in RESERVED_SLUGS and not others.exists():
        return slug
    title = _external_title(owner, name)
    if here := Agent.objects.filter(adapter=EXTERNAL, owner=owner, title=title).first():
        return here.slug
    return _with_digest(slug, name)


def _with_digest(slug: str, text: str) -> str:
    """Return a slug with a digest of a text, so that it differs from those of other texts."""
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    return f"{slug[: MAX_SLUG - 9]}-{digest}"


def inherit(agent: Agent) -> None:
    """Set the tasks and kinds of device of a new agent to those that come with its harness.

    It is open-book where that agent is, because the harness hands out the reference solutions.
    """
    shipped = Agent.objects.filter(adapter=agent.adapter, shipped=True)
    if first := shipped.order_by("-open_book", "slug").first():
        agent.tasks, agent.kinds, agent.open_book = first.tasks, first.kinds, first.open_book


def update_agent(agent: Agent, by: User | None = None, **changes: Any) -> Agent:
    """Change an agent that a person made; `by` is None for the command line.

    Raises: Invalid, also for what `Agent.clean` keeps.
    """
    changed = [name for name, value in changes.items() if getattr(agent, name) != value]
    for name, value in changes.items():
        setattr(agent, name, value)
    with transaction.atomic():
        _saved(agent)
        if changed:
            record(by, "agent.change", agent, f"Changed: {', '.join(changed)}.")
    return agent


def _saved(agent: Agent) -> Agent:
    with transaction.atomic():
        try:
            agent.full_clean()
        except ValidationError as error:
            fields = {name: " ".join(texts) for name, texts in error.message_dict.items()}
            own = [f"{name}: {text}" for name, text in fields.items() if name != "__all__"]
            text = "; ".join([*own, *filter(None, [fields.pop("__all__", "")])])
            raise Invalid(text, "See GET /api/v1/harnesses.", fields) from error
        agent.save()
    return agent


def equal_agents(agent: Agent) -> list[Agent]:
    """Return the other agents that an agent does not differ from in what it runs with."""
    same = {name: getattr(agent, name) for name in ("adapter", "model", "provider", "settings")}
    return list(Agent.objects.filter(active=True, owner=None, **same).exclude(pk=agent.pk))


def vary_agent(slug: str, name: str, settings: Mapping[str, Any], model: str = "") -> Agent:
    """Return the agent `name`: the agent `slug` with other settings, another model, or both.

    Raises: NotFound without an agent `slug`; Conflict if `name` has different ones already;
    Invalid for settings that its harness does not allow, and for a model where it has none.
    """
    agent = Agent.objects.filter(slug=slug).first()
    if agent is None:
        raise NotFound(f"There is no agent {slug!r}.")
    harness = Harness.objects.filter(name=agent.adapter).first()
    if harness and (problems := settings_problems(settings, harness.settings_schema)):
        raise Invalid(f"Settings of {name!r}: {problems_text(problems)}.", fields=problems)
    if model and not agent.model:
        fields = {"model": "Its harness uses no model."}
        raise Invalid(f"{slug!r} cannot have a model: its harness uses none.", fields=fields)
    inherited = ("adapter", "provider", "tasks", "kinds", "open_book", "description")
    values = {name: getattr(agent, name) for name in inherited}
    values |= {"model": model or agent.model, "settings": dict(settings) or agent.settings}
    known = Agent.objects.filter(slug=name).first()
    identity = ("adapter", "model", "provider", "settings")
    if known and any(getattr(known, key) != values[key] for key in identity):
        raise Conflict(
            f"{name!r} is an agent with other settings or another model.", "Choose another name."
        )
    values |= {"title": f"{agent.title}, {name}", "active": True}
    varied, _ = Agent.objects.update_or_create(slug=name, defaults=values)
    return varied


def register_hardware(device: Mapping[str, Any]) -> Hardware:
    """Write a device as described by `python -m evaluation hardware`."""
    names = ("name", "vendor", "kind", "arch", "queue", "peaks", "isolation", "fingerprint")
    values = {name: device[name] for name in names if name in device}
    hardware, _ = Hardware.objects.update_or_create(
        slug=device["slug"], defaults={**values, "seen_at": Now()}
    )
    return hardware


MAX_PROBLEM = 300


def heartbeat_worker(
    name: str,
    *,
    queues: Collection[str],
    pid: int,
    hardware: Hardware | None = None,
    capabilities: Mapping[str, Any] | None = None,
    problem: str = "",
    state: MachineState | None = None,
) -> None:
    """Record a heartbeat of a worker and its queues; a worker without one for 30 s is offline.

    `capabilities` is what `Worker` says of them; None leaves them as they are, and so does None for
    `state`. `problem` is why it takes no work.
    """
    values: dict[str, Any] = {
        "queues": list(queues),
        "hardware": hardware,
        "problem": problem[:MAX_PROBLEM],
    }
    if capabilities is not None:
        values["capabilities"] = dict(capabilities)
    if state is not None:
        values |= asdict(state)
    alive = Worker.objects.filter(name=name, pid=pid).update(last_seen_at=Now(), **values)
    if not alive:
        values |= {"pid": pid, "started_at": Now(), "last_seen_at": Now()}
        Worker.objects.update_or_create(name=name, defaults=values)
    if hardware is not None:
        Hardware.objects.filter(pk=hardware.pk).update(seen_at=Now())


def store_admission(content_hash: str, admission: Mapping[str, Any], admitted: bool) -> bool:
    """Store the admission of a version; return False if the catalog lacks that version."""
    versions = TaskVersion.objects.filter(content_hash=content_hash)
    return bool(versions.update(admission=admission, admitted=admitted))


def keep_admissions(folder: Path) -> None:
    """Load the admissions of a folder, `admission-*.json`, one file for each kind of device.

    An admission found on this machine by `check_task` takes precedence.
    """
    by_hash: dict[str, list[dict[str, Any]]] = {}
    for path in sorted(folder.glob("admission-*.json")):
        found = json.loads(path.read_text(encoding="utf-8"))
        for task in found["tasks"].values():
            by_hash.setdefault(task["hash"], []).append({**task, "device": found["device"]["name"]})
    elsewhere = Q(admission={}) | Q(admission__has_any_keys=["elsewhere", "device"])
    with transaction.atomic():
        for content_hash, admissions in by_hash.items():
            problems = [problem for each in admissions for problem in each["problems"]]
            TaskVersion.objects.filter(elsewhere, content_hash=content_hash).update(
                admission={"elsewhere": admissions, "problems": problems},
                admitted=all(each["admitted"] for each in admissions),
            )


def remove_worker(name: str, pid: int) -> None:
    """Delete a worker that shuts down; one that was drained stays so at its next start."""
    Worker.objects.filter(name=name, pid=pid, drained_by="").delete()
