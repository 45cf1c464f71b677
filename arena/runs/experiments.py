"""Plans of experiments: which runs a labelled set has, and which are still to be started."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from django.db import transaction

from arena.errors import NotFound, UserError
from arena.runs import services
from arena.runs.models import Experiment, Run
from arena.runs.states import RunStatus

FOLDER = Path(__file__).parent / "plans"
KEYS = {"title", "description", "agents", "tasks", "hardware", "repeats", "budget"}
AGAIN = (RunStatus.BROKEN, RunStatus.CANCELLED)


@dataclass(frozen=True)
class Plan:
    """Every agent on every task, on every hardware, so many times."""

    slug: str
    title: str
    agents: list[str]
    tasks: list[str]
    description: str = ""
    hardware: list[str] = field(default_factory=list)
    repeats: int = 1
    budget: Mapping[str, int] = field(default_factory=dict)

    def cells(self) -> Iterator[tuple[str, str, str | None, int]]:
        """(task, agent, hardware, repeat); the first of everything comes before a second repeat."""
        for repeat in range(self.repeats):
            for task in self.tasks:
                for agent in self.agents:
                    for hardware in self.hardware or [None]:
                        yield task, agent, hardware, repeat


def built_in() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def read_plan(name_or_file: str) -> Plan:
    """The plan of this name here, or of this file; UserError names what is wrong with it."""
    path = Path(name_or_file) if name_or_file.endswith(".toml") else FOLDER / f"{name_or_file}.toml"
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        known = ", ".join(built_in())
        raise NotFound(
            f"There is no experiment {name_or_file!r}.", f"Here are: {known}; or name a .toml file."
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: {error}", "Write it as TOML.") from error
    return _checked(path, data)


@transaction.atomic
def start(plan: Plan) -> tuple[Experiment, list[Run], list[Run]]:
    """Start the runs of `plan` that have not been: the experiment, those started, those there were.

    What broke or was cancelled is started again, so that asking again completes the set.
    """
    experiment, _ = Experiment.objects.update_or_create(
        slug=plan.slug,
        defaults={"title": plan.title, "description": plan.description, "plan": asdict(plan)},
    )
    there: dict[tuple[str, str, str | None, int], Run] = {}
    for run in experiment.runs.with_names().exclude(status__in=AGAIN):
        hardware = run.hardware.slug if plan.hardware else None
        there[run.task_version.task.slug, run.agent.slug, hardware, run.repeat] = run
    started = []
    for cell in plan.cells():
        if cell not in there:
            task, agent, hardware, repeat = cell
            started.append(
                services.start_run(
                    task_slug=task,
                    agent_slug=agent,
                    hardware_slug=hardware,
                    budget=plan.budget,
                    label=plan.slug,
                    experiment=experiment,
                    repeat=repeat,
                )
            )
    return experiment, started, [there[cell] for cell in plan.cells() if cell in there]


def _checked(path: Path, data: Mapping[str, Any]) -> Plan:
    def wrong(key: str, should: str) -> UserError:
        return UserError(f"{path}: {key} is {data.get(key)!r}.", f"It should be {should}.")

    if unknown := sorted(set(data) - KEYS):
        raise UserError(f"{path}: unknown key {unknown[0]!r}.", f"Keys: {', '.join(sorted(KEYS))}.")
    for key in ("agents", "tasks", "hardware"):
        texts = data.get(key, [])
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise wrong(key, "a list of slugs")
        if not texts and key != "hardware":
            raise wrong(key, "a list of at least one slug")
    if not isinstance(data.get("title"), str):
        raise wrong("title", "a text")
    repeats = data.get("repeats", 1)
    if not isinstance(repeats, int) or not 1 <= repeats <= 100:
        raise wrong("repeats", "a number, 1 to 100")
    if not isinstance(data.get("budget", {}), dict):
        raise wrong("budget", "a table of rounds and seconds")
    return Plan(slug=path.stem, **data)
