"""The loop of a worker: polls, database errors, and its end."""

from __future__ import annotations

import pytest
from django.db import OperationalError

from runners.process.supervisor import stopping
from runners.worker import worker


def test_poll_with_a_failing_reaper_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def reap() -> int:
        raise OverflowError("Python int too large to convert to SQLite INTEGER")

    worker.poll(reap=reap)
    assert "the reaper failed" in caplog.text


@pytest.mark.django_db(transaction=True)
def test_database_error_in_a_loop_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with worker.database_errors_logged():
        raise OperationalError("database is locked")
    assert "tried again later: database is locked" in caplog.text
    with pytest.raises(RuntimeError), worker.database_errors_logged():
        raise RuntimeError


def test_serving_with_an_error_stops_current_work() -> None:
    with pytest.raises(RuntimeError), worker.serving():
        raise RuntimeError
    assert stopping.is_set()
    stopping.clear()
