"""The command adapter: programs of settings, their output, and the example of the documentation."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evaluation.code.building import nvcc
from evaluation.sandbox.features import isolation_features
from runners.agents.command import Settings
from runners.process.supervisor import Ending
from runners.session.control_socket import Answer
from tests.conftest import skip_or_fail
from tests.model_server import ModelServer, Script, Turn
from tests.runners.agents.real_arena import KEY, START
from tests.runners.agents.test_agents import TUNABLE, AgentHarness, failed, timed, value
from tests.runners.house import ROOT, TARGET, House

DOCUMENT = ROOT / "docs" / "search-agents.md"
MAX_WORDS, MAX_LINES = 500, 30
BUILD = """
set -e
g++ --version | head -n 1
printf '#include <omp.h>\\n#include <cstdio>\\nint main() { std::puts("it runs"); }' > it.cpp
g++ -O3 -march=native -fopenmp it.cpp -o it
./it
cat TASK.md AGENTS.md
echo "speedup 1.4" > k.cpp
./arena-check built
"""
CUDA_BUILD = """
set -e
nvcc --version
printf '__global__ void k(float* x) { x[threadIdx.x] = 0; }' > k.cu
nvcc -arch=native -c k.cu -o k.o || nvcc -c k.cu -o k.o
test -s k.o && echo it is built
"""
MCP_CLIENT = """
import asyncio
from mcp import Client, StdioServerParameters

async def talk():
    async with Client(StdioServerParameters(command="./arena-mcp")) as client:
        open("k.cpp", "w").write("speedup 1.6")
        result = await client.call_tool("check", {"note": "by a tool"})
        print(result.content[0].text)

asyncio.run(talk())
"""
ASK_MODEL = """
import os, subprocess, sys
import anthropic, openai

model, messages = os.environ["ARENA_MODEL"], [{"role": "user", "content": "A kernel, please."}]
if sys.argv[1] == "openai":
    tool = {"type": "function", "function": {"name": "shell", "parameters": {}}}
    answer = openai.OpenAI().chat.completions.create(model=model, messages=messages, tools=[tool])
    text = answer.choices[0].message.content
else:
    tool = {"name": "shell", "input_schema": {"type": "object"}}
    asked = {"model": model, "messages": messages, "tools": [tool], "max_tokens": 100}
    text = anthropic.Anthropic().messages.create(**asked).content[0].text
open("k.cpp", "w").write(text)
subprocess.run(["./arena-check", "of the model"])
"""
_numbers = itertools.count()


def example() -> str:
    (found,) = re.findall(r"```python\n(.+?)```", DOCUMENT.read_text(), re.DOTALL)
    return str(found)


def bodies(harness: AgentHarness, kind: str) -> list[dict[str, Any]]:
    return [event["body"] for event in harness.events if event["kind"] == kind]


def judge(source: str) -> Answer:
    if value(source, "BLOCK") == "32":
        return failed("WRONG_VALUES")
    return timed(float(value(source, "BLOCK")) / 8 + float(value(source, "UNROLL")) / 10)


def test_example_of_the_documentation_samples_checks_and_keeps_the_best(tmp_path: Path) -> None:
    harness = AgentHarness(tmp_path, TUNABLE)
    settings = {"shell": "python3 search.py", "files": {"search.py": example()}}
    ended = harness.work("command", judge, settings, rounds=40)
    assert (ended.code, ended.stderr) == (0, "")
    assert len(harness.submitted) == 40 and harness.submitted[0] == TUNABLE
    best = harness.target()
    assert (value(best, "BLOCK"), value(best, "UNROLL")) == ("16", "2")
    assert bodies(harness, "message")[-1]["text"].endswith("is the best: 2.19x.")
    log = "\n".join(body["text"] for body in bodies(harness, "log"))
    assert "sample 39: " in log and "failed WRONG_VALUES" in log
    edits = {body["path"] for body in bodies(harness, "file_edit")}
    assert edits == {"search.py", TARGET}


def test_document_is_short_and_so_is_its_example() -> None:
    assert len(DOCUMENT.read_text().split()) <= MAX_WORDS
    lines = [line for line in example().splitlines() if line.strip()]
    assert len(lines) <= MAX_LINES


def test_output_becomes_log_and_events_in_order(tmp_path: Path) -> None:
    harness = AgentHarness(tmp_path, "int a;\n")
    program = """
