"""URLs of the admin, the API and the pages, all below the prefix of the settings.

The prefix is part of each URL, and of no request: an address that is made outside a request, or
kept for others, is the same.
"""

from __future__ import annotations

from django.conf import settings
from django.contrib import admin
from django.contrib.staticfiles.storage import staticfiles_storage
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, URLResolver, include, path
from django.views.generic import RedirectView

from arena.api.root import api, unknown_url

admin.site.site_header = admin.site.site_title = "Kernel Arena"


def admin_login(request: HttpRequest) -> HttpResponse:
    """Ask visitors of the admin to log in, and refuse users who are no staff."""
    if request.user.is_authenticated and not request.user.is_staff:
        raise PermissionDenied("Only staff use the admin.")
    return admin.site.login(request)


served: list[URLPattern | URLResolver] = [
    path("admin/password_change/", RedirectView.as_view(pattern_name="password-change")),
    path("admin/login/", admin_login),
    path("admin/", admin.site.urls),
    path("api/v1/", api.urls),
    path("api/<path:rest>", unknown_url),
    path("favicon.ico", RedirectView.as_view(url=staticfiles_storage.url("icon.svg"))),
    path("", include("arena.pages.urls")),
]
urlpatterns = [path(f"{settings.PREFIX}/"[1:], include(served))]
