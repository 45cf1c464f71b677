"""The page of one published verdict: its figures, its gates, and all that is known of the judge."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.template.defaultfilters import filesizeformat
from django.views.decorators.http import require_safe

from arena.accounts.models import Viewer
from arena.catalog.models import Operator, Task
from arena.catalog.templatetags.figures import Scale
from arena.published.models import PublishedVerdict
from arena.published.verdicts import Shown, verdicts_on
from arena.runs.display.charts import funnel_chart
from evaluation.judge.kinds import kind_of
from evaluation.types import GateName

TOTAL = "total"
SOFTWARE = {"torch": "PyTorch", "triton": "Triton", "python": "Python", "kernel": "Linux kernel"}
Fact = tuple[str, str]
"""A name and a text, which is empty where nothing was recorded."""


@require_safe
def published_verdict(request: HttpRequest, slug: str) -> HttpResponse:
    found = get_object_or_404(PublishedVerdict.objects.select_related("file"), slug=slug)
    of = (_of_several if found.together else _of_task)(found, request.user)
    shown: Shown = of["shown"]
    context = {
        **of,
        "verdict": found,
        "deployed": kind_of(found.track).deployed,
        "funnel": shown.funnel,
        "funnel_chart": funnel_chart(shown.funnel.lines) if shown.funnel else None,
        "gates": list(_gates(found)),
        "seconds": _seconds(found).get(TOTAL),
        "judge": list(_judge(found)),
        "machine": list(_machine(found.machine)),
    }
    return render(request, "published_verdict.html", context)


def _of_task(found: PublishedVerdict, viewer: Viewer) -> dict[str, Any]:
    """Return the task of a verdict, and the other verdicts on it."""
    visible = Task.objects.visible_to(viewer).select_related("operator")
    task = visible.filter(operator__slug=found.operator, track=found.track).first()
    version = task.version if task else None
    outdated = bool(version and found.task_hash and found.task_hash != version.content_hash)
    names = {found.operator: task.operator.title} if task else {}
    others = PublishedVerdict.objects.filter(operator=found.operator, track=found.track)
    return {
        "shown": Shown(found, names, outdated),
        "task": task,
        "others": others.exclude(pk=found.pk),
    }


def _of_several(found: PublishedVerdict, viewer: Viewer) -> dict[str, Any]:
    """Return the title of an architecture, and the other verdicts on its modules."""
    own = Operator.objects.filter(source__architecture=found.operator)
    visible = Task.objects.visible_to(viewer).filter(track=found.track, operator__in=own)
    operators = [task.operator for task in visible.select_related("operator")]
    titles = {str(each.source.get("architecture_title")) for each in operators}
    title = next(iter(titles), found.operator)
    names = {each.slug: each.title.removesuffix(f" of {title}") for each in operators}
    published = verdicts_on(names, found.track, architecture=found.operator)
    others = [each for each in published if each.verdict.pk != found.pk]
    return {
        "shown": Shown(found, names),
        "architecture": title,
        "others": others,
        "published_scale": Scale.over([each.verdict for each in others]),
    }


def _seconds(verdict: PublishedVerdict) -> Mapping[str, Any]:
    return _mapping(verdict.detail.get("seconds"))


def _gates(verdict: PublishedVerdict) -> Iterator[tuple[str, float]]:
    """Yield the gates that were reached, with the seconds of each."""
    seconds = _seconds(verdict)
    for gate in GateName:
        value = seconds.get(gate)
        if isinstance(value, int | float):
            yield gate.value, float(value)


def _judge(verdict: PublishedVerdict) -> Iterator[Fact]:
    """Yield what is known of the judge and of what it judged."""
    yield "Version", verdict.judge_version
    yield "Source", _text(verdict.machine.get("source"))
    yield "Task version", verdict.task_hash[:12]
    yield "Architecture", _text(verdict.machine.get("architecture"))[:12]
    yield "Command", verdict.file.command
    isolation = _mapping(verdict.machine.get("isolation"))
    yield "Isolation", ", ".join(name.replace("_", " ") for name, on in isolation.items() if on)


def _machine(machine: Mapping[str, Any]) -> Iterator[Fact]:
    """Yield what is known of the device and of its software."""
    device, peaks = _mapping(machine.get("device")), _mapping(machine.get("peaks"))
    memory = device.get("memory_bytes")
    yield "Device", _text(device.get("name"))
    yield "GPU UUID", _text(device.get("uuid"))
    yield "Memory", filesizeformat(memory).replace("\xa0", " ") if memory else ""
    yield "Driver", _text(device.get("driver"))
    yield "CUDA", _text(device.get("cuda"))
    for name, label in SOFTWARE.items():
        yield label, _text(machine.get(name))
    yield "Memory bandwidth", _figure(peaks.get("memory_gbps"), "GB/s")
    yield "float32 peak", _figure(peaks.get("float32_tflops"), "TFLOP/s")
    yield "bfloat16 peak", _figure(peaks.get("bfloat16_tflops"), "TFLOP/s")


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _figure(value: object, unit: str) -> str:
    return f"{value:,.0f} {unit}, measured" if isinstance(value, int | float) else ""
