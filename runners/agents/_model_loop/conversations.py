"""Conversations with a model in three wire formats, through the official client libraries.

A conversation holds the history in its own format and streams each answer. An answer that was cut
or cannot be read is asked for again; the gateway repeats overloaded calls itself.
"""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from runners.session.session import ModelAccess

READ_SECONDS = 3600.0
"""Wait for the next byte; the gateway ends a silent call earlier."""
MAX_ATTEMPTS = 4
PAUSE_SECONDS = 1.0
OK = 200
TOO_MANY = 429
REFUSALS = (400, 413, 422)
ADVICE = "Change the agent's settings to what its model accepts."
SPENT = "the run's budget of"
"""In the gateway's refusal of a call that no budget is left for."""

Stop = Literal["end", "calls", "length", "refusal"]
STOPS: Mapping[str, Stop] = {
    "end_turn": "end",
    "stop_sequence": "end",
    "stop": "end",
    "completed": "end",
    "tool_use": "calls",
    "tool_calls": "calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "length": "length",
    "max_output_tokens": "length",
    "refusal": "refusal",
    "content_filter": "refusal",
}


class ModelFailed(Exception):
    """Raised when the model cannot be used any more; the message says why."""


class BudgetSpent(Exception):
    """Raised when the run has no budget left for the model."""


class BadAnswer(Exception):
    """Raised for an answer that ended early or cannot be read."""


@dataclass(frozen=True)
class ToolSpec:
    """A tool that the model may call; `schema` is the JSON Schema of its arguments."""

    name: str
    description: str
    schema: Mapping[str, Any]


@dataclass(frozen=True)
class Call:
    """A tool call of the model; `arguments` are as it wrote them, a JSON object or not."""

    id: str
    tool: str
    arguments: Any


@dataclass(frozen=True)
class Result:
    """The answer to a call."""

    call: Call
    output: str
    ok: bool = True


@dataclass(frozen=True)
class Reply:
    """An answer of the model."""

    text: str
    reasoning: str
    calls: tuple[Call, ...]
    stop: Stop
    stop_reason: str
    """As the provider writes it."""


@dataclass(frozen=True)
class Options:
    """Options of a conversation; None leaves one to the provider."""

    system: str
    tools: Sequence[ToolSpec]
    max_output_tokens: int
    effort: str | None = None
    temperature: float | None = None


class Conversation(Protocol):
    """One conversation with a model."""

    def ask(self, results: Sequence[Result] = (), text: str = "") -> Reply:
        """Add results of tools and a text of the user, and return the model's answer.

        Raises: BudgetSpent, ModelFailed.
        """


def conversation(wire: str, access: ModelAccess, options: Options) -> Conversation:
    """Return a new conversation. Raises: ModelFailed for a wire that the model does not have."""
    if wire not in access.wires:
        known = ", ".join(access.wires)
        raise ModelFailed(f"The model has no wire format {wire!r} for this agent, only {known}.")
    return CONVERSATIONS[wire](access, options)


class _Base(ABC):
    """Common part: the history, and answers asked for again."""

    def __init__(self, access: ModelAccess, options: Options) -> None:
        self._model = access.name
        self._options = options
        self._history: list[dict[str, Any]] = []
        self._client = self._connect(access)

    def ask(self, results: Sequence[Result] = (), text: str = "") -> Reply:
        self._add(results, text)
        for attempt in range(1, MAX_ATTEMPTS + 1):
            try:
                return self._answer()
            except Exception as error:  # each library raises errors of its own and of its transport
                problem = _problem(error)
            if attempt < MAX_ATTEMPTS:
                time.sleep(PAUSE_SECONDS * attempt)
        raise ModelFailed(f"{self._model} gave no whole answer in {MAX_ATTEMPTS} calls: {problem}")

    def _connect(self, access: ModelAccess) -> Any:
        """Return the client of its library."""
        import openai  # a second, and only where it is needed

        return openai.OpenAI(
            base_url=f"{access.url}/v1", api_key=access.token, max_retries=0, timeout=READ_SECONDS
        )

    @property
    def _sampling(self) -> dict[str, Any]:
        temperature = self._options.temperature
        return {} if temperature is None else {"temperature": temperature}

    @abstractmethod
    def _add(self, results: Sequence[Result], text: str) -> None:
        """Add the user's part of the next request to the history."""

    @abstractmethod
    def _answer(self) -> Reply:
        """Return the answer to the history, and add it there once it is whole."""


