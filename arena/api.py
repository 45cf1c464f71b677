"""The composition root of the API: the routers of the apps, and how an error is answered."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, HttpError, Throttled, ValidationError

from arena.accounts.auth import READ
from arena.catalog.api import router as catalog_router
from arena.errors import UserError
from arena.leaderboard.api import router as leaderboard_router
from arena.runs.api import router as runs_router

api = NinjaAPI(
    title="Kernel Arena",
    version="1",
    description="Tasks, agents, hardware, runs with their events, and the leaderboard.",
    auth=READ,
)
api.add_router("", catalog_router)
api.add_router("/runs", runs_router)
api.add_router("/leaderboard", leaderboard_router)


def answer(
    request: HttpRequest, status: int, code: str, message: str, hint: str = "", **more: Any
) -> HttpResponse:
    error = {"code": code, "message": message, "hint": hint, **more}
    return api.create_response(request, {"error": error}, status=status)


@api.exception_handler(UserError)
def on_user_error(request: HttpRequest, error: UserError) -> HttpResponse:
    return answer(request, error.status, error.code, error.message, error.hint)


@api.exception_handler(ValidationError)
def on_validation_error(request: HttpRequest, error: ValidationError) -> HttpResponse:
    fields = {".".join(map(str, e["loc"][1:])): e["msg"] for e in error.errors}
    message = "; ".join(f"{name}: {text}" for name, text in fields.items())
    return answer(request, 422, "invalid", message, "See /api/v1/docs.", fields=fields)


@api.exception_handler(AuthenticationError)
def on_authentication_error(request: HttpRequest, error: AuthenticationError) -> HttpResponse:
    hint = "Log in, or send `Authorization: Bearer <token>`."
    return answer(request, 401, "unauthorized", "This needs a user.", hint)


@api.exception_handler(Throttled)
def on_throttled(request: HttpRequest, error: Throttled) -> HttpResponse:
    hint = f"Wait {error.wait or 60} seconds."
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


def nowhere(request: HttpRequest, rest: str) -> HttpResponse:
    """Any other address below /api/: an error like the others, not a page."""
    return answer(request, 404, "not_found", f"There is no /api/{rest}.", "See /api/v1/docs.")
