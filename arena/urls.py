"""URLs of the admin, the API and the pages."""

from __future__ import annotations

from django.contrib import admin
from django.contrib.staticfiles.storage import staticfiles_storage
from django.urls import include, path
from django.views.generic import RedirectView

from arena.api import api, unknown_url

admin.site.site_header = admin.site.site_title = "Kernel Arena"

urlpatterns = [
    path("admin/", admin.site.urls),
    path("api/v1/", api.urls),
    path("api/<path:rest>", unknown_url),
    path("favicon.ico", RedirectView.as_view(url=staticfiles_storage.url("icon.svg"))),
    path("", include("arena.web_urls")),
]