class Messages(_Base):
    """The Messages format of Anthropic."""

    def _connect(self, access: ModelAccess) -> Any:
        import anthropic  # a second, and only where it is needed

        return anthropic.Anthropic(
            base_url=access.url, api_key=access.token, max_retries=0, timeout=READ_SECONDS
        )

    def _add(self, results: Sequence[Result], text: str) -> None:
        content: list[dict[str, Any]] = [
            {
                "type": "tool_result",
                "tool_use_id": result.call.id,
                "content": result.output or "(no output)",
                "is_error": not result.ok,
            }
            for result in results
        ]
        if text:
            content.append({"type": "text", "text": text})
        self._history.append({"role": "user", "content": content})

    def _answer(self) -> Reply:
        options = self._options
        more = self._sampling
        if options.effort:
            more["output_config"] = {"effort": options.effort}
            more["thinking"] = {"type": "adaptive", "display": "summarized"}
        tools = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.schema}
            for tool in options.tools
        ]
        with self._client.messages.stream(
            model=self._model,
            max_tokens=options.max_output_tokens,
            system=options.system,
            messages=self._history,
            tools=tools,
            cache_control={"type": "ephemeral"},
            **more,
        ) as stream:
            message = stream.get_final_message()
        if not message.stop_reason:
            raise BadAnswer("the answer ends early")
        blocks = [found for block in message.content if (found := _block(block))]
        if blocks:
            self._history.append({"role": "assistant", "content": blocks})
        calls = tuple(
            Call(block.id, block.name, block.input)
            for block in message.content
            if block.type == "tool_use"
        )
        return _reply(
            (block["text"] for block in blocks if block["type"] == "text"),
            (block["thinking"] for block in blocks if block["type"] == "thinking"),
            calls,
            message.stop_reason,
        )


class Responses(_Base):
    """The Responses format of OpenAI."""

    def _add(self, results: Sequence[Result], text: str) -> None:
        for result in results:
            output = {"type": "function_call_output", "call_id": result.call.id}
            self._history.append({**output, "output": result.output})
        if text:
            self._history.append({"role": "user", "content": text})

    def _answer(self) -> Reply:
        options = self._options
        more = self._sampling
        if options.effort:
            more["reasoning"] = {"effort": options.effort, "summary": "auto"}
            more |= {"store": False, "include": ["reasoning.encrypted_content"]}
        tools = [
            {
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.schema,
                "strict": False,
            }
            for tool in options.tools
        ]
        response = None
        with self._client.responses.create(
            model=self._model,
            instructions=options.system,
            input=self._history,
            tools=tools,
            max_output_tokens=options.max_output_tokens,
            stream=True,
            **more,
        ) as stream:
            for event in stream:
                if event.type in ("response.completed", "response.incomplete", "response.failed"):
                    response = event.response
        if response is None:
            raise BadAnswer("the answer ends early")
        if response.status == "failed":
            raise BadAnswer(response.error.message if response.error else "the answer failed")
        items = [item.to_dict(mode="json") for item in response.output]
        self._history += [_sendable(item) for item in items]
        calls = tuple(
            Call(item["call_id"], item["name"], item["arguments"])
            for item in items
            if item["type"] == "function_call"
        )
        details = response.incomplete_details
        texts = (
            part.get("text") or part.get("refusal") or ""
            for item in items
            if item["type"] == "message"
            for part in item["content"]
        )
        thoughts = (
            part["text"]
            for item in items
            if item["type"] == "reasoning"
            for part in item.get("summary") or ()
        )
        return _reply(texts, thoughts, calls, (details and details.reason) or response.status)


class ChatCompletions(_Base):
    """The Chat Completions format of OpenAI, which most other servers speak."""

    def __init__(self, access: ModelAccess, options: Options) -> None:
        super().__init__(access, options)
        self._history.append({"role": "system", "content": options.system})

    def _add(self, results: Sequence[Result], text: str) -> None:
        for result in results:
            answer = {"role": "tool", "tool_call_id": result.call.id, "content": result.output}
            self._history.append(answer)
        if text:
            self._history.append({"role": "user", "content": text})

    def _answer(self) -> Reply:
        options = self._options
        more = self._sampling
        if options.effort:
            more["reasoning_effort"] = options.effort
        tools = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.schema,
                },
            }
            for tool in options.tools
        ]
        answer = _ChatAnswer()
        with self._client.chat.completions.create(
            model=self._model,
            messages=self._history,
            tools=tools,
            max_completion_tokens=options.max_output_tokens,
            stream=True,
            stream_options={"include_usage": True},
            **more,
        ) as stream:
            for chunk in stream:
                for choice in chunk.choices[:1]:
                    answer.add(choice)
        if not answer.stop_reason:
            raise BadAnswer("the answer ends early")
        self._history.append(answer.message())
        calls = tuple(Call(call["id"], call["name"], call["arguments"]) for call in answer.calls)
        return _reply((answer.text,), (answer.reasoning,), calls, answer.stop_reason)


