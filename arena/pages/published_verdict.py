"""The page of one published verdict: its figures, its gates, and all that is known of the judge."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.template.defaultfilters import filesizeformat
from django.views.decorators.http import require_safe

from arena.catalog.models import Task
from arena.published.models import PublishedVerdict
from arena.published.verdicts import Shown
from arena.runs.display.charts import funnel_chart
from evaluation.judge.kinds import kind_of
from evaluation.types import GateName

TOTAL = "total"
Fact = tuple[str, str]
"""A name and a text, which is empty where nothing was recorded."""


@require_safe
def published_verdict(request: HttpRequest, slug: str) -> HttpResponse:
    found = get_object_or_404(PublishedVerdict.objects.select_related("file"), slug=slug)
    visible = Task.objects.visible_to(request.user).select_related("operator")
    task = visible.filter(operator__slug=found.operator, track=found.track).first()
    version = task.version if task else None
    shown = Shown(
        found,
        task.operator.title if task else found.operator,
        bool(version and found.task_hash and found.task_hash != version.content_hash),
    )
    others = PublishedVerdict.objects.filter(operator=found.operator, track=found.track)
    context = {
        "shown": shown,
        "verdict": found,
        "deployed": kind_of(found.track).deployed,
        "funnel": shown.funnel,
        "funnel_chart": funnel_chart(shown.funnel.lines) if shown.funnel else None,
        "task": task,
        "gates": list(_gates(found)),
        "seconds": _seconds(found).get(TOTAL),
        "judge": list(_judge(found)),
        "machine": list(_machine(found.machine)),
        "others": others.exclude(pk=found.pk),
    }
    return render(request, "published_verdict.html", context)


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
    yield "Card", _text(device.get("uuid"))
    yield "Memory", filesizeformat(memory).replace("\xa0", " ") if memory else ""
    yield "Driver", _text(device.get("driver"))
    yield "CUDA", _text(device.get("cuda"))
    for name in ("torch", "triton", "python", "kernel"):
        yield name.capitalize(), _text(machine.get(name))
    yield "Memory bandwidth", _figure(peaks.get("memory_gbps"), "GB/s")
    yield "float32 peak", _figure(peaks.get("float32_tflops"), "TFLOP/s")
    yield "bfloat16 peak", _figure(peaks.get("bfloat16_tflops"), "TFLOP/s")


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _figure(value: object, unit: str) -> str:
    return f"{value:,.0f} {unit}, measured" if isinstance(value, int | float) else ""
