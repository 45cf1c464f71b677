"""All writes to the catalog: tasks, agents, hardware, workers and admissions."""

from __future__ import annotations

import hashlib
import json
import tempfile
import unicodedata
from collections import Counter
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
from arena.audit.services import record
from arena.catalog.agent_settings import problems_text, settings_problems
from arena.catalog.models import (
    DIRECT,
    EXTERNAL,
    REPOSITORY,
    Agent,
    Hardware,
    Harness,
    Task,
    TaskFolder,
    TaskVersion,
    Worker,
)
from arena.catalog.production import Synced, sync_production
from arena.catalog.repositories import sync_repositories
from arena.catalog.task_folders import write_files
from arena.catalog.versions import is_current, newest_version, write_version
from arena.errors import Conflict, Invalid, NotFound
from evaluation.errors import TaskError
from evaluation.kinds.kernel.load import load_tasks
from evaluation.kinds.kernel.workspace_files import starter_files
from evaluation.tasks.spec import Task as LoadedTask
from evaluation.tasks.spec import find_operators, folder_of
from evaluation.tasks.toml_reader import read_text
from evaluation.types import Split, to_json

MAX_SLUG = 100
JOINERS = dict.fromkeys((0x200C, 0x200D))
"""Signs within words of some scripts, which cannot be printed alone."""


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


@dataclass
class SyncReport:
    """The result of a sync: slugs, and a message for each unreadable folder."""

    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    curated: list[str] = field(default_factory=list)
    """Operators that were published in the browser, whose folder is not read any more."""
    problems: list[str] = field(default_factory=list)


def sync_tasks(root: Path, imported: Path | None = None) -> SyncReport:
    """Write a row for every task under `root`; report malformed folders and go on.

    `imported` has a folder like it for each suite that tasks were imported from.

    A version is immutable: new content is a new version, and restored content is the old version
    again. A task whose folder is missing stays and takes no runs until the folder is back.
    """
    report = SyncReport()
    names: dict[str, Path] = {}
    for each in (root, *suite_roots(imported)):
        try:
            found = find_operators(each)
        except TaskError as error:
            report.problems.append(str(error))
            if each == root:
                return report
            continue
        if taken := sorted(names.keys() & set(found)):
            report.problems.append(f"{each}: {taken[0]} is an operator elsewhere; rename one")
        names = dict.fromkeys(found, each) | names
    production = _report(sync_production(root, names), report)
    others = {*names, *(slug.partition("/")[0] for slug in production)}
    repositories = _report(sync_repositories(root, imported, others), report)
    _sync_folders(names, production | repositories, report)
    return report


def _report(synced: Iterable[Synced], report: SyncReport) -> set[str]:
    """Report what a sync changed, and return the slugs of the tasks that are in the tree."""
    found = set()
    for each in synced:
        found.add(each.slug)
        if each.problem:
            report.problems.append(each.problem)
        else:
            changes = {"added": report.added, "changed": report.changed}
            changes.get(each.change, report.unchanged).append(each.slug)
    return found


def suite_roots(imported: Path | None) -> list[Path]:
    """Return the folders of suites, each of which holds the folders of operators."""
    if imported is None or not imported.is_dir():
        return []
    folders = (p for p in imported.iterdir() if p.is_dir() and p.name != REPOSITORY)
    return sorted(folder for folder in folders if not folder.name.startswith("."))


def _sync_folders(names: Mapping[str, Path], found: set[str], report: SyncReport) -> None:
    """Write the rows of these operators, each of which has its folder in a root.

    Any other task than those and the slugs in `found` takes no more runs.
    """
    unreadable: list[str] = []
    curated = set(
        TaskVersion.objects.exclude(folder=None).values_list("task__operator__slug", flat=True)
    )
    for name, root in sorted(names.items()):
        if name in curated:
            report.curated.append(name)
            continue
        try:
            descriptions = [
                (folder, _public(folder)) for folder in load_tasks(folder_of(root, name))
            ]
        except TaskError as error:
            report.problems.append(str(error))
            unreadable.append(name)
            continue
        with transaction.atomic():
            for folder, public in descriptions:
                _sync_task(folder, public, report)
                found.add(folder.slug)
    others = Task.objects.filter(in_tree=True).exclude(operator__slug__in=[*unreadable, *curated])
    for task in others.select_related("operator"):
        if task.slug not in found:
            Task.objects.filter(pk=task.pk).update(in_tree=False)
            report.missing.append(task.slug)


def sync_agents(specs: Iterable[AgentSpec]) -> list[str]:
    """Write a row for each agent that comes with an adapter, and return the slugs.

    Those that no longer come are deactivated. Agents that people made stay as they are.
    """
    slugs = []
    with transaction.atomic():
        for spec in specs:
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


