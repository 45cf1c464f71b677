"""Logs of a whole arena as JSON: one object a line, of every process."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from tests.runners.house import ROLES, TARGET, House


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """Start a house whose processes log as JSON."""
    house = House(tmp_path)
    house.env["ARENA_LOG_FORMAT"] = "json"
    house.furnish()
    try:
        house.open()
        house.start_web()
        yield house
    finally:
        house.close()


def lines_of(house: House, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in house.log_of(name).read_text().splitlines()]


def test_lines_of_json_name_the_run_the_evaluation_and_the_machine(house: House) -> None:
    run = house.run([{"write": TARGET, "text": "speedup 1.5 breaks once"}, {"check": ""}])
    house.ended(run)
    with suppress(HTTPError):
        urlopen(f"http://127.0.0.1:{house.web_port}/runs/{run}/events/99999/")
    for name in (*ROLES, "web"):
        for line in lines_of(house, name):
            assert {"level", "logger", "message"} <= line.keys()
            assert datetime.fromisoformat(line["time"]).tzinfo is not None
            assert line["machine"] == socket.gethostname()
    (broke,) = (line for line in lines_of(house, "hardware") if line["level"] == "WARNING")
    (row,) = house.rows("SELECT id, attempts FROM runs_evaluation WHERE scope = 'round'")
    assert (broke["logger"], broke["run"]) == ("runners.worker.judging", run)
    assert (broke["evaluation"], row["attempts"]) == (row["id"], 2)
    (missing,) = (line for line in lines_of(house, "web") if run in line["message"])
    assert (missing["logger"], missing["status"]) == ("arena.web_server", 404)
    assert missing["path"] == f"/runs/{run}/events/99999/" and missing["seconds"] > 0
