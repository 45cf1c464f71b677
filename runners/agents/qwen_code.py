"""Qwen Code: a command line for OpenAI-compatible servers, such as one on this machine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field

from runners.agents import Harness, Spec
from runners.agents._parts.settings import ExtraPrompt, MaxTurns, Mcp, checked
from runners.agents._parts.stream_json import StreamJson
from runners.agents._parts.waits import MAX_ANSWER_SECONDS, MAX_WAIT_SECONDS
from runners.session.harness import mcp_server, prompt, run_harness

if TYPE_CHECKING:
    from runners.session.session import AgentSession

TITLE = "Qwen Code"
HARNESS = Harness(
    title=TITLE, wires=("chat-completions",), program="qwen", package="@qwen-code/qwen-code"
)
SPECS = (
    Spec(
        slug="qwen-code",
        title="Qwen Code",
        description="Alibaba's command line, with an open model on a server of this machine.",
        model="qwen3-coder",
        provider="local",
    ),
)

TURNS_SPENT = 53
"""Exit code at its limit of turns."""


class Settings(BaseModel):
    """Settings of Qwen Code."""

    model_config = ConfigDict(extra="forbid")

    max_turns: MaxTurns = 0
    extra_prompt: ExtraPrompt = ""
    disallowed_tools: list[str] = Field(
        ["web_fetch", "web_search", "cron_create", "loop_wakeup"],
        description="Tools that it must not use, such as agent for subagents.",
    )
    mcp: Mcp = False


def work(session: AgentSession, settings: Mapping[str, Any]) -> None:
    """Run it until it ends. Raises: HarnessFailed."""
    chosen = checked(Settings, settings)
    assert session.model, "a harness has a model"
    _write_settings(session)
    command = [
        session.program, prompt(session, chosen.extra_prompt),
        "--output-format", "stream-json", "--yolo", "--auth-type", "openai",
        "--model", session.model.name,
        *_options(session, chosen),
    ]  # fmt: skip
    env = {
        "OPENAI_BASE_URL": f"{session.model.url}/v1",
        "OPENAI_API_KEY": session.model.token,
        "OPENAI_MODEL": session.model.name,
        "QWEN_CODE_SUPPRESS_YOLO_WARNING": "1",  # it runs in the arena's sandbox
        "QWEN_CODE_NO_RELAUNCH": "1",
        "QWEN_STREAM_IDLE_TIMEOUT_MS": str(MAX_ANSWER_SECONDS * 1000),
        "QWEN_STREAM_MAX_LIFETIME_MS": str(MAX_WAIT_SECONDS * 1000),
    }
    run_harness(session, command, StreamJson(session, TITLE), env, TURNS_SPENT)


def _write_settings(session: AgentSession) -> None:
    """Write its settings: no traffic beside the model's, and long waits for verdicts."""
    folder = session.folder / ".qwen"
    folder.mkdir(exist_ok=True)
    chosen = {
        "telemetry": {"enabled": False},
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"enableAutoUpdate": False, "disableAutoUpdate": True},
        "model": {"generationConfig": {"timeout": MAX_ANSWER_SECONDS * 1000, "maxRetries": 2}},
    }
    (folder / "settings.json").write_text(json.dumps(chosen), encoding="utf-8")


def _options(session: AgentSession, chosen: Settings) -> list[str]:
    options = []
    if chosen.max_turns:
        options += ["--max-session-turns", str(chosen.max_turns)]
    for tool in chosen.disallowed_tools:
        options += ["--exclude-tools", tool]
    if chosen.mcp:
        server = mcp_server(session)
        described = {"command": server.command, "timeout": MAX_WAIT_SECONDS * 1000, "trust": True}
        options += ["--mcp-config", json.dumps({"mcpServers": {server.name: described}})]
    return options
