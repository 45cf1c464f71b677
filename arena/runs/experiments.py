"""Experiments: the plans of their runs, and the start of the missing runs."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any

from django.core.validators import slug_re
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery, Value
from django.db.models.functions import Coalesce
from django.utils.text import slugify

from arena.accounts.models import User, Viewer
from arena.audit.services import record_of_staff
from arena.catalog.models import Agent, Hardware, Task
from arena.catalog.services import vary_agent
from arena.errors import CannotJudge, CannotWork, Conflict, NotFound, UserError
from arena.runs import services
from arena.runs.models import Experiment, Run, new_run_id
from arena.runs.quotas import lock_owner
from arena.runs.services.runs import active_agent, check_quota, checked_budget, task_version
from arena.runs.states import RunStatus, Visibility
from arena.runs.strict import Amount, Int, Mismatch, Strict, read

FOLDER = Path(__file__).parent / "plans"
RESTARTED = (RunStatus.BROKEN, RunStatus.CANCELLED)
OF_ANOTHER_ARENA = "a user of another arena"
"""The owner of runs that users of the arena started which exported them."""
MAX_REPEATS = 100
MAX_TITLE = 200
MAX_NAME = 100
Cell = tuple[str, str, str | None, int]
"""One run of a plan: task, agent, hardware (None if the plan names none) and repeat."""
NAME = f"letters of ASCII, digits, - and _, {MAX_NAME} at most"


class Entrant(Strict):
    """An agent of a plan; its tasks and its budget default to those of the plan.

    With `model` or `settings` it becomes another agent, called `name`.
    """

    agent: str
    name: str = ""
    tasks: list[str] = []
    budget: dict[str, Amount] = {}
    model: str = ""
    settings: dict[str, Any] = {}

    @property
    def slug(self) -> str:
        return self.name or self.agent

    @property
    def varies(self) -> bool:
        """Return whether it is another agent than the one that it names."""
        return bool(self.model or self.settings)


class Plan(Strict):
    """Every agent on its tasks and on every hardware, `repeats` times. Tasks may be globs."""

    slug: str
    title: str
    agents: list[Entrant]
    tasks: list[str] = []
    description: str = ""
    hardware: list[str] = []
    repeats: Int = 1
    budget: dict[str, Amount] = {}

    def cells(self) -> Iterator[tuple[str, Entrant, str | None, int]]:
        """Yield each run of the plan; all first repeats come before the second ones.

        The plan's own tasks come first, in their order, and then those of each agent.
        """
        own = (task for e in self.agents for task in e.tasks)
        every = dict.fromkeys([*self.tasks, *own])
        for repeat in range(self.repeats):
            for task in every:
                for entrant in self.agents:
                    for hardware in self.hardware or (None,):
                        if task in self.tasks_of[entrant.slug]:
                            yield task, entrant, hardware, repeat

    @cached_property
    def tasks_of(self) -> dict[str, frozenset[str]]:
        """The tasks of each agent, by its slug."""
        return {e.slug: frozenset(e.tasks or self.tasks) for e in self.agents}

    def size(self) -> int:
        """Return the number of runs of an expanded plan."""
        tasks = sum(map(len, self.tasks_of.values()))
        return tasks * len(set(self.hardware) or {None}) * self.repeats

    def place(self, task: str, agent: str, hardware: str, repeat: int) -> Cell | None:
        """Return the cell of a run; None if the plan has no such cell."""
        if task not in self.tasks_of.get(agent, ()) or repeat >= self.repeats:
            return None
        if self.hardware and hardware not in self.hardware:
            return None
        return task, agent, hardware if self.hardware else None, repeat


@dataclass(frozen=True)
class Started:
    """The runs of a plan: started now, there before, and a reason for each that was left out."""

    experiment: Experiment
    runs: list[Run]
    there: list[Run]
    left_out: list[str]


def built_in() -> list[str]:
    """Return the names of the plans of this package."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def read_plan(name_or_file: str) -> Plan:
    """Return a built-in plan, or the plan of a TOML file. Raises UserError."""
    path, known = Path(name_or_file), built_in()
    hint = f"Here are: {', '.join(known)}; or name a .toml file."
    absent = NotFound(f"There is no experiment {name_or_file!r}.", hint)
    if name_or_file in known:
        path = FOLDER / f"{name_or_file}.toml"
    elif not name_or_file.endswith(".toml"):
        raise absent
    elif not _is_name(path.stem):
        raise UserError(f"{path.stem!r} names no experiment.", f"Call the file {NAME}.")
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise absent from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UserError(f"{path}: {error}", "Write it as TOML.") from error
    except (OSError, ValueError) as error:
        raise UserError(f"{name_or_file!r}: {error}.", "Name a file that can be read.") from error
    return _checked(path, data)


