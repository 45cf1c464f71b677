"""Resource limits of an agent with all its processes: it is ended, and its file is judged."""

from __future__ import annotations

from typing import Any

import pytest

from tests.runners.house import TARGET, House

FORKS = """
import os, time
for _ in range({count}):
    if os.fork() == 0:
        os.setsid()
        time.sleep({seconds})
        os._exit(0)
time.sleep({seconds})
"""
FILLS = """
import os, time
for number in range({files}):
    file = os.open(f".tmp/{{number}}", os.O_CREAT | os.O_WRONLY)
    os.posix_fallocate(file, 0, 50 << 20)
time.sleep({seconds})
"""


def steps_that_run(code: str) -> list[dict[str, Any]]:
    """Return the steps of an agent that writes a submission, then runs this."""
    implementation = {"write": TARGET, "text": "speedup 1.4"}
    return [implementation, {"write": "it.py", "text": code}, {"run": "python3 it.py"}]


@pytest.mark.parametrize(
    ("code", "name", "limit", "text"),
    [
        (
            FORKS.format(count=600, seconds=600),
            "processes",
            256,
            " processes at a time; the limit is 256.",
        ),
        (
            FILLS.format(files=8, seconds=600),
            "file_bytes",
            256 << 20,
            " MiB of files; the limit is 256.",
        ),
    ],
    ids=["forks", "disk"],
)
def test_agent_above_a_limit_is_ended_and_its_file_judged(
    house: House, code: str, name: str, limit: int, text: str
) -> None:
    row = house.ended(run := house.run(steps_that_run(code)))
    assert (row["status"], row["speedup"]) == ("passed", 1.4)
    (event,) = house.events(run, "limit")
    assert (event["body"]["name"], event["body"]["limit"]) == (name, limit)
    assert event["body"]["used"] > limit
    assert event["body"]["text"].startswith("It took at least ")
    assert event["body"]["text"].endswith(text)
    assert not (house.home / "workspaces" / run).exists()


@pytest.mark.parametrize(
    "code", [FORKS.format(count=30, seconds=1), FILLS.format(files=3, seconds=1)]
)
def test_agent_below_the_limits_continues(house: House, code: str) -> None:
    row = house.ended(run := house.run(steps_that_run(code)))
    assert (row["status"], row["speedup"]) == ("passed", 1.4)
    assert house.events(run, "limit") == []


def test_agent_that_holds_watches_of_files_is_judged_all_the_same(house: House) -> None:
    code = "import ctypes\nprint([ctypes.CDLL(None).inotify_init1(0) > 0 for _ in range(16)])\n"
    steps = [*steps_that_run(code), {"check": ""}]
    row = house.ended(run := house.run(steps))
    (opened, _) = house.events(run, "tool_result")
    assert opened["body"]["output"].strip() == str([True] * 16), (
        "an accepted limit: they are shared"
    )
    assert (row["status"], row["speedup"]) == ("passed", 1.4)
