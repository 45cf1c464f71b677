"""Generated requests to every operation of the API.

None makes the arena fail, and none has an answer that the OpenAPI description lacks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from django.core.cache import cache
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from arena.accounts.models import ApiToken, Scope
from arena.runs import services
from arena.runs.models import Run
from tests.arena.factories import finished

MAX_EXAMPLES = 12
"""Requests to one operation, of which there are two dozen: the file takes less than a minute."""
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
schema = schemathesis.openapi.from_wsgi("/api/v1/openapi.json", get_wsgi_application())
known: dict[str, Any] = {}
"""Values that exist, by the names of parameters and fields."""


def use_known(values: Any) -> Any:
    """Replace every second generated value by one that exists, so that requests get further."""
    if isinstance(values, dict):
        for name in values.keys() & known.keys():
            if len(str(values[name])) % 2 == 0:
                values[name] = known[name]
    return values


@schema.hook
def map_path_parameters(context: Any, path_parameters: Any) -> Any:
    return use_known(path_parameters)


@schema.hook
def map_body(context: Any, body: Any) -> Any:
    return use_known(body)


@pytest.fixture
def connected() -> Iterator[None]:
    """Keep the connection with the rows of the test open between requests."""
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


@pytest.fixture
def token(connected: None, start: Any, alice: Any) -> str:
    """Return a token with every scope, and set `known`."""
    run = finished(start(owner=alice))
    own = services.start_external_run(
        owner=alice, task_slug="relu/cpp-to-cpp", name="own", visibility="public"
    )
    assert Run.objects.count() == 2
    known.update(
        operator="relu", track="cpp-to-cpp", run_id=own.pk, number=1, seq=1,
        submission_id=f"{run.pk}-1", task="relu/cpp-to-cpp", agent="tuner", hardware="test-cpu",
        external={"name": "own"}, first=1, round=1, source="int relu;", adapter="tuner",
    )  # fmt: skip
    return ApiToken.issue(alice, "all", Scope.values)[1]


@pytest.mark.django_db
@schema.parametrize()
@settings(
    max_examples=MAX_EXAMPLES,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_operation_answers_generated_requests_as_documented(case: Any, token: str) -> None:
    cache.clear()
    headers = {"Authorization": f"Bearer {token}", "Accept-Encoding": "identity"}
    case.call_and_validate(headers=headers, checks=CHECKS)