@transaction.atomic
def check(plan: Plan) -> None:
    """Refuse a plan with a task, an agent, a setting or a budget that does not exist.

    Those that take no new runs are left to `start`, since all of theirs may be there.

    Raises: UserError.
    """
    plan = expanded(plan)
    for task in sorted(frozenset().union(*plan.tasks_of.values())):
        with suppress(Conflict):
            task_version(task)
    for entrant in plan.agents:
        if entrant.varies:
            vary_agent(entrant.agent, entrant.name, entrant.settings, entrant.model)
        elif not Agent.objects.filter(slug=entrant.slug).exists():
            active_agent(entrant.slug)
        checked_budget(entrant.budget or plan.budget)
    transaction.set_rollback(True)  # of agents that only the check made


@transaction.atomic
def start(
    plan: Plan,
    going_on: Collection[Hardware] = (),
    owner: User | None = None,
    visibility: str = Visibility.PUBLIC,
) -> Started:
    """Start the missing runs of `plan`; continue those that broke, start anew the cancelled ones.

    Imported runs on the hardware `going_on` count too: a plan continues on another machine.
    `owner` is None for the command line, whose runs have no limit.

    Raises: UserError if none of the plan can run, or its owner has too many runs.
    """
    lock_owner(owner)
    plan = expanded(plan)
    check_quota(owner, plan.size())
    experiment, _ = Experiment.objects.update_or_create(
        slug=plan.slug,
        defaults={"title": plan.title, "description": plan.description, "plan": plan.model_dump()},
    )
    for entrant in plan.agents:
        if entrant.varies:
            vary_agent(entrant.agent, entrant.name, entrant.settings, entrant.model)
    ours = experiment.runs.with_names().filter(Q(imported_at=None) | Q(hardware__in=going_on))
    done = _by_place(plan, ours.exclude(status__in=RESTARTED))
    broken = _by_place(plan, interrupted(experiment))
    outcome = Started(experiment, [], [], [])
    for task, entrant, hardware, repeat in plan.cells():
        place = task, entrant.slug, hardware, repeat
        if there := done.get(place):
            outcome.there.append(there)
            continue
        try:
            run = (
                services.continue_run(before, None)
                if (before := broken.get(place))
                else services.start_run(
                    task_slug=task,
                    agent_slug=entrant.slug,
                    hardware_slug=hardware,
                    budget=entrant.budget or plan.budget,
                    label=plan.slug,
                    experiment=experiment,
                    repeat=repeat,
                    owner=owner,
                    visibility=visibility,
                    counted=False,
                )
            )
        except (CannotJudge, CannotWork) as error:
            outcome.left_out.append(f"{task} by {entrant.slug}: {error.message}")
        else:
            outcome.runs.append(run)
    if outcome.left_out and not (outcome.runs or outcome.there):
        raise UserError(f"None of it can be judged here. {outcome.left_out[0]}")
    if outcome.runs:
        text = f"{len(outcome.runs)} of {plan.size()} runs were started."
        record_of_staff(owner, "experiment.start", experiment, text)
    return outcome


