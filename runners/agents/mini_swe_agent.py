"""mini-swe-agent: a small Python agent that has only a shell, over LiteLLM.

Its command line prints for people. A subclass of its agent, given with `--agent-class`, prints each
message of the conversation as a line of JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from runners.agents import Harness, Spec
from runners.session.harness import Record, Translator, prompt, run_harness

if TYPE_CHECKING:
    from runners.session.session import AgentSession


TITLE = "mini-swe-agent"
HARNESS = Harness(
    title=TITLE,
    wires=("chat-completions", "messages"),
    program="mini-swe-agent",
    package="mini-swe-agent",
)
SPECS = (
    Spec(
        slug="mini-swe-agent",
        title=TITLE,
        description="A small Python agent that has only a shell, and a current model.",
        model="gpt-5.6",
        provider="openai",
    ),
    Spec(
        slug="mini-swe-agent-local",
        title=f"{TITLE}, local model",
        description="A small Python agent that has only a shell, with a model of this machine.",
        model="qwen3-coder",
        provider="local",
    ),
)

FOLDER = ".mini-swe-agent"
PRINTER = '''\
"""Prints each message of the conversation as a line of JSON."""

import json

from minisweagent.agents.default import DefaultAgent


class Agent(DefaultAgent):
    def add_messages(self, *messages):
        for message in messages:
            print(json.dumps(message, default=str), flush=True)
        return super().add_messages(*messages)
'''
SHELL = "bash"
MAX_WAIT_SECONDS = 3600
MAX_ANSWER_SECONDS = 1500
MAX_TOKENS = 32_000
"""Longest answer where a request must name one, which Messages asks for."""
SUBMITTED = "Submitted"
ENDED = {
    "LimitsExceeded": "ended at a limit of its settings.",
    "TimeExceeded": "ended at its limit of time.",
    "RepeatedFormatError": "ended: the model called no tool any more.",
}
"""Messages for its other ends in order, by exit status."""
QUIET = {
    "MSWEA_CONFIGURED": "true",
    "MSWEA_SILENT_STARTUP": "1",
    "MSWEA_COST_TRACKING": "ignore_errors",  # the gateway counts
    "MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT": "2",  # the gateway has tried already
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
}
"""Variables without which it asks for settings and addresses."""


class Settings(BaseModel):
    """Settings of mini-swe-agent."""

    model_config = ConfigDict(extra="forbid")

    effort: Literal["", "minimal", "low", "medium", "high"] = Field(
        "", description="Effort of the model's reasoning; empty for the default."
    )
    max_turns: int = Field(0, ge=0, description="Limit on turns of the model; 0 for none.")
    extra_prompt: str = Field("", description="Text after the instruction that all agents get.")


def work(session: AgentSession, settings: Mapping[str, Any]) -> None:
    """Run it until it ends. Raises: HarnessFailed."""
    chosen = Settings.model_validate(settings)
    assert session.model, "a harness has a model"
    folder = session.folder / FOLDER
    folder.mkdir(exist_ok=True)
    (folder / "arena_printer.py").write_text(PRINTER, encoding="utf-8")
    text = json.dumps(_configuration(session, chosen))  # YAML too
    (folder / "arena.yaml").write_text(text, encoding="utf-8")
    command = [
        session.program, "-c", "mini.yaml", "-c", str(folder / "arena.yaml"),
        "--agent-class", "arena_printer.Agent",
        "--model", _model(session),
        "--output", str(folder / "trajectory.json"),
        "--task", prompt(session, chosen.extra_prompt),
    ]  # fmt: skip
    env = {
        **QUIET,
        "HOME": str(session.folder),
        "MSWEA_GLOBAL_CONFIG_DIR": str(folder),
        "PYTHONPATH": str(folder),
    }
    run_harness(session, command, MiniEvents(session), env)


def _model(session: AgentSession) -> str:
    """Return the name of the model for LiteLLM, which begins with a wire format."""
    assert session.model
    kind = "anthropic" if session.model.wires[0] == "messages" else "openai"
    return f"{kind}/{session.model.name}"


def _configuration(session: AgentSession, chosen: Settings) -> dict[str, Any]:
    """Return what differs from its own configuration."""
    assert session.model
    messages = session.model.wires[0] == "messages"
    arguments: dict[str, Any] = {
        "api_base": session.model.url if messages else f"{session.model.url}/v1",
        "api_key": session.model.token,
        "timeout": MAX_ANSWER_SECONDS,
        "num_retries": 0,
        "drop_params": True,
    }
    if messages:
        arguments["max_tokens"] = MAX_TOKENS
    if chosen.effort:
        arguments["reasoning_effort"] = chosen.effort
    return {
        "agent": {"cost_limit": 0, "step_limit": chosen.max_turns},
        "environment": {"timeout": MAX_WAIT_SECONDS},
        "model": {"model_kwargs": arguments, "cost_tracking": "ignore_errors"},
    }


class MiniEvents(Translator):
    """Records each message of its conversation as events of a session."""

    def __call__(self, record: Record) -> bool:
        match record:
            case {"role": "system"}:
                self._session.note(f"{TITLE} begins.", model=self._model)
            case {"role": "user", "content": content}:
                self._user(content, record.get("extra") or {})
            case {"role": "assistant"}:
                self._assistant(record)
            case {"role": "tool", "tool_call_id": str(call)}:
                self._result(call, record)
            case {"role": "exit"}:
                self._exit(record)
            case _:
                return False
        return True

    def _user(self, content: Any, extra: Record) -> None:
        """Record a refusal of a malformed answer; the instruction needs no message."""
        if "response" in extra or "interrupt_type" in extra:
            self._refused_answer(extra.get("response"))
            self._session.message(str(content), role="user")

    def _refused_answer(self, response: Any) -> None:
        """Record an answer without a call, which it keeps only beside its refusal."""
        choices = response.get("choices") if isinstance(response, dict) else None
        for choice in choices or ():
            self._message(choice["message"], str(choice.get("finish_reason") or ""))

    def _assistant(self, record: Record) -> None:
        response = (record.get("extra") or {}).get("response") or {}
        choices = response.get("choices") or [{}]
        self._message(record, str(choices[0].get("finish_reason") or ""))
        for call in record.get("tool_calls") or ():
            function = call["function"]
            self._calls.begin(str(call["id"]), function["name"], function.get("arguments"))

    def _message(self, message: Record, stop_reason: str) -> None:
        text, reasoning = message.get("content"), message.get("reasoning_content")
        if text or reasoning:
            self._session.message(
                str(text or ""),
                reasoning=str(reasoning or ""),
                model=self._model,
                stop_reason=stop_reason,
            )

    def _result(self, call: str, record: Record) -> None:
        extra = record.get("extra") or {}
        code = extra.get("returncode")
        output = str(extra.get("raw_output", record.get("content") or ""))
        problem = str(extra.get("exception_info") or "")
        text = "\n".join(filter(None, (output, problem)))
        self._calls.end(call, text, ok=False if problem else None, exit_code=code, tool=SHELL)

    def _exit(self, record: Record) -> None:
        extra = record.get("extra") or {}
        status, text = str(extra.get("exit_status", "")), str(record.get("content") or "")
        if status == SUBMITTED:
            for call in self._calls.names():  # the last call ends it, and has no result of its own
                self._result(call, {"extra": {"returncode": 0, "raw_output": text}})
        elif status in ENDED:
            self._session.log(f"{TITLE} {ENDED[status]}", level="warning")
        else:
            self.failure = text or status or "it named no reason"
