"""An experiment of agents with a model, whose worker is killed twice, loses and repays nothing."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evaluation.sandbox.features import isolation_features
from tests.conftest import skip_or_fail
from tests.model_server import ModelServer, Script, Turn
from tests.runners.house import ENDED, TARGET, House

AGENTS, TASKS, REPEATS, CALLS, KILLS, THREADS = 2, 3, 2, 6, 2, 2
CELLS = AGENTS * TASKS * REPEATS
ASK = f"""
import http.client, json, os, time
messages = [{{"role": "user", "content": "Work."}}]
key = {{"x-api-key": os.environ["ANTHROPIC_API_KEY"]}}
tool = {{"name": "bash", "input_schema": {{"type": "object"}}}}
for number in range({CALLS}):
    body = {{"model": "scripted", "max_tokens": 99, "messages": messages, "tools": [tool]}}
    connection = http.client.HTTPConnection("127.0.0.1", 8400, timeout=60)
    connection.request("POST", "/v1/messages", json.dumps(body), key)
    answer = connection.getresponse()
    data = answer.read()
    assert answer.status == 200, data
    content = json.loads(data)["content"]
    assert content[0]["text"] == "Answer %d." % number, content
    results = [
        {{"type": "tool_result", "tool_use_id": part["id"], "content": "ok"}}
        for part in content if part["type"] == "tool_use"
    ]
    messages.append({{"role": "assistant", "content": content}})
    messages.append({{"role": "user", "content": results}})
    time.sleep(0.15)
"""
CATALOGUE = f"""
from arena.catalog.models import Agent, Operator, Task, TaskVersion
version = TaskVersion.objects.get()
for number in range({TASKS}):
    operator = Operator.objects.create(slug=f"k{{number}}", title="K", category="c", level=1,
                                       prompt="", reference_source="")
    task = Task.objects.create(operator=operator, track="cpp-to-cpp", status="published")
    TaskVersion.objects.create(
        task=task, content_hash=version.content_hash, public=version.public
    )
shell = "python3 ask.py && printf 'speedup 2.0' > {TARGET} && ./arena-check done"
for number in range({AGENTS}):
    Agent.objects.create(
        slug=f"a{{number}}", title="A", adapter="command_with_model", model="scripted",
        provider="paid", settings={{"files": {{"ask.py": ASK}}, "shell": shell}},
    )
"""
START = f"""
import json
from arena.runs import experiments
from arena.runs.experiments import Entrant, Plan
plan = Plan(slug="survives", title="Survives", repeats={REPEATS},
            agents=[Entrant(agent=f"a{{n}}") for n in range({AGENTS})],
            tasks=[f"k{{n}}/cpp-to-cpp" for n in range({TASKS})], hardware=["fake-cpu"])
print(len(experiments.start(plan).runs))
"""


@pytest.fixture
def provider() -> Iterator[ModelServer]:
    turns = [Turn(f"Answer {number}.", ("true",)) for number in range(CALLS)]
    script = Script(tuple(turns))
    with ModelServer({"scripted": script}, key="sk-paid") as server:
        yield server


@pytest.fixture
def arena(tmp_path: Path, provider: ModelServer) -> Iterator[House]:
    if not isolation_features().namespaces:
        skip_or_fail("network namespaces")
    house = House(tmp_path)
    (tmp_path / "providers.toml").write_text(
        f'[paid]\nwires = ["messages"]\nbase_url = "{provider.url}/v1"\nkey_variable = "PAID_KEY"\n'
        'prices = { "*" = { input = 3, output = 15 } }\n'
    )
    house.env |= {"PAID_KEY": "sk-paid"}
    house.furnish()
    house.python(f"ASK = {ASK!r}\n{CATALOGUE}")
    try:
        house.open()
        yield house
    finally:
        house.close()


def live_calls(house: House) -> Counter[str]:
    """Return the paid calls of each run."""
    rows = house.rows("SELECT run_id, body FROM runs_event WHERE kind = 'model_call'")
    return Counter(r["run_id"] for r in rows if not json.loads(r["body"])["replayed"])


def cell(row: dict[str, Any]) -> tuple[int, int, int]:
    return row["agent_id"], row["task_version_id"], row["repeat"]


@pytest.mark.slow
@pytest.mark.timeout(290)
def test_experiment_survives_two_kills_and_pays_for_no_answer_twice(
    arena: House, provider: ModelServer
) -> None:
    assert arena.python(START) == str(CELLS)

    def count(status: str) -> int:
        return len(arena.rows("SELECT 1 FROM runs_run WHERE status = ?", status))

    for kill in range(1, KILLS + 1):
        enough = kill * CELLS * CALLS // 4
        arena.wait_until(lambda least=enough: sum(live_calls(arena).values()) >= least, 60)
        arena.kill("agents")
        arena.expire()
        arena.start_worker("agents")
        arena.wait_until(lambda least=kill: count("broken") >= least, 30)
        arena.python(START)  # what a click on the experiment's page does

    def done() -> bool:
        return not arena.rows(f"SELECT 1 FROM runs_run WHERE status NOT IN {ENDED}")

    arena.wait_until(done, 120)
    arena.python(START)  # a second run that broke may have been reaped after that click
    arena.wait_until(done, 120)
    runs = arena.rows("SELECT * FROM runs_run ORDER BY created_at")
    assert len({cell(run) for run in runs}) == CELLS
    passed = [run for run in runs if run["status"] == "passed"]
    assert len(passed) == CELLS == len({cell(run) for run in passed})
    broken = [run for run in runs if run["status"] == "broken"]
    assert KILLS <= len(broken) <= KILLS * THREADS and len(runs) == CELLS + len(broken)
    assert {run["continues_id"] for run in runs} - {None} == {run["id"] for run in broken}

    calls = live_calls(arena)
    assert any(calls[run["id"]] for run in broken), "no run broke after it had paid"
    paid = Counter[tuple[int, int, int]]()
    for run in runs:
        paid[cell(run)] += calls[run["id"]]
        assert (run["cost_usd"] or 0) > 0 or not calls[run["id"]]
    assert set(paid.values()) == {CALLS}, "an answer that was kept was paid for again"
    lost = provider.requests - sum(paid.values())
    assert 0 <= lost <= KILLS * THREADS, "only calls under way at a kill are lost"
