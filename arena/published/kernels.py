"""Reads of published kernels: all of them, those that filters select, and their tasks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache

from arena.catalog.models import Task
from arena.filters import unknown_value
from arena.published.models import PublishedFile, PublishedKernel
from arena.published.outcomes import OUTCOMES

MAX_STATES = 2
"""States of all files whose kernels are kept in memory."""


@dataclass(frozen=True)
class KernelFilters:
    """The published kernels of a page, by its query string; an empty value selects all.

    `outcome` is what became of the claim, `device` the judge's. `task` is the operator of a
    problem, such as `kb1_19_relu`.
    """

    model: str = ""
    collection: str = ""
    suite: str = ""
    level: str = ""
    outcome: str = ""
    device: str = ""
    task: str = ""

    @property
    def chosen(self) -> dict[str, str]:
        """Return the filters that select, by name."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in values.items() if value}


FILTERS = tuple(each.name for each in fields(KernelFilters))


def kernels() -> tuple[PublishedKernel, ...]:
    """Return every published kernel with its file: the largest claims first.

    They stay in memory until a file changes.
    """
    return _kernels(tuple(PublishedFile.objects.values_list("pk", "digest")))


@lru_cache(maxsize=MAX_STATES)
def _kernels(files: tuple[tuple[int, str], ...]) -> tuple[PublishedKernel, ...]:
    found = PublishedKernel.objects.filter(file__in=[pk for pk, _ in files]).select_related("file")
    return tuple(sorted(found, key=lambda each: (-(each.claimed_speedup or 0.0), each.pk)))


def value_of(kernel: PublishedKernel, name: str) -> str:
    """Return the value of a kernel that a filter compares."""
    return kernel.file.device if name == "device" else str(getattr(kernel, name))


def selected(found: Iterable[PublishedKernel], filters: KernelFilters) -> list[PublishedKernel]:
    """Return the kernels that the filters select, in the same order."""
    chosen = filters.chosen.items()
    return [each for each in found if all(value_of(each, n) == value for n, value in chosen)]


def choices(found: Sequence[PublishedKernel], name: str) -> list[tuple[str, str]]:
    """Return the values of a filter, each with a label and the number of kernels."""
    counts: dict[str, int] = {}
    for each in found:
        value = value_of(each, name)
        counts[value] = counts.get(value, 0) + 1
    labels = {value: value for value in counts}
    if name == "collection":
        labels |= {each.collection: each.collection_title for each in found}
    if name == "outcome":
        labels = {outcome.value: each.label for outcome, each in OUTCOMES.items()}
        order = [value for value in labels if value in counts]
    else:
        order = sorted(counts, key=lambda value: labels[value].lower())
    return [(value, f"{labels[value]} ({counts[value]:,})") for value in order if value]


def unknown(found: Sequence[PublishedKernel], filters: KernelFilters) -> list[str]:
    """Return a sentence for each filter whose value no kernel has."""
    return [
        unknown_value("class" if name == "outcome" else name, value)
        for name, value in filters.chosen.items()
        if all(value_of(each, name) != value for each in found)
    ]


def task_of(kernel: PublishedKernel) -> Task | None:
    """Return the task of its problem, where its suite was imported."""
    operator = kernel.task.partition("/")[0]
    tasks = Task.objects.filter(operator__slug=operator, operator__suite=kernel.suite)
    found = tasks.filter(status=Task.Status.PUBLISHED).select_related("operator")
    return found.filter(track__endswith=f"to-{kernel.language}").first() or found.first()


def same_problem(kernel: PublishedKernel) -> list[PublishedKernel]:
    """Return the other kernels of its problem, on any device."""
    names = ("suite", "level", "problem")
    return [
        each
        for each in kernels()
        if each.pk != kernel.pk and all(getattr(each, n) == getattr(kernel, n) for n in names)
    ]


def claimed_on(operator: str, suite: str) -> int:
    """Return the number of published kernels for the problem of a task of a suite."""
    if not suite:
        return 0
    return PublishedKernel.objects.filter(task=operator, suite=suite).count()
