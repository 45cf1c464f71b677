"""Records as lines of JSON."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

import pytest
from django.http import HttpRequest, HttpResponse
from django.test import Client
from django.urls import path

from arena import logs, web_server


def view(request: HttpRequest, **named: str) -> HttpResponse:
    """Answer with the line that it would log."""
    return HttpResponse(logs.Json().format(record("x")), content_type="application/json")


urlpatterns = [path("runs/<slug:run_id>/", view), path("runs/", view)]


def record(message: str, *values: object, **more: Any) -> logging.LogRecord:
    found = logging.LogRecord("arena.x", logging.ERROR, __file__, 1, message, values, None)
    found.__dict__ |= more
    return found


@pytest.fixture(autouse=True)
def empty_context() -> None:
    logs.begin()


def test_record_as_json_is_one_line_with_the_values_of_its_context() -> None:
    logs.begin(evaluation=7)
    logs.add(run="abc")
    printed = logs.Json().format(record("two\nlines of %s", "text", about={"status": 404}))
    assert printed.count("\n") == 0
    line = json.loads(printed)
    assert (line["message"], line["level"]) == ("two\nlines of text", "ERROR")
    assert (line["evaluation"], line["run"], line["status"]) == (7, "abc", 404)


def test_context_that_begins_anew_forgets_the_values_of_the_one_before() -> None:
    logs.begin(evaluation=7, run="abc")
    logs.begin(evaluation=8)
    line = json.loads(logs.Json().format(record("x")))
    assert line["evaluation"] == 8 and "run" not in line


def test_request_that_names_a_run_has_it_in_its_lines_and_the_next_request_has_not(
    client: Client, settings: Any
) -> None:
    settings.ROOT_URLCONF, settings.MIDDLEWARE = __name__, ["arena.logs.Requests"]
    assert client.get("/runs/abc/").json()["run"] == "abc"
    assert "run" not in client.get("/runs/").json()


def test_record_with_an_exception_has_its_traceback_as_a_value() -> None:
    try:
        raise ValueError("nothing there")
    except ValueError:
        line = json.loads(logs.Json().format(record("x", exc_info=sys.exc_info())))
    assert "ValueError: nothing there" in line["traceback"]


def test_text_of_a_sender_as_json_is_cut_and_has_no_traceback() -> None:
    text = "a" * (logs.MAX_CHARACTERS + 50)
    try:
        raise ValueError
    except ValueError:
        line = json.loads(logs.OneLineJson().format(record(text, exc_info=sys.exc_info())))
    assert len(line["message"]) == logs.MAX_CHARACTERS and "traceback" not in line


@pytest.mark.parametrize("prefix", ["", "/arena"])
def test_line_of_a_sign_in_link_has_no_token(caplog: pytest.LogCaptureFixture, prefix: str) -> None:
    caplog.set_level(logging.INFO, "arena.web_server")
    path = f"{prefix}/sign-in/7/abc-secret/"
    details = {"method": "GET", "path": path, "status": 200, "client": "me"}
    web_server.log_action("http", "complete", details)
    (line,) = caplog.records
    assert line.getMessage() == f"GET {prefix}/sign-in/… 200 from me"
    assert "secret" not in str(vars(line))