def external_agent(owner: User, name: str, model: str = "") -> Agent:
    """Return the agent of this name that a user brings; no run of it can start here.

    Raises: Invalid for a name without letters; Conflict where the name is another's or has
    another model.
    """
    name = unicodedata.normalize("NFKC", name).strip()
    if not any(map(str.isalnum, name)):
        raise Invalid(f"The name {name!r} has no letter or digit.", "Choose another name.")
    if not name.translate(JOINERS).isprintable():
        raise Invalid("The name has a character that cannot be shown.", "Choose another name.")
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
    """Return the slug of a user's agent, which is ASCII; a digest stands for other letters."""
    slug = slugify(f"{owner.get_username()}-{name}")
    if name.isascii() and slugify(name):
        return slug[:MAX_SLUG]
    title = _external_title(owner, name)
    if here := Agent.objects.filter(adapter=EXTERNAL, owner=owner, title=title).first():
        return here.slug
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
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


def vary_agent(slug: str, name: str, settings: Mapping[str, Any]) -> Agent:
    """Return the agent `name`: the agent `slug` with other settings.

    Raises: NotFound without an agent `slug`; Conflict if `name` has different settings already;
    Invalid for settings that its harness does not allow.
    """
    agent = Agent.objects.filter(slug=slug).first()
    if agent is None:
        raise NotFound(f"There is no agent {slug!r}.")
    harness = Harness.objects.filter(name=agent.adapter).first()
    if harness and (problems := settings_problems(settings, harness.settings_schema)):
        raise Invalid(f"Settings of {name!r}: {problems_text(problems)}.", fields=problems)
    inherited = ("adapter", "model", "provider", "tasks", "kinds", "open_book", "description")
    values = {name: getattr(agent, name) for name in inherited} | {"settings": dict(settings)}
    known = Agent.objects.filter(slug=name).first()
    identity = ("adapter", "model", "provider", "settings")
    if known and any(getattr(known, key) != values[key] for key in identity):
        raise Conflict(f"{name!r} is an agent with other settings.", "Choose another name.")
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
) -> None:
    """Record a heartbeat of a worker and its queues; a worker without one for 30 s is offline.

    `capabilities` is what `Worker` says of them; None leaves them as they are. `problem` is why it
    takes no work.
    """
    values: dict[str, Any] = {
        "queues": list(queues),
        "hardware": hardware,
        "problem": problem[:MAX_PROBLEM],
    }
    if capabilities is not None:
        values["capabilities"] = dict(capabilities)
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


def remove_worker(name: str) -> None:
    """Delete a worker that shuts down."""
    Worker.objects.filter(name=name).delete()


def publish_folder(name: str, files: Mapping[str, str], content_hash: str) -> list[TaskVersion]:
    """Publish the files of an operator as an immutable version of each of its tasks.

    Tasks of tracks that it no longer has take no more runs.

    Raises: TaskError for malformed files.
    """
    with tempfile.TemporaryDirectory(prefix="arena-task-") as place:
        write_files(Path(place) / name, files)
        descriptions = [(task, _public(task)) for task in load_tasks(Path(place) / name)]
        with transaction.atomic():
            folder, _ = TaskFolder.objects.get_or_create(
                operator=name, content_hash=content_hash, defaults={"files": dict(files)}
            )
            report = SyncReport()
            versions = [_sync_task(task, public, report) for task, public in descriptions]
            for version in versions:
                version.folder = folder
                version.save(update_fields=["folder"])
            tasks = [version.task_id for version in versions]
            Task.objects.filter(pk__in=tasks).update(status=Task.Status.PUBLISHED)
            others = Task.objects.filter(operator__slug=name).exclude(pk__in=tasks)
            others.update(in_tree=False)
    return versions


def _sync_task(folder: LoadedTask, public: dict[str, Any], report: SyncReport) -> TaskVersion:
    source = folder.operator
    values = {name: getattr(source, name) for name in ("title", "category", "level", "prompt")}
    values["families"] = list(source.families)
    values["source"] = to_json(source.source) if source.source else {}
    values["suite"] = source.source.suite if source.source else ""
    values["reference_source"] = read_text(source.folder / "reference.py")
    track = folder.track.slug
    kept = newest_version(source.name, track)
    if kept and is_current(kept, folder.hash, values) and kept.public == _as_stored(public):
        report.unchanged.append(folder.slug)
        return kept
    written = write_version(source.name, track, folder.hash, values, public)
    getattr(report, written.change).append(folder.slug)
    return written.version


def _as_stored(public: Mapping[str, Any]) -> Any:
    return json.loads(json.dumps(public))


def _public(folder: LoadedTask) -> dict[str, Any]:
    """Return the public description of a task; of held-out cases, the count of each kind."""
    operator = folder.operator
    return {
        "kind": folder.kind,
        "arguments": to_json(operator.arguments),
        "dtypes": list(folder.dtypes),
        "seen_cases": to_json(folder.cases(Split.SEEN)),
        "hidden_cases": dict(Counter(case.kind for case in folder.cases(Split.UNSEEN))),
        "starter": starter_files(folder),
        "target_file": folder.target_file,
        "baseline": folder.track.baseline,
        "tolerance": {
            dtype: to_json(operator.tolerance[dtype])
            for dtype in folder.dtypes
            if dtype in operator.tolerance
        },
        "limits": to_json(operator.limits),
    }