import sys
print("first")
print("second")
print('{"kind": "message", "id": "agent-it-1", "body": {"role": "assistant", "text": "Hm."}}')
print('{"neither": "event"}')
print('{"kind": "note", "body": {"text": "n", "detail": {}, "kind": 1}}')
print("last", file=sys.stderr)
"""
    settings = {"command": ["python3", "it.py"], "files": {"tools/a.txt": "a", "it.py": program}}
    ended = harness.work("command", lambda source: timed(1.0), settings)
    assert (ended.code, ended.stderr) == (0, "")
    events = [event for event in harness.events if event["kind"] != "file_edit"]
    printed = [event for event in events if event["body"].get("stream") != "stderr"]
    assert [(event["kind"], event["body"]["text"]) for event in printed] == [
        ("log", "first\nsecond"),
        ("message", "Hm."),
        ("log", '{"neither": "event"}'),
        ("note", "n"),
    ]
    assert printed[1]["id"] == "agent-it-1"
    assert [body["text"] for body in bodies(harness, "log") if body["stream"] == "stderr"] == [
        "last"
    ]
    assert (harness.workspace.folder / "tools/a.txt").read_text() == "a"


def test_event_of_a_program_replaces_none_of_the_sessions_own(tmp_path: Path) -> None:
    harness = AgentHarness(tmp_path, "int a;\n")
    line = {"kind": "note", "id": "agent-1", "body": {"text": "n", "detail": {}}}
    program = f"print({json.dumps(json.dumps(line))})\n" * 3
    settings = {"command": ["python3", "it.py"], "files": {"it.py": program, "a.txt": "a"}}
    assert harness.work("command", lambda source: timed(1.0), settings).code == 0
    names = {(event["id"], event["kind"]) for event in harness.events}
    assert len(names) == len({name for name, _ in names}) and len(bodies(harness, "note")) == 3
    assert len({e["id"] for e in harness.events if e["kind"] == "note"}) == 1


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_progress_bar_keeps_its_last_state(tmp_path: Path, stream: str) -> None:
    program = f"""
import sys
for percent in range(3001):
    sys.{stream}.write(f"\\r{{percent / 30:5.1f}} % of the file")
