"""Form that starts runs: agents, tasks, budget and visibility."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.http import QueryDict

from arena.accounts.models import User
from arena.catalog.availability import Availability, Cause, availabilities
from arena.catalog.models import Agent, Hardware, Harness, Operator, Task, Worker
from arena.runs.display.waiting import unserved
from arena.runs.estimates import Estimate, Pairs, estimate, pairs
from arena.runs.experiments import Entrant, Plan, new_slug
from arena.runs.models import Run
from arena.runs.services.runs import BUDGET, BUDGET_BOUNDS, best_hardware, kinds_for
from arena.runs.states import Visibility

MAX_RUNS = 500
"""Runs of one form; larger experiments are plans on the command line."""
MAX_REPEATS = 20
NOT_PERMITTED = Availability(
    Cause.PERMISSION,
    "It calls a model, which spends the keys of this arena. Ask an admin for the permission.",
)
_SEEN_BY = {
    Visibility.PUBLIC: "everyone",
    Visibility.OWNER: "me and staff",
    Visibility.STAFF: "staff only",
}


@dataclass(frozen=True)
class AgentChoice:
    """An agent of the form, with the title of its harness."""

    agent: Agent
    harness: str
    availability: Availability
    chosen: bool

    @property
    def works_on(self) -> str:
        """Return the tasks that it takes, in words; empty for any task."""
        whole = [each for each in self.agent.tasks if each[:2] == "*/" and each.count("*") == 1]
        tracks = [each.removeprefix("*/") for each in whole]
        found = [_in_words(each) for each in self.agent.tasks if each not in whole]
        if tracks:
            *others, last = tracks
            named = f"s {', '.join(others)} and {last}" if others else f" {last}"
            found.insert(0, f"the track{named}")
        return ", ".join(found)


def _in_words(pattern: str) -> str:
    """Return a pattern of tasks in words: `*/*-to-cpp` stands for every track to cpp."""
    operator, _, track = pattern.partition("/")
    source, _, target = track.partition("-to-")
    if "*" not in pattern:
        return pattern
    if "*" in source and "*" in target:
        tracks = "every track"
    elif "*" in source:
        tracks = f"tracks to {target}"
    elif "*" in target:
        tracks = f"tracks from {source}"
    else:
        tracks = f"the track {track}"
    return tracks if operator == "*" else f"{tracks} of {operator}"


@dataclass(frozen=True)
class OperatorChoice:
    """The tasks of one operator, each with whether it is chosen."""

    operator: Operator
    tasks: list[tuple[Task, bool]]


def _limit(name: str) -> forms.Field:
    """Return a field for a limit of the budget; one without a default is optional."""
    low, high = BUDGET_BOUNDS[name]
    common: dict[str, Any] = {"initial": BUDGET.get(name), "required": name in BUDGET}
    if name == "usd":
        return forms.FloatField(min_value=low, max_value=high, **common)
    return forms.IntegerField(min_value=int(low), max_value=int(high), **common)


class StartForm(forms.Form):
    """Agents x tasks x repeats, with the hardware, budget and visibility of each run."""

    agent = forms.MultipleChoiceField(error_messages={"required": "Choose at least one agent."})
    task = forms.MultipleChoiceField(error_messages={"required": "Choose at least one task."})
    hardware = forms.ChoiceField(required=False)
    repeats = forms.IntegerField(min_value=1, max_value=MAX_REPEATS, initial=1)
    rounds = _limit("rounds")
    seconds = _limit("seconds")
    turns = _limit("turns")
    tokens = _limit("tokens")
    usd = _limit("usd")
    label = forms.CharField(required=False, max_length=Run._meta.get_field("label").max_length)
    visibility = forms.ChoiceField(initial=Visibility.PUBLIC)

    def __init__(self, user: User, *given: Any, **more: Any) -> None:
        """Offer the choices that `user` has now."""
        super().__init__(*given, **more)
        self._user = user
        self._tasks = {
            task.slug: task for task in Task.objects.runnable().select_related("operator")
        }
        self._agents = {agent.slug: agent for agent in Agent.objects.filter(active=True)}
        self._devices = {device.slug: device for device in Hardware.objects.order_by("name")}
        self._served = Worker.objects.queues()
        devices = [
            (
                slug,
                device.name if device.queue in self._served else f"{device.name}, no worker ready",
            )
            for slug, device in self._devices.items()
        ]
        choices = {
            "task": [(slug, slug) for slug in self._tasks],
            "agent": [(slug, agent.title) for slug, agent in self._agents.items()],
            "hardware": [("", "Auto: a device with a worker"), *devices],
            "visibility": [
                (who, words)
                for who, words in _SEEN_BY.items()
                if user.is_staff or who != Visibility.STAFF
            ],
        }
        for name, offered in choices.items():
            self.fields[name].choices = offered  # type: ignore[attr-defined]

    @cached_property
    def agents(self) -> list[AgentChoice]:
        """Return the agents, those that can start first, with a model first among these."""
        found = availabilities(self._agents.values())
        titles = dict(Harness.objects.values_list("name", "title"))
        chosen = self._chosen_slugs("agent")
        if not self._user.may_use_models:
            found |= {agent.pk: NOT_PERMITTED for agent in self._agents.values() if agent.model}
        offered = [
            AgentChoice(
                agent, titles.get(agent.adapter, agent.adapter), found[agent.pk], slug in chosen
            )
            for slug, agent in self._agents.items()
        ]
        return sorted(
            offered,
            key=lambda e: (not e.availability.startable, not e.agent.model, e.agent.title.lower()),
        )

    @property
    def ready(self) -> list[AgentChoice]:
        return [each for each in self.agents if each.availability.startable]

    @property
    def lacking(self) -> list[AgentChoice]:
        return [each for each in self.agents if not each.availability.startable]

    @property
    def operators(self) -> list[OperatorChoice]:
        chosen = self._chosen_slugs("task")
        groups = groupby(self._tasks.values(), key=lambda task: task.operator)
        return [
            OperatorChoice(operator, [(task, task.slug in chosen) for task in tasks])
            for operator, tasks in groups
        ]

    @property
    def categories(self) -> list[str]:
        return sorted({task.operator.category for task in self._tasks.values()})

    @property
    def tracks(self) -> list[str]:
        return sorted({task.track for task in self._tasks.values()})

    @cached_property
    def pairs(self) -> Pairs:
        """Return the chosen agents with the chosen tasks, as far as both are valid."""
        agents = [each.agent for each in self.ready if each.chosen]
        slugs = self._chosen_slugs("task")
        tasks = [task for slug, task in self._tasks.items() if slug in slugs]
        return pairs(agents, tasks, self._devices.get(str(self["hardware"].value())))

    @cached_property
    def estimate(self) -> Estimate:
        """Return the estimate of what is chosen; a limit that is not valid counts as absent."""
        repeats = int(self._number("repeats") or 1)
        return estimate(self.pairs.possible, repeats, self._budget(), self._user)

    @cached_property
    def waits(self) -> list[str]:
        """Return which workers the chosen runs lack, with what admins can do, by device."""
        chosen = self._devices.get(str(self["hardware"].value()))
        newest = sorted(self._devices.values(), key=lambda each: each.seen_at, reverse=True)
        known = [chosen] if chosen else newest
        kinds = {tuple(kinds_for(agent, task)) for agent, task in self.pairs.possible}
        found = {best_hardware(known, each, self._served) for each in kinds} if known else set()
        lacking = [each for each in found if each.queue not in self._served]
        lacks = (unserved(each.queue) for each in sorted(lacking, key=lambda each: each.name))
        return [f"{missing} (for admins: {remedy})" for missing, remedy in lacks]

    def clean_agent(self) -> list[str]:
        chosen: list[str] = self.cleaned_data["agent"]
        for each in self.lacking:
            if each.agent.slug in chosen:
                reason = each.availability.reason.replace("`", "")
                raise ValidationError(f"{each.agent.title} cannot run here. {reason}")
        return chosen

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if self.errors:
            return cleaned
        if not self.pairs.possible:
            raise ValidationError(self.pairs.left_out[0])
        if self.estimate.runs > MAX_RUNS:
            raise ValidationError(
                f"These are {self.estimate.runs} runs, and a form starts {MAX_RUNS} at most: "
                "choose fewer, or write a plan for manage.py experiment."
            )
        return cleaned

    def single(self) -> dict[str, Any] | None:
        """Return the arguments of `services.start_run`; None for more than one run."""
        if self.estimate.runs > 1:
            return None
        ((agent, task),) = self.pairs.possible
        return {
            "task_slug": task.slug,
            "agent_slug": agent.slug,
            "hardware_slug": self.cleaned_data["hardware"] or None,
            "budget": self._budget(),
            "label": self.cleaned_data["label"],
            "visibility": self.cleaned_data["visibility"],
        }

    def plan(self) -> Plan:
        """Return the plan of a new experiment from a valid form."""
        agents = list(dict.fromkeys(agent for agent, _ in self.pairs.possible))
        tasks = list(dict.fromkeys(task.slug for _, task in self.pairs.possible))
        title = self.cleaned_data["label"] or _title(agents, tasks)
        hardware = self.cleaned_data["hardware"]
        return Plan(
            slug=new_slug(title),
            title=title,
            agents=[
                Entrant(agent=agent.slug, tasks=[task.slug for task in self.pairs.tasks_of(agent)])
                for agent in agents
            ],
            tasks=tasks,
            hardware=[hardware] if hardware else [],
            repeats=self.cleaned_data["repeats"],
            budget=self._budget(),
        )

    def _budget(self) -> dict[str, float]:
        values = {name: self._number(name) for name in BUDGET_BOUNDS}
        return {name: value for name, value in values.items() if value is not None}

    def _number(self, name: str) -> float | None:
        """Return the number in a field; None if it is empty or not valid."""
        try:
            value: float | None = self.fields[name].clean(self[name].value())
        except ValidationError:
            return None
        return value

    def _chosen_slugs(self, name: str) -> frozenset[str]:
        value = self[name].value()
        return frozenset([value] if isinstance(value, str) else value or ())


def initial_of(query: QueryDict) -> dict[str, Any]:
    """Return the initial values that a query string names: `?agent=a&agent=b&task=t&rounds=5`."""
    several = ("agent", "task")
    return {
        name: query.getlist(name) if name in several else query[name]
        for name in StartForm.base_fields
        if name in query
    }


def _title(agents: list[Agent], tasks: list[str]) -> str:
    """Return the title of an experiment: its agents and its tasks, or their numbers."""
    who = " vs ".join(agent.title for agent in agents)
    what = tasks[0] if len(tasks) == 1 else f"{len(tasks)} tasks"
    if len(who) > 80:
        who = f"{len(agents)} agents"
    return f"{who} on {what}"
