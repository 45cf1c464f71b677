"""Claude Code: Anthropic's command line, in its print mode."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from runners.agents import Harness, Spec
from runners.agents._parts.settings import ExtraPrompt, MaxTurns, Mcp, checked
from runners.agents._parts.stream_json import StreamJson
from runners.agents._parts.waits import MAX_ANSWER_SECONDS, MAX_WAIT_SECONDS
from runners.session.harness import Server, mcp_server, prompt, run_harness

if TYPE_CHECKING:
    from runners.session.session import AgentSession, ModelAccess

TITLE = "Claude Code"
HARNESS = Harness(
    title=TITLE, wires=("messages",), program="claude", package="@anthropic-ai/claude-code"
)
SPECS = (
    Spec(
        slug="claude-code",
        title="Claude Code",
        description="Anthropic's command line with its own tools, and a current model.",
        model="claude-sonnet-5",
        provider="anthropic",
    ),
)


class Settings(BaseModel):
    """Settings of Claude Code."""

    model_config = ConfigDict(extra="forbid")

    effort: Literal["", "low", "medium", "high", "xhigh", "max"] = Field(
        "", description="Effort of the model's reasoning; empty for the default."
    )
    max_turns: MaxTurns = 0
    extra_prompt: ExtraPrompt = ""
    disallowed_tools: list[str] = Field(
        ["WebFetch", "WebSearch", "CronCreate", "ScheduleWakeup"],
        description="Tools that it must not use, such as Task for subagents.",
    )
    mcp: Mcp = False


def work(session: AgentSession, settings: Mapping[str, Any]) -> None:
    """Run it until it ends. Raises: HarnessFailed."""
    chosen = checked(Settings, settings)
    assert session.model, "a harness has a model"
    command = [
        session.program, "-p", prompt(session, chosen.extra_prompt),
        "--output-format", "stream-json", "--verbose", "--forward-subagent-text",
        "--dangerously-skip-permissions", "--strict-mcp-config",
        "--model", session.model.name,
        *_options(chosen, mcp_server(session) if chosen.mcp else None),
    ]  # fmt: skip
    run_harness(session, command, StreamJson(session, TITLE), environment(session.model))


def environment(model: ModelAccess) -> dict[str, str]:
    """Return the variables that it needs. Its helpers use the same model: no other is paid for."""
    models = ("HAIKU", "SONNET", "OPUS", "FABLE")
    answer_ms, wait_ms = str(MAX_ANSWER_SECONDS * 1000), str(MAX_WAIT_SECONDS * 1000)
    return {
        "ANTHROPIC_BASE_URL": model.url,
        "ANTHROPIC_API_KEY": model.token,
        **{f"ANTHROPIC_DEFAULT_{each}_MODEL": model.name for each in models},
        "ANTHROPIC_SMALL_FAST_MODEL": model.name,
        "CLAUDE_CODE_SUBAGENT_MODEL": model.name,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
        "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
        "CLAUDE_CODE_MAX_RETRIES": "2",  # the gateway has tried already
        "DISABLE_AUTOUPDATER": "1",
        "IS_SANDBOX": "1",  # it runs in the arena's
        "API_TIMEOUT_MS": answer_ms,
        "CLAUDE_STREAM_FIRST_BYTE_TIMEOUT_MS": answer_ms,
        "CLAUDE_STREAM_IDLE_TIMEOUT_MS": answer_ms,
        "BASH_DEFAULT_TIMEOUT_MS": wait_ms,
        "BASH_MAX_TIMEOUT_MS": wait_ms,
        "MCP_TOOL_TIMEOUT": wait_ms,
    }


def _options(chosen: Settings, server: Server | None) -> list[str]:
    options = []
    if chosen.effort:
        options += ["--effort", chosen.effort]
    if chosen.max_turns:
        options += ["--max-turns", str(chosen.max_turns)]
    if chosen.disallowed_tools:
        options += ["--disallowedTools", ",".join(chosen.disallowed_tools)]
    if server:
        options += ["--mcp-config", json.dumps({"mcpServers": {server.name: server.as_json()}})]
    return options
