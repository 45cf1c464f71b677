"""Form that starts a run."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from django import forms

from arena.accounts.models import User
from arena.catalog.models import Agent, Hardware, Task, Worker
from arena.runs.models import Run
from arena.runs.services.runs import BUDGET, BUDGET_BOUNDS
from arena.runs.states import Visibility

_SEEN_BY = {
    Visibility.PUBLIC: "everyone",
    Visibility.OWNER: "me and staff",
    Visibility.STAFF: "staff only",
}


def _budgeted(name: str) -> forms.IntegerField:
    low, high = map(int, BUDGET_BOUNDS[name])
    return forms.IntegerField(min_value=low, max_value=high, initial=BUDGET[name])


class RunForm(forms.Form):
    """Agent, task, hardware, budget and visibility of a new run."""

    task = forms.ChoiceField()
    agent = forms.ChoiceField()
    hardware = forms.ChoiceField(required=False)
    rounds = _budgeted("rounds")
    seconds = _budgeted("seconds")
    label = forms.CharField(required=False, max_length=Run._meta.get_field("label").max_length)
    visibility = forms.ChoiceField(initial=Visibility.PUBLIC)

    def __init__(self, user: User, *given: Any, **more: Any) -> None:
        """Offer the choices that `user` has now."""
        super().__init__(*given, **more)
        self.agents = Agent.objects.filter(active=True)
        choices = {
            "task": [("", "Choose a task"), *_tasks()],
            "agent": [("", "Choose an agent"), *self.agents.values_list("slug", "title")],
            "hardware": [("", "Auto: a local device"), *_hardware()],
            "visibility": [
                (who, words)
                for who, words in _SEEN_BY.items()
                if user.is_staff or who != Visibility.STAFF
            ],
        }
        for name, offered in choices.items():
            self.fields[name].choices = offered  # type: ignore[attr-defined]

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `services.start_run` from a valid form."""
        cleaned = self.cleaned_data
        return {
            "task_slug": cleaned["task"],
            "agent_slug": cleaned["agent"],
            "hardware_slug": cleaned["hardware"] or None,
            "budget": {name: cleaned[name] for name in BUDGET},
            "label": cleaned["label"],
            "visibility": cleaned["visibility"],
        }


def _tasks() -> list[tuple[str, list[tuple[str, str]]]]:
    """Return the tasks that take runs, grouped by operator."""
    tasks = Task.objects.runnable().select_related("operator")
    groups = groupby(tasks, key=lambda task: task.operator.title)
    return [(title, [(task.slug, task.slug) for task in group]) for title, group in groups]


def _hardware() -> list[tuple[str, str]]:
    served = Worker.objects.queues()
    return [
        (device.slug, device.name if device.queue in served else f"{device.name}, no worker online")
        for device in Hardware.objects.order_by("name")
    ]
