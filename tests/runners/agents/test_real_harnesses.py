"""The harnesses themselves, in their sandboxes, before a stand-in for the judge.

The scripted model asks for calls, and the server keeps what came back for each: the trace must have
the same calls, arguments and outputs, and the usage that the server told.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import psutil
import pytest

from tests.conftest import skip_or_fail
from tests.model_server import Conversation, Fault, ModelServer, Script, ToolCall, Turn
from tests.model_server.kernels import ENDING, optimisation_with_file_tools
from tests.model_server.script import FileWrite
from tests.runners.agents.real_arena import HARNESSES, KEY, OPERATOR, STAND_IN, RealArena
from tests.runners.house import ENDED

T = TypeVar("T")

TARGET = f"{OPERATOR}.cpp"
JUDGED = optimisation_with_file_tools(OPERATOR)
SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
"""Command that ends mini-swe-agent."""
SUBMITTED = Script((*JUDGED.turns[:-1], Turn(ENDING, (SUBMIT,))))
WAITS = Turn("I wait.", ("sleep 1234 & sleep 1235",))
FAILS = Fault("status", status=418, times=99, retry_after=0.1, message="I am a teapot")
GEMINI_MODELS = ("gemini-3-pro-preview", "gemini-2.5-flash")
"""Models that Gemini CLI replaces by newer ones if it may."""
CLI_HELP = {"agent_name": "cli_help", "prompt": "Which settings are there?"}
SCRIPTS = {
    "judged": JUDGED,
    "submitted": SUBMITTED,
    "waits": Script((WAITS,)),
    "dies": Script((Turn("I end it all.", ("kill -9 $PPID; sleep 1",)),)),
    "goes-on": Script(tuple(Turn(f"Step {number}.", ("true",)) for number in range(9))),
    **{
        name: Script((Turn("I ask.", calls=((name, {"note": "by a tool"}),)), WAITS))
        for name in ("mcp__arena__check", "mcp__arena.check", "mcp_arena_check", "arena_check")
    },
    **{
        name: Script((Turn("I ask.", calls=(("invoke_agent", CLI_HELP),)), Turn(ENDING)))
        for name in GEMINI_MODELS
    },
    "garbled": Script((Turn("Hi.", faults=(Fault("garbage", times=99),)),)),
    "refuses": Script((Turn("First.", ("ls",)), Turn(faults=(FAILS,)))),
}


@dataclass(frozen=True)
class Real:
    """A harness: its adapter, program and package, and the wire format that it uses."""

    adapter: str
    program: str
    package: str
    wire: str
    mcp_check: str = "mcp__arena__check"
    """Name of the tool check; empty for a harness without MCP servers."""
    model: str = "judged"

    def __str__(self) -> str:
        return self.adapter


CLAUDE = Real("claude_code", "claude", "@anthropic-ai/claude-code", "messages")
CODEX = Real("codex", "codex", "@openai/codex", "responses", "mcp__arena.check")
GEMINI = Real("gemini_cli", "gemini", "@google/gemini-cli", "generate-content", "mcp_arena_check")
MINI = Real("mini_swe_agent", "mini-swe-agent", "", "chat-completions", "", "submitted")
OPENCODE = Real("opencode", "opencode", "opencode-ai", "chat-completions", "arena_check")
QWEN = Real("qwen_code", "qwen", "@qwen-code/qwen-code", "chat-completions")
WITH_MCP = (CLAUDE, CODEX, GEMINI, OPENCODE)
ALL = (*WITH_MCP, MINI, QWEN)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with ModelServer(SCRIPTS, key=KEY) as server:
        yield server


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory, server: ModelServer) -> Iterator[RealArena]:
    if not shutil.which("node"):
        skip_or_fail("Node.js is not installed")
    for harness in ALL:
        folder = "node_modules/.bin" if harness.package else "python/bin"
        if not (HARNESSES / folder / harness.program).exists():
            skip_or_fail(f"{harness.program} is not installed: make agents")
    with RealArena(tmp_path_factory.mktemp("real"), server, STAND_IN).at_work() as arena:
        yield arena


@pytest.mark.parametrize("harness", ALL, ids=str)
def test_real_harness_corrects_a_wrong_kernel_and_ends_with_a_ranked_speedup(
    arena: RealArena, server: ModelServer, harness: Real
) -> None:
    known = len(server.conversations)
    run = arena.start(harness.adapter, harness.model)
    row = arena.ended(run, 150)
    assert row["status"] == "passed", (row["reason"], arena.logs())
    assert arena.measured_speedup(run) > 1
    assert f"{harness.adapter.replace('_', '-')}-" in arena.ranked()
    assert row["harness_version"] == installed_version(harness)
    assert verdicts(arena, run) == ["WRONG_VALUES", "passed", "passed", "passed"]

    (conversation,) = server.conversations[known:]
    assert calls_of(arena, run) == calls_asked(conversation, harness, arena, run)
    assert_outputs_are_those_that_the_model_got(arena, run, conversation, harness)
    assert_usage_is_that_of_the_server(arena, run, conversation, harness)

    edits = [event["body"] for event in arena.events(run, "file_edit")]
    written = [a.text for t in JUDGED.turns for a in t.commands if isinstance(a, FileWrite)]
    assert [edit["path"] for edit in edits] == [TARGET] * len(written)
    for edit, text in zip(edits, written, strict=True):
        added = [line[1:] for line in edit["diff"].splitlines() if line.startswith("+")][1:]
        assert added and set(added) <= set(text.splitlines())

    said = messages_of(arena, run)
    assert [m["text"] for m in said if m["text"]] == [t.text for t in JUDGED.turns if t.text]
    assert [m["reasoning"] for m in said if m["reasoning"]] == [
        turn.reasoning for turn in JUDGED.turns if turn.reasoning
    ]
    assert said[-1]["text"] == ENDING and {m["model"] for m in said} == {harness.model}
    raw = "".join(event["body"]["text"] for event in arena.events(run, "raw_output"))
    assert ENDING[:20] in raw  # Gemini CLI prints it in pieces
    assert KEY not in json.dumps(arena.events(run))


def installed_version(harness: Real) -> str:
    if not harness.package:
        folder = next(HARNESSES.glob("python/lib/*/site-packages/mini_swe_agent-*.dist-info"))
        return folder.stem.partition("-")[2]
    package = HARNESSES / "node_modules" / harness.package / "package.json"
    return str(json.loads(package.read_text())["version"])


def verdicts(arena: RealArena, run: str) -> list[str]:
    """Return the reason or verdict of each evaluation, in order."""
    ends = [event["body"] for event in arena.events(run, "span_end")]
    return [b["reason"] or b["verdict"] for b in ends if b["span_kind"] == "evaluation"]


def calls_of(arena: RealArena, run: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the tools and arguments of the trace."""
    return [called(event) for event in in_order(arena.events(run, "tool_call"), called)]


