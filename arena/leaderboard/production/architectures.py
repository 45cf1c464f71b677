"""Architectures of production tasks: modules, the best kernel of each, and the shares of time.

Architectures come from `tasks/production`, and their modules from the catalogue.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from arena.accounts.models import Viewer
from arena.catalog.labels import family_title
from arena.catalog.models import Agent, Task, TaskVersion
from arena.leaderboard.ranking.boards import Option, leaders, options, results
from arena.leaderboard.ranking.filters import Filters
from arena.leaderboard.ranking.results import Snapshot, computed
from arena.runs.models import Run
from arena.runs.querysets import RunQuerySet
from arena.runs.states import RUN_JUDGED
from evaluation.kinds.module.architectures import (
    FAMILIES,
    FOLDER,
    TRACK,
    Architecture,
    architectures,
)
from evaluation.kinds.module.composition import nested
from evaluation.kinds.module.description.brief import Facts
from evaluation.kinds.module.kind import FAMILIES as OF_OPERATORS
from evaluation.kinds.module.kind import KIND
from evaluation.kinds.module.limits import limited_kinds
from evaluation.types import Interval

FAMILY_TITLES = {each: family_title(OF_OPERATORS.get(each, each)) for each in FAMILIES}
FACTS = ("name", "title", "family", "library", "model", "paper", "stand_in", "note")
"""Fields of an architecture that its entry repeats."""
PROBE = FOLDER / "probe.json"
INDEX = re.compile(r"(?<=\.)\d+(?=\.|$)")
"""A number of a layer in a dotted path, for which the probe writes a star."""


@dataclass(frozen=True)
class Probe:
    """Findings of `production probe` on one architecture; None or empty where it has none.

    `decode_error` is that of the cached decode against the uncached forward. `paths` has the places
    of each module class.
    """

    parameters: int | None
    finite: bool
    decode_error: float | None
    graphs: int | None
    graph_breaks: int | None
    error: str
    paths: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Module:
    """A module class of an architecture that has a task in the catalogue."""

    task: int
    operator: str
    title: str
    category: str
    path: str
    """The dotted path of the class."""

    @property
    def class_name(self) -> str:
        return self.path.rpartition(".")[2]


@dataclass(frozen=True)
class Entry:
    """One architecture with its modules in the catalogue; `described` counts those in its file."""

    name: str
    title: str
    family: str
    library: str
    model: str
    paper: str
    stand_in: bool
    note: str
    described: int
    modules: tuple[Module, ...]

    @property
    def family_title(self) -> str:
        return FAMILY_TITLES.get(self.family, self.family)

    @property
    def kinds(self) -> tuple[str, ...]:
        """Return the kinds of device with error limits, without which nothing can be judged."""
        return limited_kinds(self.name)

    @property
    def probe(self) -> Probe | None:
        return probes().get(self.name)

    @property
    def judged_names(self) -> tuple[str, ...]:
        """Return the names of what a published verdict is on: its modules, and several together."""
        operators = [module.operator for module in self.modules]
        return (*operators, self.name) if operators else ()

    def short(self, title: str) -> str:
        """Return the title of a module without that of the architecture."""
        return title.removesuffix(f" of {self.title}")

    def paths(self, module: Module, facts: Facts) -> frozenset[str]:
        """Return the places of a module in the model, with a star for the number of a layer."""
        if self.probe and (found := self.probe.paths.get(module.path)):
            return frozenset(found)
        return frozenset(INDEX.sub("*", path) for path in facts.paths)


@dataclass(frozen=True)
class Best:
    """The fastest result of a module on one device."""

    run: str
    agent: Agent
    module: Module
    deployed: Interval
    noisy: bool
    judge: str


@dataclass(frozen=True)
class Prediction:
    """The predicted speedup of the model with several kernels; `nested` contain one another."""

    speedup: float
    modules: tuple[Module, ...]
    nested: tuple[Module, ...]


@cache
def probes() -> Mapping[str, Probe]:
    """Return what the probe found for each architecture, by name."""
    if not PROBE.is_file():
        return {}
    return {each["name"]: _probe(each) for each in json.loads(PROBE.read_text())["architectures"]}


def _probe(data: Mapping[str, Any]) -> Probe:
    names = ("parameters", "finite", "decode_error", "graphs", "graph_breaks", "error")
    paths = {each["module"]: tuple(each["paths"]) for each in data["modules"]}
    return Probe(**{name: data[name] for name in names}, paths=paths)


def entries() -> dict[str, Entry]:
    """Return every architecture by name: by family, then by title."""
    tasks = Task.objects.filter(operator__suite=TRACK, track=TRACK)
    names = ("pk", *(f"operator__{n}" for n in ("slug", "title", "category", "source")))
    modules: dict[str, list[Module]] = {}
    sources: dict[str, Mapping[str, Any]] = {}
    rows = tasks.exclude(status=Task.Status.DRAFT).values_list(*names)
    for pk, operator, title, category, source in rows:
        name = str(source.get("architecture", ""))
        sources[name] = source
        made = Module(pk, operator, title, category, str(source.get("module", "")))
        modules.setdefault(name, []).append(made)
    known = architectures()
    found = [_entry(each, modules.get(name, ())) for name, each in known.items()]
    gone = sources.keys() - known.keys()
    found += [_gone(name, sources[name], modules[name]) for name in gone if name]
    order = {family: number for number, family in enumerate(FAMILIES)}
    found.sort(key=lambda e: (order.get(e.family, len(order)), e.title.lower()))
    return {each.name: each for each in found}


def _entry(each: Architecture, modules: Sequence[Module]) -> Entry:
    facts: dict[str, Any] = {name: getattr(each, name) for name in FACTS}
    return Entry(**facts, described=len(each.tasks), modules=tuple(modules))


def _gone(name: str, source: Mapping[str, Any], modules: Sequence[Module]) -> Entry:
    """Return an architecture whose file is gone, while its tasks are in the catalogue."""
    names = ("family", "library", "model")
    facts = {field: str(source.get(field, "")) for field in names}
    title = str(source.get("architecture_title") or name)
    return Entry(name, title, **facts, paper="", stand_in=False, note="",
                 described=len(modules), modules=tuple(modules))  # fmt: skip


def devices(shown: Snapshot) -> list[Option]:
    """Return all devices, with the number of their results of production tasks; most first."""
    return options(Filters(suite=TRACK), "hardware", shown)


def chosen_device(shown: Snapshot, asked: str) -> str:
    """Return the device of this slug, else the one with the most results; empty for none.

    Of equals a GPU comes first, which can judge every architecture.
    """
    found = {each.value: each.count for each in devices(shown)}
    gpus = {each.slug for each in shown.catalog.devices.values() if each.kind == "gpu"}
    best = max(found, key=lambda slug: (found[slug], slug in gpus), default="")
    return asked if asked in found else best


def judged(shown: Snapshot, device: str) -> Mapping[int, int]:
    """Return the number of judged runs of each production task on a device, by task id."""
    if not device:
        return {}

    def compute() -> Mapping[int, int]:
        rows = results(shown, Filters(suite=TRACK, hardware=device))
        tasks, counts = np.unique(rows["task"], return_counts=True)
        return dict(zip(tasks.tolist(), counts.tolist(), strict=True))

    return computed(shown, ("production runs", device), compute)


def best_of(shown: Snapshot, device: str, modules: Sequence[Module]) -> list[Best]:
    """Return the fastest result of each module that has one on a device, by the lower end."""
    fastest = leaders(device, shown) if device else {}
    found = []
    for module in modules:
        if each := fastest.get(module.task):
            deployed = Interval(each.speedup, each.low, each.high)
            agent = shown.agents[each.agent]
            found.append(Best(each.run, agent, module, deployed, each.noisy, each.judge))
    return sorted(found, key=lambda best: -best.deployed.low)


def descriptions(modules: Iterable[Module]) -> dict[int, Facts]:
    """Return what the newest version of each task says of its module, by task id."""
    tasks = Task.objects.filter(pk__in=[module.task for module in modules])
    newest = tasks.order_by().annotate(newest=TaskVersion.newest_of("pk")).values("newest")
    found = TaskVersion.objects.filter(pk__in=newest).order_by()
    rows = found.values_list("task", f"public__{TRACK}")
    return {pk: KIND.facts_of({TRACK: facts}) for pk, facts in rows}


def deployed_runs(entry: Entry, device: str, viewer: Viewer) -> RunQuerySet:
    """Return the visible runs whose final verdict has times: passed ones, the fastest first.

    None is in quarantine. Kernels submitted without an agent are among them.
    """
    tasks = [module.task for module in entry.modules]
    versions = list(TaskVersion.objects.filter(task__in=tasks).values_list("pk", flat=True))
    runs = Run.objects.visible_to(viewer).filter(
        task_version__in=versions, hardware__slug=device, status__in=RUN_JUDGED
    )
    timed = runs.exclude(unseen_speedup=None)  # which is the deployed one
    counted = timed.without_quarantined()
    return counted.with_names().order_by("-status", "-unseen_speedup", "-created_at", "pk")


def predicted(
    gains: Sequence[tuple[Module, Interval]], paths: Callable[[Module], frozenset[str]]
) -> Prediction | None:
    """Return the speedup that Amdahl's law predicts for the best kernels together.

    Each kernel alone saves 1 - 1/speedup of the model's time, and the savings of disjoint modules
    add up. Modules that contain each other are not disjoint: the set that saves most counts. None
    where no kernel is significantly faster deployed.
    """
    saved = {module: 1 - 1 / gain.speedup for module, gain in gains if gain.low > 1}
    places = {module: paths(module) for module in saved}
    chosen = _disjoint(tuple(saved), saved, places)
    total = sum(saved[module] for module in chosen)
    if not chosen or total >= 1:
        return None
    return Prediction(1 / (1 - total), chosen, tuple(m for m in saved if m not in chosen))


def _disjoint(
    modules: tuple[Module, ...],
    saved: Mapping[Module, float],
    places: Mapping[Module, frozenset[str]],
) -> tuple[Module, ...]:
    """Return the disjoint modules that save most."""
    if not modules:
        return ()
    first, rest = modules[0], modules[1:]
    apart = tuple(each for each in rest if not _nested(places[first], places[each]))
    with_first = (first, *_disjoint(apart, saved, places))
    if len(apart) == len(rest):
        return with_first
    without = _disjoint(rest, saved, places)
    return max(with_first, without, key=lambda chosen: sum(saved[m] for m in chosen))


def _nested(one: frozenset[str], other: frozenset[str]) -> bool:
    """Return whether a place of one module lies in the other; True where places are unknown."""
    return not one or not other or nested(one, other)
