"""mini-swe-agent: a small Python agent that has only a shell, over LiteLLM.

Its command line prints for people. A subclass of its agent, given with `--agent-class`, prints each
message of the conversation as a line of JSON. In text mode the model writes a command into a fence
instead of calling a tool; a result then comes as a message of the user, without an id.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from runners.agents import Harness, Spec
from runners.agents._parts.settings import ExtraPrompt, MaxTurns, checked
from runners.agents._parts.waits import MAX_ANSWER_SECONDS, MAX_WAIT_SECONDS
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

import litellm
from minisweagent.agents.default import DefaultAgent

litellm.suppress_debug_info = True  # it prints links for each model without a price


class Agent(DefaultAgent):
    def add_messages(self, *messages):
        for message in messages:
            print(json.dumps(message, default=str), flush=True)
        return super().add_messages(*messages)
'''
TEXT_MODE = {False: "mini.yaml", True: "mini_textbased.yaml"}
"""Its own configurations, by whether the model writes its commands as text."""
SHELL = "bash"
MAX_TOKENS = 32_000
"""Longest answer where a request must name one, which Messages asks for."""
SUBMITTED = "Submitted"
ENDED = {
    "LimitsExceeded": "ended at a limit of its settings.",
    "TimeExceeded": "ended at its limit of time.",
    "RepeatedFormatError": "ended: the model called no tool any more, or with no valid call.",
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
    max_turns: MaxTurns = 0
    max_output_tokens: int = Field(
        0, ge=0, description="Tokens of one answer, reasoning included; 0 for the model's limit."
    )
    text_mode: bool = Field(
        False, description="The model writes commands as text, for a model without tool calls."
    )
    extra_prompt: ExtraPrompt = ""


def work(session: AgentSession, settings: Mapping[str, Any]) -> None:
    """Run it until it ends. Raises: HarnessFailed."""
    chosen = checked(Settings, settings)
    assert session.model, "a harness has a model"
    folder = session.folder / FOLDER
    folder.mkdir(exist_ok=True)
    (folder / "arena_printer.py").write_text(PRINTER, encoding="utf-8")
    text = json.dumps(_configuration(session, chosen))  # YAML too
    (folder / "arena.yaml").write_text(text, encoding="utf-8")
    command = [
        session.program, "-c", TEXT_MODE[chosen.text_mode], "-c", f"{FOLDER}/arena.yaml",
        "--agent-class", "arena_printer.Agent",
        "--model", _model(session),
        "--output", f"{FOLDER}/trajectory.json",
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
    if limit := chosen.max_output_tokens or (MAX_TOKENS if messages else 0):
        arguments["max_tokens"] = limit
    if chosen.effort:
        arguments["reasoning_effort"] = chosen.effort
    model: dict[str, Any] = {"model_kwargs": arguments, "cost_tracking": "ignore_errors"}
    if chosen.text_mode:
        model["model_class"] = "litellm_textbased"
    return {
        "agent": {"cost_limit": 0, "step_limit": chosen.max_turns},
        "environment": {"timeout": MAX_WAIT_SECONDS},
        "model": model,
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
        """Record a refusal of a malformed answer; the instruction needs no message.

        It is the result of each call of that answer, of which none was made.
        """
        if "returncode" in extra:
            self._result("", {"extra": extra})
        if "response" not in extra and "interrupt_type" not in extra:
            return
        if calls := self._refused_answer(extra.get("response")):
            for call in calls:
                self._calls.end(call, str(content), ok=False)
        else:
            self._session.message(str(content), role="user")

    def _refused_answer(self, response: Any) -> list[str]:
        """Record an answer that it keeps only beside its refusal; return the ids of its calls."""
        choices = response.get("choices") if isinstance(response, dict) else None
        calls: list[str] = []
        for choice in choices or ():
            self._message(choice["message"], str(choice.get("finish_reason") or ""))
            calls += self._begin_calls(choice["message"])
        return calls

    def _assistant(self, record: Record) -> None:
        response = (record.get("extra") or {}).get("response") or {}
        choices = response.get("choices") or [{}]
        self._message(record, str(choices[0].get("finish_reason") or ""))
        self._begin_calls(record)

    def _begin_calls(self, message: Record) -> list[str]:
        """Record the calls of a message, and return their ids."""
        calls = [(str(call["id"]), call["function"]) for call in message.get("tool_calls") or ()]
        actions = (message.get("extra") or {}).get("actions") or ()
        written = [action for action in actions if "tool_call_id" not in action]
        calls += [("", {"name": SHELL, "arguments": action}) for action in written]
        for name, function in calls:
            self._calls.begin(name, function.get("name") or "", function.get("arguments"))
        return [name for name, _ in calls]

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