"""
    harness = AgentHarness(tmp_path, "int a;\n")
    settings = {"command": ["python3", "-c", program]}
    assert harness.work("command", lambda source: timed(1.0), settings).code == 0
    logs = [body["text"] for body in bodies(harness, "log")]
    assert logs == ["100.0 % of the file"]


def test_many_lines_become_few_events(tmp_path: Path) -> None:
    harness = AgentHarness(tmp_path, "int a;\n")
    harness.work("command", lambda source: timed(1.0), {"shell": "seq 20000"})
    logs = bodies(harness, "log")
    assert sum(body["text"].count("\n") + 1 for body in logs) == 20_000
    assert len(logs) < 100


@pytest.mark.parametrize(
    ("settings", "code", "message"),
    [
        ({"shell": "echo broken >&2; exit 4"}, 1, "sh ended with status 4: broken"),
        ({"shell": "exit 3"}, 3, "sh ended with status 3: it printed no reason"),
        ({"command": ["./nowhere"]}, 1, "./nowhere cannot be started: No such file"),
        ({}, 1, "The agent's settings do not fit: set either shell or command."),
        ({"shell": 1}, 1, "The agent's settings do not fit: shell: Input should be a valid string"),
    ],
)
def test_failed_program_gives_its_reason_and_the_arenas_fault_its_status(
    tmp_path: Path, settings: dict[str, Any], code: int, message: str
) -> None:
    harness = AgentHarness(tmp_path, "int a;\n")
    ended = harness.work("command", lambda source: timed(1.0), settings)
    assert ended.code == code
    assert message in ended.stderr.splitlines()[-1]


def test_program_in_the_background_is_not_waited_for(tmp_path: Path) -> None:
    harness = AgentHarness(tmp_path, "int a;\n")
    ended = harness.work("command", lambda source: timed(1.0), {"shell": "sleep 600 & echo ended"})
    assert (ended.ending, ended.code) == (Ending.EXITED, 0)
    assert bodies(harness, "log")[0]["text"] == "ended"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "set either shell or command"),
        ({"shell": "true", "command": ["true"]}, "set either shell or command"),
        ({"shell": "true", "files": {"../x": ""}}, "not a path inside the workspace"),
        ({"shell": "true", "files": {"/etc/x": ""}}, "not a path inside the workspace"),
        ({"shell": "true", "files": {"": ""}}, "not a path inside the workspace"),
        ({"shell": "true", "steps": []}, "Extra inputs"),
    ],
)
def test_settings_that_name_no_program_or_a_path_outside_are_refused(
    settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Settings.model_validate(settings)


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with ModelServer({"scripted": Script((Turn("speedup 1.9"),))}, key=KEY) as found:
        yield found


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory, server: ModelServer) -> Iterator[House]:
    house = House(tmp_path_factory.mktemp("command"))
    (house.home / "providers.toml").write_text(
        '[scripted]\nwires = ["chat-completions", "messages"]\n'
        f'base_url = "{server.url}/v1"\nkey_variable = "TEST_PROVIDER_KEY"\n'
    )
    house.env["TEST_PROVIDER_KEY"] = KEY
    house.furnish()
    try:
        house.open()
        yield house
    finally:
        house.close()


def started(house: House, settings: dict[str, Any], **more: str) -> str:
    slug = f"command-{next(_numbers)}"
    agent = {"slug": slug, "title": slug, "adapter": "command", "settings": settings, **more}
    budget = {"rounds": 5, "seconds": 60}
    return house.python(START.format(agent=agent, task="k/cpp-to-cpp", slug=slug, budget=budget))


def test_run_has_a_compiler_and_a_task_sheet(arena: House) -> None:
    run = started(arena, {"shell": BUILD})
    row = arena.ended(run)
    output = "\n".join(event["body"]["text"] for event in arena.events(run, "log"))
    assert (row["status"], row["speedup"]) == ("passed", 1.4), (output, arena.logs())
    for text in (
        "g++", "it runs", "Make it faster.", "## Hardware", "| 5 | requests for a verdict |",
        "`./arena-mcp`", "Read TASK.md in this folder", "round 1, 4 of 5 left: passed",
    ):  # fmt: skip
        assert text in output, text


def test_run_has_nvcc_where_it_is_installed(arena: House) -> None:
    if not nvcc.compiler():
        skip_or_fail("nvcc is not installed")
    run = started(arena, {"shell": CUDA_BUILD})
    arena.ended(run, 60)
    output = "\n".join(event["body"]["text"] for event in arena.events(run, "log"))
    assert "it is built" in output and "Cuda compilation tools" in output, output


def test_run_gets_a_verdict_through_the_mcp_server_in_its_sandbox(arena: House) -> None:
    run = started(arena, {"shell": "python3 client.py", "files": {"client.py": MCP_CLIENT}})
    row = arena.ended(run, 60)
    output = "\n".join(event["body"]["text"] for event in arena.events(run, "log"))
    assert "round 1, 4 of 5 left: passed" in output, output
    assert (row["status"], row["speedup"]) == ("passed", 1.6)
    submissions = arena.rows("SELECT note FROM runs_submission WHERE run_id = ?", run)
    assert submissions == [{"note": "by a tool"}]


@pytest.mark.parametrize("library", ["openai", "anthropic"])
def test_run_with_a_model_reaches_it_through_the_official_libraries(
    arena: House, library: str
) -> None:
    if not isolation_features().namespaces:
        skip_or_fail("network namespaces")
    settings = {"shell": f"python3 ask.py {library}", "files": {"ask.py": ASK_MODEL}}
    model = {"model": "scripted", "provider": "scripted"}
    run = started(arena, settings, adapter="command_with_model", **model)
    row = arena.ended(run, 60)
    assert (row["status"], row["speedup"]) == ("passed", 1.9), arena.events(run, "log", "error")
    (call,) = arena.events(run, "model_call")
    assert call["body"]["usage"]["output_tokens"] > 0
    assert KEY not in str(arena.events(run))


def test_run_of_the_shipped_agent_submits_the_starter(arena: House) -> None:
    from runners.agents.command import SPECS

    run = started(arena, dict(SPECS[0].settings))
    row = arena.ended(run)
    assert (row["status"], row["rounds"]) == ("passed", 1)