def _by_place(plan: Plan, runs: Iterable[Run]) -> dict[Cell, Run]:
    """Return the runs that the plan has a place for."""
    placed = ((plan.place(*_names(run), run.repeat), run) for run in runs)
    return {place: run for place, run in placed if place}


def new_slug(title: str) -> str:
    """Return the slug of a new experiment, which no other has."""
    return f"{slugify(title)[:40].rstrip('-') or 'experiment'}-{new_run_id()[:6]}"


def continue_interrupted(experiment: Experiment, user: User) -> list[Run]:
    """Continue the interrupted runs of an experiment that `user` may continue.

    Raises: UserError if there is none, or one cannot be continued.
    """
    with transaction.atomic():
        found = [services.continue_run(run, user) for run in interrupted(experiment, user)]
    if not found:
        raise UserError("No run of this experiment waits to be continued.", "See its runs.")
    return found


def cancel_active(experiment: Experiment, user: User) -> int:
    """Cancel the runs that `user` may cancel, and return their number. Raises: Conflict for none.

    One that ends meanwhile stays as it ended.
    """
    count = 0
    for run in cancellable(experiment, user):
        with suppress(Conflict):
            services.cancel_run(run, user)
            count += 1
    if not count:
        raise Conflict("No run of this experiment is yours to cancel.", "All of them have ended.")
    return count


def cancellable(experiment: Experiment, user: Viewer) -> QuerySet[Run]:
    """Return the runs that have not ended and that `user` may cancel, oldest first."""
    active = experiment.runs.active().filter(cancel_requested=False)
    return active.changeable_by(user).order_by("created_at")


def interrupted(experiment: Experiment, user: Viewer | None = None) -> QuerySet[Run]:
    """Return the broken runs that can be continued, oldest first; with `user`, by that user."""
    broken = experiment.runs.with_names().continuable()
    return broken.changeable_by(user).order_by("created_at")


def _names(run: Run) -> tuple[str, str, str]:
    return run.task_version.task.slug, run.agent.slug, run.hardware.slug


def visible_to(user: Viewer) -> QuerySet[Experiment]:
    """Return the experiments with a run that `user` can see."""
    runs = Run.objects.visible_to(user).filter(experiment=OuterRef("pk")).order_by()
    return Experiment.objects.filter(Exists(runs)).defer("plan")


def with_user(found: QuerySet[Experiment], user: Viewer) -> QuerySet[Experiment]:
    """Add the column `by_user`: who started its runs that `user` can see; None for the arena.

    Users title their experiments, which could else be taken for those of the arena.
    """
    of_users = Run.objects.visible_to(user).filter(experiment=OuterRef("pk"), by_arena=False)
    name = Coalesce("owner__username", Value(OF_ANOTHER_ARENA))
    names = of_users.order_by("created_at", "id").annotate(by=name).values("by")
    return found.annotate(by_user=Subquery(names[:1]))


def plan_of(experiment: Experiment) -> Plan | None:
    """Return the last plan of an experiment; None if it is unreadable, as after an import."""
    try:
        plan = read(Plan, experiment.plan)
    except Mismatch:
        return None
    return plan if 1 <= plan.repeats <= MAX_REPEATS else None


def is_imported(experiment: Experiment) -> bool:
    """Return whether some runs were imported, so that missing ones may exist elsewhere."""
    return experiment.runs.exclude(imported_at=None).exists()


def missing(experiment: Experiment, plan: Plan) -> int:
    """Return the number of runs of the plan without a result or a run at work here."""
    task = "task_version__task__operator__slug", "task_version__task__track"
    there = experiment.runs.exclude(status__in=RESTARTED).values_list(
        *task, "agent__slug", "hardware__slug", "repeat"
    )
    places = {plan.place(f"{operator}/{track}", *rest) for operator, track, *rest in there}
    return plan.size() - len(places - {None})


