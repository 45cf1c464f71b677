"""The model loop in real runs, through each wire format, before the scripted model server."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from typing import Any

import pytest

from evaluation.tasks.spec import folder_of
from runners.agents import model_loop
from tests.model_server import Conversation, ModelServer, Script, Turn
from tests.model_server.kernels import SOURCES, TASKS, honest, wrong
from tests.runners.agents.real_arena import KEY, OPERATOR, STAND_IN, RealArena

TARGET = f"{OPERATOR}.cpp"
WIRES = model_loop.HARNESS.wires


def formula_edit() -> dict[str, str]:
    """Return the arguments of the edit that makes the wrong kernel right."""
    path = folder_of(TASKS, OPERATOR) / "mutants" / f"{SOURCES[OPERATOR].wrong}.cpp.toml"
    ((right, mistake),) = tomllib.loads(path.read_text())["edits"]
    return {"path": TARGET, "old": f"{mistake} // wrong, no profiler\n", "new": f"{right}\n"}


EDIT = formula_edit()
MISTAKE = EDIT["old"].partition(" // ")[0]
WRONG = wrong(OPERATOR).replace(f"{MISTAKE}\n", EDIT["old"])
FAST = f"{honest(OPERATOR, SOURCES[OPERATOR].fast)}// speedup 1.5\n"
SCRIPT = Script(
    (
        Turn(
            "I read the task first.",
            ("g++ --version | head -n 1; ls",),
            calls=(("read", {"path": "TASK.md", "limit": 5}),),
            reasoning="The cases are in TASK.md.",
        ),
        Turn("A first kernel.", calls=(("write", {"path": TARGET, "text": WRONG}),)),
        Turn("Is it right?", calls=(("check", {"note": "first kernel"}),)),
        Turn(
            "Calls that cannot be done.",
            calls=(
                ("search", {"query": "fast kernels"}),
                ("read", {"path": TARGET, "offset": 0}),
                ("edit", '{"path": "rms'),
                ("edit", {**EDIT, "old": "nowhere in the file"}),
                ("profile", {}),
            ),
        ),
        Turn("Cut in the middle.", calls=(("check", {"note": "of half an answer"}),), cut=True),
        Turn("The formula corrected.", calls=(("edit", EDIT), ("check", {"note": "formula"}))),
        Turn("Now fast.", (f"cat > {TARGET} <<'SOURCE'\n{FAST}SOURCE\n./arena-check fast",)),
        Turn("Correct and faster than the baseline."),
    )
)


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with ModelServer({f"scripted-{wire}": SCRIPT for wire in WIRES}, key=KEY) as found:
        yield found


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory, server: ModelServer) -> Iterator[RealArena]:
    with RealArena(tmp_path_factory.mktemp("loop"), server, STAND_IN).at_work() as arena:
        yield arena


def assert_trace_is_what_was_asked(events: list[dict[str, Any]], recorded: Conversation) -> None:
    """Compare each message, call and result of a trace with the server's record."""
    replies = [exchange.reply for exchange in recorded.exchanges]
    messages = [event["body"] for event in events if event["kind"] == "message"]
    assert [(each["text"], each["reasoning"]) for each in messages] == [
        (reply.text, reply.reasoning) for reply in replies if reply
    ]
    calls = [event for event in events if event["kind"] == "tool_call"]
    results = {e["body"]["call"]: e["body"] for e in events if e["kind"] == "tool_result"}
    names = {"check": "arena-check", "profile": "arena-profile"}
    assert len(calls) == len(recorded.calls) == len(results)
    for event, asked in zip(calls, recorded.calls, strict=True):
        body, result = event["body"], results[event["event_id"]]
        assert body["tool"] in (asked.tool, names.get(asked.tool))
        if isinstance(asked.arguments, dict) and result["ok"]:
            assert asked.arguments.items() <= body["arguments"].items()
        assert result["output"].strip() in recorded.output(asked)
    usages = [event["body"]["usage"] for event in events if event["kind"] == "model_call"]
    assert [(each["input_tokens"], each["output_tokens"]) for each in usages] == [
        (reply.usage.input, reply.usage.output) for reply in replies if reply
    ]


@pytest.mark.slow
@pytest.mark.parametrize("wire", WIRES)
def test_model_loop_fails_corrects_improves_and_is_ranked(
    arena: RealArena, server: ModelServer, wire: str
) -> None:
    run = arena.start("model_loop", f"scripted-{wire}", settings={"wire": wire})
    row = arena.ended(run, 120)
    assert row["status"] == "passed", (row["reason"], arena.logs())
    assert arena.measured_speedup(run) > 1 and row["unseen_speedup"] is not None
    (recorded,) = server.of(f"scripted-{wire}")
    events = arena.events(run)
    assert_trace_is_what_was_asked(events, recorded)
    assert {exchange.wire for exchange in recorded.exchanges} == {wire}
    assert {exchange.key for exchange in recorded.exchanges} == {KEY}
    outputs = [recorded.output(call) for call in recorded.calls]
    compiler, task, _, failed = outputs[:4]
    assert "g++" in compiler and "arena-mcp" in compiler and "AGENTS.md" in compiler
    assert task.startswith("# RMS norm") and "more lines" in task
    assert "WRONG_VALUES" in failed
    unknown, bad, no_object, nowhere, no_profile = outputs[4:9]
    assert "no tool 'search'" in unknown and "read, write, edit, shell" in unknown
    assert "Bad arguments of read: offset" in bad
    assert "must be a JSON object" in no_object
    assert "does not contain" in nowhere
    assert "GPU" in no_profile
    assert "Not done. Your answer was cut at 32000 tokens" in outputs[9]
    assert (
        outputs[10] == "Replaced 1 of 1." and "round 2" in outputs[11] and "passed" in outputs[11]
    )
    assert "round 3" in outputs[12] and "passed" in outputs[12]
    edits = [event["body"] for event in events if event["kind"] == "file_edit"]
    assert [(each["path"], each["operation"]) for each in edits] == [(TARGET, "modify")] * 3
    turns = [
        event for event in events if event["kind"] == "span_begin" and not event["body"]["round"]
    ]
    assert [each["body"]["title"] for each in turns if each["body"]["span_kind"] == "turn"] == [
        f"Turn {number}" for number in range(1, len(SCRIPT.turns) + 1)
    ]
    assert row["cost_usd"] > 0 and row["tokens"] > 0
    assert "model-loop" in arena.ranked()
