"""The pages of production tasks: the architectures by family, and one architecture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from django.core.paginator import Page, Paginator
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from arena.catalog.models import Hardware
from arena.catalog.templatetags.figures import Scale
from arena.filters import unknown_value
from arena.leaderboard.models import Composition
from arena.leaderboard.production.architectures import (
    FAMILY_TITLES,
    Best,
    Entry,
    Module,
    Prediction,
    best_of,
    chosen_device,
    deployed_runs,
    descriptions,
    devices,
    entries,
    judged,
)
from arena.leaderboard.production.compositions import measured, together
from arena.leaderboard.ranking.boards import Option
from arena.leaderboard.ranking.results import Snapshot, snapshot
from arena.pages.charts.files import chart_file
from arena.published.models import PublishedVerdict
from arena.published.verdicts import best_by_operator, counted, fastest, verdicts_on
from arena.runs.display.charts import funnel_chart
from arena.runs.display.funnels import (
    DROPS_BY_NAME,
    Ceilings,
    Cells,
    Funnel,
    Line,
    Phase,
    decode_windows,
    funnel,
    funnels_of,
    regimes_of,
)
from arena.runs.models import Run
from evaluation.device_kind import CPU
from evaluation.kinds.module.architectures import TRACK
from evaluation.kinds.module.description.brief import Facts
from evaluation.types import GateName, Interval

SUBMISSIONS_A_PAGE = 12
TOGETHER = "All best kernels"


@dataclass(frozen=True)
class Card:
    """One line of the list: an architecture with its results on a device."""

    entry: Entry
    judged: int
    best: Best | None
    published: PublishedVerdict | None
    """The fastest verdict of the project's own benchmark on its modules, one or several."""
    verdicts: int
    """The number of its published verdicts."""

    @property
    def has_result(self) -> bool:
        return bool(self.judged or self.verdicts)

    @property
    def published_name(self) -> str:
        """Return the short name of the module of the published verdict."""
        names = {each.operator: self.entry.short(each.title) for each in self.entry.modules}
        return names.get(self.published.operator, "") if self.published else ""


@dataclass(frozen=True)
class Section:
    """The architectures of a family that have a result, with the axes of its table."""

    title: str
    cards: Sequence[Card]

    @property
    def scale(self) -> Scale:
        return Scale.over([card.best.deployed for card in self.cards if card.best])

    @property
    def published_scale(self) -> Scale:
        return Scale.over([card.published for card in self.cards if card.published])


@dataclass(frozen=True)
class Share:
    """The part of a phase's time that a module takes, from its ceiling."""

    phase: str
    ceiling: Interval | None

    @property
    def part(self) -> float | None:
        return max(0.0, 1 - 1 / self.ceiling.speedup) if self.ceiling else None


@dataclass(frozen=True)
class ModuleRow:
    """One module of an architecture: the ceiling of each phase, and its best kernel."""

    module: Module
    name: str
    places: int
    ceilings: Mapping[str, Interval]
    best: Best | None
    funnel: Funnel | None

    def shares(self, phases: Sequence[str]) -> list[Share]:
        """Return what each phase spends in the module."""
        return [Share(phase, self.ceilings.get(phase)) for phase in phases]


@dataclass(frozen=True)
class Submission:
    """One judged submission with its funnel; `name` is the short name of its module."""

    run: Run
    name: str
    funnel: Funnel

    @property
    def line(self) -> Line:
        """Return its line of the funnel chart."""
        return replace(self.funnel.lines[0], label=f"{self.name}<br>{self.run.author}")


@dataclass(frozen=True)
class Composed:
    """The best kernels together: their prediction, and what was measured of this very set.

    `funnel` is None where the model was not timed; `caused_by` are the modules that made it fail.
    """

    prediction: Prediction
    measured: Composition | None
    funnel: Funnel | None
    caused_by: Sequence[str]
    drop: str

    @property
    def passed(self) -> bool:
        return self.funnel is not None and self.measured is not None and self.measured.passed

    @property
    def why(self) -> str:
        """Return one sentence on why it failed: of its drop reason, else the judge's last line."""
        message = self.measured.message if self.measured else ""
        return DROPS_BY_NAME.get(self.drop) or message.strip().rpartition("\n")[2]

    @property
    def line(self) -> Line | None:
        """Return its line of the funnel chart."""
        return replace(self.funnel.lines[0], label=TOGETHER) if self.funnel else None


