"""The examples of docs/client.md, against a web server and workers with a stand-in judge."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from evaluation.kinds.kernel.load import load_task
from tests.runners.house import ROOT, House

DOCUMENT = ROOT / "docs" / "client.md"
TOKEN = """
from arena.accounts.models import ApiToken, User
user, _ = User.objects.get_or_create(username="newcomer")
print(ApiToken.issue(user, "client", ["read", "submit", "ingest"])[1])
"""
TASK = "k/cpp-to-cpp"


def examples() -> list[str]:
    """Return the examples, for the task of the stand-in judge."""
    found = re.findall(r"```python\n(.+?)```", DOCUMENT.read_text(), re.DOTALL)
    return [example.replace("rms_norm/cpp-to-cpp", TASK) for example in found]


@pytest.fixture
def environment(house: House) -> Mapping[str, str]:
    """Return what the client needs to know: the arena and a token."""
    house.start_web()
    return {
        "ARENA_URL": f"http://127.0.0.1:{house.web_port}",
        "ARENA_TOKEN": house.python(TOKEN),
        "PYTHONPATH": str(ROOT),
        "PATH": os.environ["PATH"],
    }


def call(
    environment: Mapping[str, str], *words: str, code: int = 0, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    ended = subprocess.run(
        words, env=environment, capture_output=True, text=True, timeout=200, cwd=cwd
    )
    assert ended.returncode == code, ended.stdout + ended.stderr
    return ended


def test_tasks_of_the_documentation_are_in_this_checkout() -> None:
    named = set(re.findall(r"(\w+/\w+-to-\w+)", DOCUMENT.read_text()))
    assert named
    for task in named:
        assert load_task(ROOT / "tasks", *task.split("/")).slug == task


def test_examples_of_the_documentation_work(
    house: House, environment: Mapping[str, str], tmp_path: Path
) -> None:
    submits, brings = examples()
    (tmp_path / "kernel.cpp").write_text("speedup 2.0")
    (tmp_path / "kernels").mkdir()
    for name, source in (("a", "speedup 1.5"), ("b", "wrong"), ("c", "speedup 3.0")):
        (tmp_path / "kernels" / f"{name}.cpp").write_text(source)
    lines = call(environment, sys.executable, "-c", submits, cwd=tmp_path).stdout.splitlines()
    assert lines[0].startswith("passed 0.") and lines[-1].endswith("status")
    brought = call(environment, sys.executable, "-c", brings, cwd=tmp_path)
    assert brought.stdout.strip() == "judging"
    (run,) = house.rows(
        "SELECT r.id FROM runs_run r JOIN catalog_agent a ON a.id = r.agent_id"
        " WHERE a.slug = 'newcomer-climber'"
    )
    ended = house.ended(run["id"])
    assert (ended["status"], ended["rounds"]) == ("passed", 3)
    texts = [event["body"].get("text") for event in house.events(run["id"], "log", "message")]
    assert [text for text in texts if text] == [
        "I try a.cpp.", "Best: 1.5x", "I try b.cpp.", "Best: 1.5x", "I try c.cpp.", "Best: 3.0x",
    ]  # fmt: skip


def test_command_submits_watches_and_downloads(
    house: House, environment: Mapping[str, str], tmp_path: Path
) -> None:
    command = str(ROOT / "scripts" / "arena")
    kernel = tmp_path / "kernel.cpp"
    kernel.write_text("speedup 2.0")
    printed = call(environment, command, "submit", TASK, str(kernel), "--final").stdout
    run = re.search(r"/runs/(\w+)/", printed)[1]  # type: ignore[index]
    assert "passed" in printed.splitlines()[-1] and "held-out" in printed.splitlines()[-1]
    assert "performance" in printed
    assert call(environment, command, "watch", run).stdout.splitlines()[-1] in printed
    call(environment, command, "download", run, str(tmp_path / "out"))
    assert (tmp_path / "out" / "round-1" / "k.cpp").read_text() == "speedup 2.0"
    stored = json.loads((tmp_path / "out" / "run.json").read_text())
    lines = (tmp_path / "out" / "events.ndjson").read_text().splitlines()
    assert [json.loads(line)["seq"] for line in lines] == [*range(1, stored["last_seq"] + 1)]

    kernel.write_text("wrong")
    failed = call(environment, command, "submit", TASK, str(kernel), code=1).stdout
    assert failed.splitlines()[-1].endswith(": failed") and "failed: " in failed
    refused = call(environment, command, "submit", "k/nothing", str(kernel), code=2)
    assert "There is no task" in refused.stderr
    absent = call(environment, command, "submit", TASK, "/none", code=2)
    assert absent.stderr == "arena: /none cannot be read: No such file or directory\n"
    program = call(environment, command, "submit", TASK, sys.executable, code=2)
    assert program.stderr == f"arena: {sys.executable} is not text in UTF-8; submit the source\n"
    nobody = {**environment, "ARENA_TOKEN": "arena_x"}
    assert "/account/" in call(nobody, command, "submit", TASK, str(kernel), code=2).stderr
    nowhere = {**environment, "ARENA_URL": "http://127.0.0.1:1"}
    assert "ARENA_URL" in call(nowhere, command, "submit", TASK, str(kernel), code=3).stderr
    broken = call(nowhere, command, "watch", run, code=3).stderr
    assert f"arena: no connection; later: arena watch {run}\n" in broken and "ARENA_URL" in broken