def calls_asked(
    conversation: Conversation, harness: Real, arena: RealArena, run: str
) -> list[tuple[str, dict[str, Any]]]:
    """Return the tools and arguments that the model asked for, as the harness shows them."""
    as_shown = partial(shown, harness=harness, arena=arena, run=run)
    return [as_shown(call) for call in in_order(conversation.calls, as_shown)]


def shown(call: ToolCall, harness: Real, arena: RealArena, run: str) -> tuple[str, dict[str, Any]]:
    """Return a call as the harness prints it. Codex omits how long it waits, and shows a patch."""
    if harness is not CODEX:
        return call.tool, dict(call.arguments)
    if "apply_patch" not in call.command and not call.command.startswith("cat > "):
        return call.tool, {"cmd": call.arguments["cmd"]}
    path = arena.home / "workspaces" / run / TARGET
    return "apply_patch", {"changes": [{"path": str(path), "kind": "add"}]}


def called(event: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return event["body"]["tool"], event["body"]["arguments"]


def in_order(calls: Sequence[T], what: Callable[[T], object]) -> list[T]:
    """Return calls with those of the first turn sorted: it asks for two at once."""
    return sorted(calls[:2], key=lambda call: str(what(call))) + list(calls[2:])


def assert_outputs_are_those_that_the_model_got(
    arena: RealArena, run: str, conversation: Conversation, harness: Real
) -> None:
    results = {e["body"]["call"]: e["body"] for e in arena.events(run, "tool_result")}
    as_shown = partial(shown, harness=harness, arena=arena, run=run)
    events = in_order(arena.events(run, "tool_call"), called)
    calls = in_order(conversation.calls, as_shown)
    assert len(results) == len(events) == len(calls)
    for event, asked in zip(events, calls, strict=True):
        result, call = results[event["event_id"]], event["body"]
        returned = conversation.output(asked)
        if harness is CODEX and asked.arguments.get("cmd") != call["arguments"].get("cmd"):
            returned = None
        if harness is CLAUDE:
            assert result["output"] == returned
        elif harness is MINI:
            assert_output_is_in_json(result["output"], returned)
        elif harness is not CODEX or returned is not None:  # these add lines of their own
            assert returned and result["output"].strip() in returned and result["output"]
        wrong = "first kernel" in json.dumps(call["arguments"]) and "check" in str(call)
        assert result["ok"] is not wrong
        if wrong:
            assert result["exit_code"] == 1 and "WRONG_VALUES" in result["output"]


def assert_output_is_in_json(output: str, returned: str | None) -> None:
    """Compare an output with the JSON that mini-swe-agent returns; its last call has none."""
    if not returned:
        assert output == ""
        return
    found = json.loads(returned)
    if "output" in found:
        assert output == found["output"]
    else:
        assert output.startswith(found["output_head"]) and output.endswith(found["output_tail"])


def assert_usage_is_that_of_the_server(
    arena: RealArena, run: str, conversation: Conversation, harness: Real
) -> None:
    calls = [event["body"] for event in arena.events(run, "model_call")]
    told = [exchange.reply.usage for exchange in conversation.exchanges if exchange.reply]
    assert len(calls) == len(conversation.exchanges) == len(told)
    for call, usage in zip(calls, told, strict=True):
        assert (call["wire"], call["status"], call["error"]) == (harness.wire, 200, "")
        counted = call["usage"]
        assert counted["input_tokens"] == usage.input
        assert counted["output_tokens"] == usage.output
        assert counted["cached_tokens"] == usage.cached
        reasoning = 0 if harness is CLAUDE else usage.reasoning  # Messages does not tell it
        assert counted["reasoning_tokens"] == reasoning
        dollars = 3 * (usage.input - usage.cached) + 0.3 * usage.cached + 15 * usage.output
        assert call["cost_usd"] == pytest.approx(dollars / 1e6)


def messages_of(arena: RealArena, run: str) -> list[dict[str, Any]]:
    """Return the messages in their last revisions, in order."""
    latest = {event["event_id"]: event["body"] for event in arena.events(run, "message")}
    return list(latest.values())


@pytest.mark.parametrize("model", GEMINI_MODELS)
def test_gemini_uses_the_agents_model_alone_also_in_a_subagent(
    arena: RealArena, model: str
) -> None:
    run = arena.start(GEMINI.adapter, model)
    arena.ended(run, 60)
    requested = [event["body"]["requested_model"] for event in arena.events(run, "model_call")]
    assert len(requested) > 2 and set(requested) == {model}
    logs = [event["body"]["text"] for event in arena.events(run, "log")]
    assert not any("asks for the model" in text for text in logs)


@pytest.mark.parametrize(
    ("harness", "model", "provider", "fault", "reason"),
    [
        (
            CLAUDE, "no-such-model", "scripted", "user",
            "scripted does not know the model 'no-such-model': HTTP 404.",
        ),
        (
            CODEX, "judged", "wrong-key", "user",
            "wrong-key refused the key of the worker: HTTP 401.",
        ),
        (
            QWEN, "refuses", "scripted", "user",
            "scripted refused the last request of the agent: HTTP 418. Check the agent's model"
            ".*I am a teapot",
        ),
        (GEMINI, "garbled", "scripted", "provider", "scripted: the answer "),
    ],
    ids=["unknown model", "refused key", "refused request", "unreadable answers"],
)  # fmt: skip
def test_failure_at_the_provider_ends_a_run_with_its_fault_and_reason(
    arena: RealArena, harness: Real, model: str, provider: str, fault: str, reason: str
) -> None:
    """The gateway finds these. So each is tried on one harness, of another wire format each."""
    row = arena.ended(arena.start(harness.adapter, model, provider=provider), 60)
    assert (row["status"], row["fault"]) == ("broken", fault)
    assert re.search(reason, row["reason"], re.DOTALL), row["reason"]


@pytest.mark.parametrize("harness", [CLAUDE, GEMINI, MINI, QWEN], ids=str)
def test_limit_of_turns_ends_a_run_in_order(arena: RealArena, harness: Real) -> None:
    run = arena.start(harness.adapter, "goes-on", settings={"max_turns": 2})
    row = arena.ended(run, 30)
    assert row["reason"] == f"Nothing was handed in: {TARGET} is as it was given."
    assert len(arena.events(run, "tool_call")) == 2
    assert arena.events(run, "error") == []
    logs = [event["body"]["text"] for event in arena.events(run, "log")]
    assert any("turns" in text or "limit" in text for text in logs)


@pytest.fixture(scope="module")
def waiting(arena: RealArena, request: pytest.FixtureRequest) -> Iterator[tuple[Real, str]]:
    """A harness and its run, which waits, after a verdict through the MCP server if it has one."""
    harness: Real = request.param
    settings = {"mcp": True} if harness.mcp_check else {}
    run = arena.start(harness.adapter, harness.mcp_check or "waits", settings=settings)
    yield harness, run
    if arena.row(run)["status"] not in ENDED:
        cancel(arena, run)
        arena.ended(run, 60)


@pytest.mark.parametrize("waiting", WITH_MCP, ids=str, indirect=True)
def test_verdict_through_the_mcp_server_is_a_round(
    arena: RealArena, waiting: tuple[Real, str]
) -> None:
    harness, run = waiting
    shown = "arena.check" if harness is CODEX else harness.mcp_check
    arena.wait_until(lambda: bool(arena.events(run, "tool_result")), 45)
    call = arena.events(run, "tool_call")[0]  # the next one waits
    assert (call["body"]["tool"], call["body"]["arguments"]) == (shown, {"note": "by a tool"})
    (result,) = arena.events(run, "tool_result")
    assert result["body"]["output"].startswith("round 1, ")
    (round_,) = arena.rows("SELECT note FROM runs_submission WHERE run_id = ?", run)
    assert round_["note"] == "by a tool"


@pytest.mark.parametrize("waiting", ALL, ids=str, indirect=True)
def test_cancel_ends_all_processes_of_a_harness(
    arena: RealArena, waiting: tuple[Real, str]
) -> None:
    harness, run = waiting
    arena.wait_until(lambda: len(processes(arena, "sleep")) >= 2, 30)
    assert processes(arena, harness.program)
    cancel(arena, run)
    arena.wait_until(lambda: not processes(arena, ""))
    assert arena.ended(run)["status"] == "cancelled"


def test_killed_harness_ends_its_run_with_the_signal(arena: RealArena) -> None:
    run = arena.start(CODEX.adapter, "dies")
    row = arena.ended(run, 30)
    assert (row["status"], row["fault"]) == ("failed", "candidate")
    (error,) = arena.events(run, "error")
    assert f"{CODEX.program} was ended by SIGKILL" in error["body"]["traceback"]


def cancel(arena: RealArena, run: str) -> None:
    arena.python(
        "from arena.runs.models import Run\n"
        "from arena.runs.services import cancel_run\n"
        f"cancel_run(Run.objects.get(pk={run!r}), None)"
    )


def processes(arena: RealArena, word: str) -> list[psutil.Process]:
    """Return the processes below the agents' worker with this word in their command line."""
    found = []
    for process in psutil.Process(arena.processes["agents"].pid).children(recursive=True):
        try:
            if word in " ".join(process.cmdline()) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found