@require_safe
def index(request: HttpRequest) -> HttpResponse:
    """List the architectures by family, with their best deployed speedup on one device."""
    now, every = snapshot(), entries()
    published, verdicts = best_by_operator(TRACK), counted(TRACK)
    tabs, device, problems = _device(request, now, every, verdicts)
    slug = device.slug if device else ""
    counts = judged(now, slug)
    totals: Counter[str] = Counter()
    for (name, _), number in verdicts.items():
        totals[name] += number
    family = request.GET.get("family", "")
    cards = [
        Card(
            entry,
            sum(counts.get(module.task, 0) for module in entry.modules),
            next(iter(best_of(now, slug, entry.modules)), None),
            fastest(published, entry.judged_names),
            sum(totals[name] for name in entry.judged_names),
        )
        for entry in every.values()
    ]
    families = [
        (name, f"{FAMILY_TITLES.get(name, name)} ({len(list(group))})")
        for name, group in groupby(every.values(), key=lambda entry: entry.family)
    ]
    if family and family not in dict(families):
        problems.append(unknown_value("family", family))
    shown = [card for card in cards if not family or card.entry.family == family]
    context = {
        "tabs": tabs,
        "device": device,
        "problems": problems,
        "families": families,
        "family": family,
        "sections": [
            Section(title, list(group))
            for title, group in groupby(
                (card for card in shown if card.has_result),
                key=lambda card: card.entry.family_title,
            )
        ],
        "others": [card for card in shown if not card.has_result],
        "tasks": sum(len(entry.modules) for entry in every.values()),
        "judged": sum(card.judged for card in cards),
        "published": sum(not each.together for each in published.values()),
    }
    return render(request, "production/index.html", context)


@require_safe
def architecture(request: HttpRequest, name: str) -> HttpResponse:
    """Show one architecture: its modules, their best kernels, and the funnel of each submission."""
    every = entries()
    entry = every.get(name)
    if entry is None:
        raise Http404
    now = snapshot()
    tabs, device, problems = _device(request, now, every, counted(TRACK))
    described = descriptions(entry.modules)
    on_cpu = device is not None and device.kind == CPU
    known = {pk: each.ceilings for pk, each in described.items() if on_cpu}
    slug = device.slug if device else ""
    page = Paginator(deployed_runs(entry, slug, request.user), SUBMISSIONS_A_PAGE).get_page(
        request.GET.get("page")
    )
    best = best_of(now, slug, entry.modules)
    runs = Run.objects.with_names().in_bulk({each.run for each in best})
    listed = list(page.object_list)
    funnels = funnels_of([*listed, *runs.values()], known)
    rows = [_row(entry, module, described, known, best, funnels) for module in entry.modules]
    phases = list(dict.fromkeys(phase for row in rows for phase in row.ceilings))
    rows.sort(key=lambda row: -max((each.speedup for each in row.ceilings.values()), default=0.0))
    submissions = [
        Submission(run, entry.short(run.task_version.task.operator.title), funnels[run.pk])
        for run in listed
        if run.pk in funnels
    ]
    composed = _composed(entry, now, device)
    names = {module.operator: entry.short(module.title) for module in entry.modules}
    published = verdicts_on(names, TRACK, architecture=name)
    context = {
        "entry": entry,
        "tabs": tabs,
        "device": device,
        "problems": problems,
        "unavailable": next(filter(None, (each.unavailable for each in described.values())), ""),
        "rows": [(row, row.shares(phases)) for row in rows],
        "phases": phases,
        "composed": composed,
        "published": published,
        "published_together": [each for each in published if each.verdict.together],
        "published_scale": Scale.over([each.verdict for each in published]),
        **_regimes(rows, composed),
        **_submissions(submissions, page, composed),
    }
    file = chart_file(request, {"funnel": lambda: context["chart"]})
    return file or render(request, "production/architecture.html", context)


