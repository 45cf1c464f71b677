"""The hardware page: devices, their measured peaks, sandbox features and workers."""

from __future__ import annotations

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from arena.catalog.models import Hardware, Worker

DEVICES_A_PAGE = 20


@require_safe
def hardware(request: HttpRequest) -> HttpResponse:
    devices = Paginator(Hardware.objects.prefetch_related("workers"), DEVICES_A_PAGE)
    page = devices.get_page(request.GET.get("page"))
    others = Worker.objects.filter(hardware=None)
    return render(request, "hardware.html", {"page": page, "others": others})
