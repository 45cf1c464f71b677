"""The hardware page: devices, their measured peaks, sandbox features and workers."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from arena.catalog.models import Hardware, Worker


@require_safe
def hardware(request: HttpRequest) -> HttpResponse:
    devices = Hardware.objects.prefetch_related("workers")
    others = Worker.objects.filter(hardware=None)
    return render(request, "hardware.html", {"devices": devices, "others": others})
