"""The composition root of the API: the routers of the apps, and how an error is answered."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_safe
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, HttpError, Throttled, ValidationError

from arena.accounts.auth import READ
from arena.catalog.api import router as catalog_router
from arena.errors import UserError
from arena.leaderboard.api import router as leaderboard_router
from arena.runs.api import router as runs_router

DOCS = "See /api/v1/docs."

api = NinjaAPI(
    title="Kernel Arena",
    version="1",
    description="Tasks, agents, hardware, runs with their events, and the leaderboard.",
    auth=READ,
    docs_decorator=lambda view: csrf_exempt(require_safe(view)),
)
api.add_router("", catalog_router)
api.add_router("/runs", runs_router)
api.add_router("/leaderboard", leaderboard_router)


def answer(
    request: HttpRequest, status: int, code: str, message: str, hint: str = DOCS, **more: Any
) -> HttpResponse:
    error = {"code": code, "message": message, "hint": hint, **more}
    return api.create_response(request, {"error": error}, status=status)


@api.exception_handler(UserError)
def on_user_error(request: HttpRequest, error: UserError) -> HttpResponse:
    return answer(request, error.status, error.code, error.message, error.hint)


@api.exception_handler(ValidationError)
def on_validation_error(request: HttpRequest, error: ValidationError) -> HttpResponse:
    said = [(e["loc"][1:], e["msg"].removeprefix("Value error, ")) for e in error.errors]
    fields = {".".join(map(str, place)): text for place, text in said}
    message = "; ".join(f"{name}: {text}" for name, text in fields.items())
    return answer(request, 422, "invalid", message, fields=fields)


@api.exception_handler(AuthenticationError)
def on_authentication_error(request: HttpRequest, error: AuthenticationError) -> HttpResponse:
    hint = "Log in, or send `Authorization: Bearer <token>`."
    return answer(request, 401, "unauthorized", "This needs a user.", hint)


@api.exception_handler(Throttled)
def on_throttled(request: HttpRequest, error: Throttled) -> HttpResponse:
    hint = f"Wait {math.ceil(error.wait or 60)} seconds."
    return answer(request, 429, "throttled", "Too many requests.", hint)


@api.exception_handler(Http404)
def on_not_found(request: HttpRequest, error: Http404) -> HttpResponse:
    return answer(request, 404, "not_found", "There is no such thing.")


@api.exception_handler(HttpError)
def on_http_error(request: HttpRequest, error: HttpError) -> HttpResponse:
    if error.status_code == 403:  # the only one of the library's: a session without its token
        hint = "Send the page's token as `X-CSRFToken`, or `Authorization: Bearer <token>`."
        return answer(request, 403, "forbidden", str(error), hint)
    return answer(request, error.status_code, "bad_request", str(error))


@api.exception_handler(RequestDataTooBig)
def on_too_much(request: HttpRequest, error: RequestDataTooBig) -> HttpResponse:
    hint = f"It may have {settings.DATA_UPLOAD_MAX_MEMORY_SIZE:,} bytes."
    return answer(request, 413, "too_large", "The body is too large.", hint)


@csrf_exempt
def nowhere(request: HttpRequest, rest: str) -> HttpResponse:
    """Any other address below /api/: an error like the others, not a page."""
    return answer(request, 404, "not_found", f"There is no /api/{rest}.")


def errors_in_its_form(
    get_response: Callable[[HttpRequest], HttpResponse],
) -> Callable[[HttpRequest], HttpResponse]:
    """Middleware: errors that others answer below /api/ are told as the API tells its own."""

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        told = response.headers.get("Content-Type", "").startswith("application/json")
        if told or response.status_code < 400 or not request.path.startswith("/api/"):
            return response
        return _in_its_form(request, response)

    return middleware


def _in_its_form(request: HttpRequest, response: HttpResponse) -> HttpResponse:
    status = response.status_code
    if status == 405:
        allowed = ", ".join(sorted(response.headers.get("Allow", "").split(", ")))
        message, hint = f"{request.method} is nothing for this address.", f"It takes {allowed}."
        told = answer(request, status, "method_not_allowed", message, hint)
        told.headers["Allow"] = allowed
        return told
    if status >= 500:
        hint = "It is our fault, and in the log of the server."
        return answer(request, status, "internal", "The arena failed at this.", hint)
    code = "not_found" if status == 404 else "bad_request"
    return answer(request, status, code, f"{response.reason_phrase}.")