class _ChatAnswer:
    """An answer in Chat Completions, put together from its pieces."""

    REASONING = ("reasoning_content", "reasoning")
    """Names of the field that compatible servers stream reasoning in."""

    def __init__(self) -> None:
        self.text = self.reasoning = self.stop_reason = ""
        self._reasoning_name = ""
        self._calls: dict[int, dict[str, str]] = {}

    def add(self, choice: Any) -> None:
        delta = choice.delta
        self.text += delta.content or getattr(delta, "refusal", None) or ""
        for name in self.REASONING:
            if isinstance(piece := getattr(delta, name, None), str) and piece:
                self.reasoning += piece
                self._reasoning_name = name
                break
        for part in delta.tool_calls or ():
            call = self._calls.setdefault(part.index, {"id": "", "name": "", "arguments": ""})
            call["id"] = part.id or call["id"]
            if part.function:
                call["name"] += part.function.name or ""
                call["arguments"] += part.function.arguments or ""
        self.stop_reason = choice.finish_reason or self.stop_reason

    @property
    def calls(self) -> list[dict[str, str]]:
        """The calls in order; one without an id gets its number."""
        numbered = sorted(self._calls.items())
        return [{**call, "id": call["id"] or f"call_{number}"} for number, call in numbered]

    def message(self) -> dict[str, Any]:
        """Return it as a message of the history."""
        message: dict[str, Any] = {"role": "assistant", "content": self.text}
        if self.reasoning:
            message[self._reasoning_name] = self.reasoning
        if self._calls:
            message["tool_calls"] = [
                {
                    "id": call["id"],
                    "type": "function",
                    "function": {
                        "name": call["name"],
                        # A server that fills a template refuses a history that is no JSON.
                        "arguments": json.dumps(object_of(call["arguments"]) or {}),
                    },
                }
                for call in self.calls
            ]
        return message


CONVERSATIONS: Mapping[str, type[_Base]] = {
    "messages": Messages,
    "responses": Responses,
    "chat-completions": ChatCompletions,
}


def _problem(error: Exception) -> str:
    """Return the problem of a call that can be made again. Raises: BudgetSpent, ModelFailed."""
    status = getattr(error, "status_code", OK)
    text = f"{type(error).__name__}: {error}"
    if status == TOO_MANY and SPENT in str(error):
        raise BudgetSpent(str(error)) from error
    if status != OK:  # the gateway has repeated what time can mend
        advice = f" {ADVICE}" if status in REFUSALS else ""
        raise ModelFailed(f"The provider answered HTTP {status}: {error}{advice}") from error
    return text


def _block(block: Any) -> dict[str, Any] | None:
    """Return a block of an answer as the history may hold it; None for an empty text."""
    match block.type:
        case "text":
            return {"type": "text", "text": block.text} if block.text else None
        case "thinking":
            found = {"type": "thinking", "thinking": block.thinking}
            return {**found, "signature": block.signature}
        case "tool_use":
            found = {"type": "tool_use", "id": block.id, "name": block.name}
            return {**found, "input": object_of(block.input) or {}}
    other: dict[str, Any] = block.to_dict(mode="json")
    return other


def _sendable(item: dict[str, Any]) -> dict[str, Any]:
    """Return an item of an answer as the history may hold it: arguments that were cut are left out.

    A provider refuses a history with arguments that are no JSON.
    """
    if item["type"] == "function_call" and object_of(item["arguments"]) is None:
        return {**item, "arguments": "{}"}
    return item


def object_of(value: Any) -> Mapping[str, Any] | None:
    """Return arguments of a call, an object or its JSON; None for anything else."""
    if isinstance(value, str):
        try:
            value = json.loads(value or "{}")
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, Mapping) else None


def _reply(
    texts: Iterable[str], thoughts: Iterable[str], calls: tuple[Call, ...], stop_reason: str
) -> Reply:
    stop = STOPS.get(stop_reason, "end")
    if calls and stop == "end":
        stop = "calls"
    return Reply(
        "\n\n".join(filter(None, texts)),
        "\n\n".join(filter(None, thoughts)),
        calls,
        stop,
        stop_reason,
    )