def _device(
    request: HttpRequest,
    now: Snapshot,
    every: Mapping[str, Entry],
    verdicts: Mapping[tuple[str, str], int],
) -> tuple[list[tuple[Option, bool]], Hardware | None, list[str]]:
    """Return the devices with a mark of the chosen one, that one, and what is wrong with it.

    Each is counted with its published verdicts, which are given by name and device. Without a
    choice it is the device with the most results of production tasks.
    """
    asked = request.GET.get("hardware", "")
    slug = chosen_device(now, asked)
    found = next((d for d in now.catalog.devices.values() if d.slug == slug), None)
    problems = [unknown_value("device", asked)] if asked and asked != slug else []
    names = {name for entry in every.values() for name in entry.judged_names}
    published: Counter[str] = Counter()
    for (name, device), number in verdicts.items():
        published[device] += number if name in names else 0
    tabs = [replace(each, count=each.count + published[each.label]) for each in devices(now)]
    tabs.sort(key=lambda each: -each.count)
    return [(each, each.value == slug) for each in tabs], found, problems


def _row(
    entry: Entry,
    module: Module,
    described: Mapping[int, Facts],
    known: Mapping[int, Ceilings],
    best: Sequence[Best],
    funnels: Mapping[str, Funnel],
) -> ModuleRow:
    """Return a module; ceilings of a verdict on this device replace those of the task."""
    fastest = next((each for each in best if each.module == module), None)
    funnel = funnels.get(fastest.run) if fastest else None
    ceilings = dict(known.get(module.task, {}))
    ceilings |= {p.name: p.ceiling for p in funnel.phases if p.ceiling} if funnel else {}
    return ModuleRow(
        module=module,
        name=entry.short(module.title),
        places=described[module.task].places if module.task in described else 0,
        ceilings=ceilings,
        best=fastest,
        funnel=funnel,
    )


def _composed(entry: Entry, now: Snapshot, device: Hardware | None) -> Composed | None:
    """Return the best kernels of an architecture together; None where there are fewer than two."""
    wanted = together(now, device.slug).get(entry.name) if device else None
    if wanted is None or device is None:
        return None
    found = measured(entry.name, device, wanted)
    gates = found.gates if found else {}
    windows = decode_windows(entry.name, device.kind)
    timed = funnel(gates.get(GateName.PERFORMANCE), gates.get(GateName.CORRECTNESS), None, windows)
    failed: Mapping[str, Any] = next((each for each in gates.values() if "caused_by" in each), {})
    names = {module.operator: entry.short(module.title) for module in entry.modules}
    return Composed(
        prediction=wanted.prediction,
        measured=found,
        funnel=replace(timed, predicted=wanted.prediction.speedup) if timed else None,
        caused_by=[names.get(name, name) for name in failed.get("caused_by", ())],
        drop=timed.drop if timed else failed.get("drop", ""),
    )


def _regimes(rows: Sequence[ModuleRow], composed: Composed | None) -> dict[str, Any]:
    """Return the phases of the best kernels with their cells of the table of regimes."""
    funnels = [(row.name, row.funnel) for row in rows]
    funnels += [(TOGETHER, composed.funnel)] if composed else []
    phases = [(name, phase) for name, found in funnels if found for phase in found.phases]
    regimes = regimes_of([phase for _, phase in phases])
    cells: list[tuple[str, Phase, Cells]] = [
        (name, phase, phase.cells(regimes)) for name, phase in phases
    ]
    return {"regimes": regimes, "regime_rows": cells}


def _submissions(
    submissions: Sequence[Submission], page: Page[Run], composed: Composed | None
) -> dict[str, Any]:
    lines = [composed.line] if composed and composed.line else []
    lines += [each.line for each in submissions]
    deployed = [line.deployed for line in lines]
    losing = sum(each.funnel.loses for each in submissions)
    return {
        "page": page,
        "submissions": submissions,
        "losing": losing,
        "submission_scale": Scale.over(deployed),
        "chart": funnel_chart(lines) if lines else None,
    }
