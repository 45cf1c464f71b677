"""Middleware of every request: text that can be stored, caches, and security headers."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.cache import patch_cache_control

from arena.api.root import Handler, error_response
from arena.text import PROBLEM, is_storable

HSTS_SECONDS = 31_536_000
CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "font-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def security_headers(get_response: Handler) -> Handler:
    """Add the policy to every response; no page needs an inline script or style."""

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        if settings.SESSION_COOKIE_SECURE:  # reached by TLS alone
            response.headers.setdefault("Strict-Transport-Security", f"max-age={HSTS_SECONDS}")
        return response

    return middleware


def private_pages(get_response: Handler) -> Handler:
    """Let nothing store what a user was sent, by a page or the API: it can be of a private run."""

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        if request.user.is_authenticated:
            patch_cache_control(response, private=True, no_store=True)
        return response

    return middleware


def page_of_method(get_response: Handler) -> Handler:
    """Give a page to a refusal of a method that has no text."""

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        if response.status_code != 405 or response.content:
            return response
        allowed = response.headers.get("Allow", "")
        page = render(request, "405.html", {"allowed": allowed}, status=405)
        page.headers["Allow"] = allowed
        return page

    return middleware


def storable_text(get_response: Handler) -> Handler:
    """Refuse a URL whose path or query no database can look up: PostgreSQL fails on a NUL."""

    def middleware(request: HttpRequest) -> HttpResponse:
        if is_storable([request.path, dict(request.GET.lists())]):
            return get_response(request)
        if request.path.startswith(f"{settings.PREFIX}/api/"):
            return error_response(request, 400, "bad_request", f"The URL is not text. {PROBLEM}")
        return render(request, "400.html", {"problem": PROBLEM}, status=400)

    return middleware
