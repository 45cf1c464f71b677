"""The API: routers of the apps, and error responses."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_safe
from ninja.errors import AuthenticationError, HttpError, Throttled, ValidationError

from arena.accounts.auth import READ
from arena.api.catalog import router as catalog_router
from arena.api.claims import router as claims_router
from arena.api.external import router as runs_router
from arena.api.leaderboard import router as leaderboard_router
from arena.api.openapi import DocumentedAPI
from arena.api.production import router as production_router
from arena.api.submissions import router as submissions_router
from arena.errors import QuotaExceeded, UserError

Handler = Callable[[HttpRequest], HttpResponse]
DOCS = f"See {settings.PREFIX}/api/v1/docs."

api = DocumentedAPI(
    title="Kernel Arena",
    version="1",
    description="Tasks, agents, hardware, runs with their events, and the leaderboard.",
    auth=READ,
    docs_decorator=lambda view: csrf_exempt(require_safe(view)),
)
api.add_router("", catalog_router)
api.add_router("/runs", runs_router)
api.add_router("/submissions", submissions_router)
api.add_router("/leaderboard", leaderboard_router)
api.add_router("/production", production_router)
api.add_router("/claims", claims_router)


def error_response(
    request: HttpRequest, status: int, code: str, message: str, hint: str = DOCS, **more: Any
) -> HttpResponse:
    sentence = f"{message.removesuffix('.')}."  # those of libraries have no full stop
    error = {"code": code, "message": sentence, "hint": hint, **more}
    return api.create_response(request, {"error": error}, status=status)


@api.exception_handler(UserError)
def on_user_error(request: HttpRequest, error: UserError) -> HttpResponse:
    found = {name: getattr(error, name, None) for name in ("fields", "expected")}
    more = {name: value for name, value in found.items() if value}
    return error_response(request, error.status, error.code, error.message, error.hint, **more)


@api.exception_handler(QuotaExceeded)
def on_quota_exceeded(request: HttpRequest, error: QuotaExceeded) -> HttpResponse:
    response = on_user_error(request, error)
    if error.retry_after is not None:
        response.headers["Retry-After"] = str(error.retry_after)
    return response


@api.exception_handler(ValidationError)
def on_validation_error(request: HttpRequest, error: ValidationError) -> HttpResponse:
    fields = {
        ".".join(map(str, e["loc"][1:])): e["msg"].removeprefix("Value error, ")
        for e in error.errors
    }
    message = "; ".join(f"{name}: {text.removesuffix('.')}" for name, text in fields.items())
    return error_response(request, 422, "invalid", message, fields=fields)


@api.exception_handler(AuthenticationError)
def on_authentication_error(request: HttpRequest, error: AuthenticationError) -> HttpResponse:
    hint = "Log in, or send `Authorization: Bearer <token>`."
    return error_response(request, 401, "unauthorized", "This needs a user.", hint)


@api.exception_handler(Throttled)
def on_throttled(request: HttpRequest, error: Throttled) -> HttpResponse:
    seconds = math.ceil(error.wait or 60)
    hint = f"Wait {seconds} seconds."
    response = error_response(request, 429, "throttled", "Too many requests.", hint)
    response.headers["Retry-After"] = str(seconds)
    return response


@api.exception_handler(Http404)
def on_not_found(request: HttpRequest, error: Http404) -> HttpResponse:
    return error_response(request, 404, "not_found", "This does not exist.")


@api.exception_handler(HttpError)
def on_http_error(request: HttpRequest, error: HttpError) -> HttpResponse:
    if error.status_code == 403:  # ninja's only one: a session without its CSRF token
        hint = "Send the page's token as `X-CSRFToken`, or `Authorization: Bearer <token>`."
        return error_response(request, 403, "forbidden", str(error), hint)
    return error_response(request, error.status_code, "bad_request", str(error))


@api.exception_handler(RequestDataTooBig)
def on_too_much(request: HttpRequest, error: RequestDataTooBig) -> HttpResponse:
    hint = f"It may have {settings.DATA_UPLOAD_MAX_MEMORY_SIZE:,} bytes."
    return error_response(request, 413, "too_large", "The body is too large.", hint)


@csrf_exempt
def unknown_url(request: HttpRequest, rest: str) -> HttpResponse:
    """Answer any other URL below /api/ with an error of the API."""
    return error_response(request, 404, "not_found", f"There is no {request.path}.")


def api_errors(get_response: Handler) -> Handler:
    """Turn the errors of other middleware below /api/ into errors of the API."""

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        is_json = response.headers.get("Content-Type", "").startswith("application/json")
        is_api = request.path.startswith(f"{settings.PREFIX}/api/")
        if is_json or response.status_code < 400 or not is_api:
            return response
        return _api_error(request, response)

    return middleware


def api_heads(get_response: Handler) -> Handler:
    """Answer HEAD below /api/ like GET, without the body."""

    def middleware(request: HttpRequest) -> HttpResponse:
        if request.method != "HEAD" or not request.path.startswith(f"{settings.PREFIX}/api/"):
            return get_response(request)
        request.method = "GET"
        response = get_response(request)
        request.method = "HEAD"
        if not response.streaming:
            response.headers["Content-Length"] = str(len(response.content))
            response.content = b""
        return response

    return middleware


def _api_error(request: HttpRequest, response: HttpResponse) -> HttpResponse:
    status = response.status_code
    if status == 405:
        allowed = ", ".join(sorted(response.headers.get("Allow", "").split(", ")))
        message, hint = f"{request.method} is not allowed here.", f"Allowed: {allowed}."
        refusal = error_response(request, status, "method_not_allowed", message, hint)
        refusal.headers["Allow"] = allowed
        return refusal
    if status >= 500:
        hint = "This is our fault; see the log of the server."
        return error_response(request, status, "internal", "The arena failed.", hint)
    code = "not_found" if status == 404 else "bad_request"
    return error_response(request, status, code, f"{response.reason_phrase}.")
