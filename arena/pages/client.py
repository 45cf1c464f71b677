"""The client for download, and the lines that install and use it."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from arena.client_wheel import wheel

KEPT_SECONDS = 86_400


@require_safe
def download(request: HttpRequest, name: str) -> HttpResponse:
    """Send the wheel; another version than that of this arena is not found."""
    if name != wheel().name:
        raise Http404(f"The client of this arena is {wheel().name}.")
    return HttpResponse(
        wheel().content, "application/zip", headers={"Cache-Control": f"max-age={KEPT_SECONDS}"}
    )


def lines(request: HttpRequest) -> dict[str, str]:
    """Return the address of this arena and of its wheel, for lines that are ready to paste."""
    address = request.build_absolute_uri(reverse("client", args=[wheel().name]))
    return {"arena": request.build_absolute_uri(reverse("home")).rstrip("/"), "wheel": address}