def expanded(plan: Plan) -> Plan:
    """Return the plan with every glob replaced by its tasks."""
    known = [task.slug for task in Task.objects.runnable().select_related("operator")]
    agents = [e.model_copy(update={"tasks": _matching(e.tasks, known)}) for e in plan.agents]
    return plan.model_copy(update={"agents": agents, "tasks": _matching(plan.tasks, known)})


def _matching(patterns: Sequence[str], known: Sequence[str]) -> list[str]:
    """Return the matching tasks in order; names without a glob are kept unchecked."""
    found: list[str] = []
    for pattern in patterns:
        if not any(sign in pattern for sign in "*?["):
            found.append(pattern)
            continue
        matches = [slug for slug in known if fnmatchcase(slug, pattern)]
        if not matches:
            raise NotFound(f"No task matches {pattern!r}.", "Tasks are named operator/track.")
        found += matches
    return list(dict.fromkeys(found))


def _is_name(text: str) -> bool:
    """Return whether a text can be part of a URL, as the names of experiments and agents are."""
    return len(text) <= MAX_NAME and slug_re.match(text) is not None


def _checked(path: Path, data: Mapping[str, Any]) -> Plan:
    """Return the plan of a file's data. Raises UserError."""

    def wrong(fault: str, remedy: str) -> UserError:
        return UserError(f"{path}: {fault}.", f"It should be {remedy}.")

    agents = data.get("agents")
    if isinstance(agents, list):
        entrants = [{"agent": agent} if isinstance(agent, str) else agent for agent in agents]
        data = {**data, "agents": entrants}
    try:
        plan = read(Plan, {**data, "slug": path.stem})
    except Mismatch as error:
        raise UserError(f"{path}: {error}.", "See `manage.py experiment --help`.") from error
    if not 1 <= len(plan.title) <= MAX_TITLE or not plan.title.isprintable():
        raise wrong(
            f"title is {plan.title[:MAX_TITLE]!r}", f"one line, 1 to {MAX_TITLE} characters"
        )
    if "\0" in plan.description:
        raise wrong("description has a NUL", "text")
    if not plan.agents:
        raise wrong("agents is []", "a list of at least one agent")
    if not 1 <= plan.repeats <= MAX_REPEATS:
        raise wrong(f"repeats is {plan.repeats}", f"a number, 1 to {MAX_REPEATS}")
    for entrant in plan.agents:
        for name in (entrant.agent, entrant.slug):
            if not _is_name(name):
                raise wrong(f"an agent is called {name[:MAX_TITLE]!r}", NAME)
        try:
            json.dumps(entrant.settings, allow_nan=False)
        except (TypeError, ValueError) as error:
            remedy = "texts, finite numbers, true, false, lists and tables of them"
            raise wrong(f"settings of {entrant.slug}: {error}", remedy) from error
        if not (entrant.tasks or plan.tasks):
            raise wrong("tasks is []", f"a list of at least one task for {entrant.slug}")
        if entrant.varies and not entrant.name:
            fault = f"{entrant.agent} has {'settings' if entrant.settings else 'a model'}"
            raise wrong(fault, "given a `name` of its own beside them")
        if entrant.name and not entrant.varies:
            fault = f"{entrant.name} has neither settings nor a model"
            raise wrong(fault, f"called {entrant.agent}, as it is")
        if len(entrant.model) > MAX_NAME or not entrant.model.isprintable():
            fault = f"the model of {entrant.slug} is {entrant.model[:MAX_NAME]!r}"
            raise wrong(fault, f"one line, {MAX_NAME} characters at most")
    slugs = [entrant.slug for entrant in plan.agents]
    if twice := next((slug for slug in slugs if slugs.count(slug) > 1), None):
        raise wrong(f"{twice} enters twice", "one entry with all its tasks")
    return plan
