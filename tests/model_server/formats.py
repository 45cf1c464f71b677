"""The wire formats from the provider's side: requests are parsed, replies and errors written.

Sources: the API references of Anthropic (Messages), OpenAI (Responses, Chat Completions) and
Google (generateContent), read in 2026.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from tests.model_server.script import Asked, Reply, Tool

Json = dict[str, Any]
PIECE = 24
"""Characters of a delta."""


class Format(Protocol):
    """One wire format."""

    name: str

    def parse(self, body: Json, path: str, query: Mapping[str, str]) -> Asked: ...

    def whole(self, reply: Reply) -> Json:
        """Return the answer as one object."""

    def events(self, reply: Reply, asked: Asked) -> Iterator[bytes]:
        """Return the answer as a stream's events."""

    def error(self, status: int, message: str) -> Json: ...


def _pieces(text: str) -> Iterator[str]:
    for start in range(0, len(text), PIECE):
        yield text[start : start + PIECE]


def _text(content: Any) -> str:
    """Return the text in a message's content, which is a text or a list of parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(_text(each) for each in content)
    if isinstance(content, dict):
        return _text(content.get("text", content.get("content", "")))
    return ""


def _sse(data: Json, event: str = "") -> bytes:
    head = f"event: {event}\n" if event else ""
    return f"{head}data: {json.dumps(data)}\n\n".encode()


class Messages:
    """Anthropic's Messages."""

    name = "messages"

    def parse(self, body: Json, path: str, query: Mapping[str, str]) -> Asked:
        texts, calls, results = [_text(body.get("system", ""))], [], {}
        for message in body.get("messages", []):
            content = message.get("content", "")
            for block in content if isinstance(content, list) else [{"text": content}]:
                if block.get("type") == "tool_use":
                    calls.append(block["id"])
                elif block.get("type") == "tool_result":
                    results[block["tool_use_id"]] = _text(block.get("content", ""))
                elif message.get("role") == "user":
                    texts.append(_text(block))
        tools = tuple(
            Tool(tool["name"], tool.get("input_schema", {})) for tool in body.get("tools", [])
        )
        stream = bool(body.get("stream"))
        return Asked(body["model"], stream, tools, "\n".join(texts), tuple(calls), results)

    def whole(self, reply: Reply) -> Json:
        return {
            **self._head(reply),
            "content": [*self._blocks(reply)],
            "stop_reason": self._stop(reply),
            "usage": {**self._input(reply), "output_tokens": reply.usage.output},
        }

    def events(self, reply: Reply, asked: Asked) -> Iterator[bytes]:
        start = {**self._input(reply), "output_tokens": 1}
        yield self._event("message_start", message={**self._head(reply), "usage": start})
        yield self._event("ping")
        for index, block in enumerate(self._blocks(reply)):
            kind = block["type"]
            field = {"thinking": "thinking", "text": "text", "tool_use": "input"}[kind]
            empty: Json = {**block, field: {} if kind == "tool_use" else ""}
            if kind == "thinking":
                empty["signature"] = ""
            yield self._event("content_block_start", index=index, content_block=empty)
            for piece in _pieces(json.dumps(block[field]) if kind == "tool_use" else block[field]):
                delta = {
                    "thinking": {"type": "thinking_delta", "thinking": piece},
                    "text": {"type": "text_delta", "text": piece},
                    "tool_use": {"type": "input_json_delta", "partial_json": piece},
                }[kind]
                yield self._event("content_block_delta", index=index, delta=delta)
            if kind == "thinking":
                signature = {"type": "signature_delta", "signature": block["signature"]}
                yield self._event("content_block_delta", index=index, delta=signature)
            yield self._event("content_block_stop", index=index)
        delta = {"stop_reason": self._stop(reply), "stop_sequence": None}
        usage = {**self._input(reply), "output_tokens": reply.usage.output}
        yield self._event("message_delta", delta=delta, usage=usage)
        yield self._event("message_stop")

    def error(self, status: int, message: str) -> Json:
        kinds = {
            400: "invalid_request_error", 401: "authentication_error", 402: "billing_error",
            403: "permission_error", 404: "not_found_error", 429: "rate_limit_error",
            529: "overloaded_error",
        }  # fmt: skip
        kind = kinds.get(status, "api_error")
        return {"type": "error", "error": {"type": kind, "message": message}}

    def _head(self, reply: Reply) -> Json:
        return {
            "id": f"msg_{reply.id}",
            "type": "message",
            "role": "assistant",
            "model": reply.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
        }

    def _blocks(self, reply: Reply) -> Iterator[Json]:
        if reply.reasoning:
            signature = base64.b64encode(reply.id.encode()).decode()
            yield {"type": "thinking", "thinking": reply.reasoning, "signature": signature}
        if reply.text:
            yield {"type": "text", "text": reply.text}
        for call in reply.calls:
            yield {"type": "tool_use", "id": call.id, "name": call.tool, "input": call.arguments}

    def _input(self, reply: Reply) -> Json:
        usage = reply.usage
        return {
            "input_tokens": usage.input - usage.cached,
            "cache_read_input_tokens": usage.cached,
            "cache_creation_input_tokens": 0,
        }

    def _stop(self, reply: Reply) -> str:
        return "max_tokens" if reply.cut else "tool_use" if reply.calls else "end_turn"

    def _event(self, kind: str, **fields: Any) -> bytes:
        return _sse({"type": kind, **fields}, kind)


class Responses:
    """OpenAI's Responses."""

    name = "responses"

    def parse(self, body: Json, path: str, query: Mapping[str, str]) -> Asked:
        asked = body.get("input", "")
        items = asked if isinstance(asked, list) else [{"role": "user", "content": asked}]
        texts, calls, results = [body.get("instructions") or ""], [], {}
        for item in items:
            if item.get("type") == "function_call":
                calls.append(item["call_id"])
                json.loads(item["arguments"])  # providers refuse what is no JSON
            elif item.get("type") == "function_call_output":
                results[item["call_id"]] = _text(item.get("output", ""))
            elif item.get("role") in ("user", "developer", "system"):
                texts.append(_text(item.get("content", "")))
        tools = tuple(
            Tool(tool["name"], tool.get("parameters") or {})
            for tool in body.get("tools") or ()
            if tool.get("type") == "function"
        )
        stream = bool(body.get("stream"))
        return Asked(body["model"], stream, tools, "\n".join(texts), tuple(calls), results)

    def whole(self, reply: Reply) -> Json:
        usage = reply.usage
        return {
            **self._head(reply),
            "status": "incomplete" if reply.cut else "completed",
            "incomplete_details": {"reason": "max_output_tokens"} if reply.cut else None,
            "output": self._items(reply),
            "usage": {
                "input_tokens": usage.input,
                "input_tokens_details": {"cached_tokens": usage.cached},
                "output_tokens": usage.output,
                "output_tokens_details": {"reasoning_tokens": usage.reasoning},
                "total_tokens": usage.input + usage.output,
            },
        }

    def events(self, reply: Reply, asked: Asked) -> Iterator[bytes]:
        for number, event in enumerate(self._events(reply)):
            yield _sse({**event, "sequence_number": number}, event["type"])

    def _events(self, reply: Reply) -> Iterator[Json]:
        yield {"type": "response.created", "response": self._head(reply)}
        yield {"type": "response.in_progress", "response": self._head(reply)}
        for index, item in enumerate(self._items(reply)):
            at = {"output_index": index}
            empty = {
                "reasoning": {"summary": []},
                "message": {"content": [], "status": "in_progress"},
                "function_call": {"arguments": "", "status": "in_progress"},
            }[item["type"]]
            yield {"type": "response.output_item.added", **at, "item": {**item, **empty}}
            yield from ({**each, **at, "item_id": item["id"]} for each in self._deltas(item))
            yield {"type": "response.output_item.done", **at, "item": item}
        ending = "incomplete" if reply.cut else "completed"
        yield {"type": f"response.{ending}", "response": self.whole(reply)}

    def _deltas(self, item: Json) -> Iterator[Json]:
        if item["type"] == "function_call":
            kind = "response.function_call_arguments"
            for piece in _pieces(item["arguments"]):
                yield {"type": f"{kind}.delta", "delta": piece}
            arguments = {"arguments": item["arguments"], "name": item["name"]}
            yield {"type": f"{kind}.done", **arguments}
            return
        if item["type"] == "reasoning":
            part, at = item["summary"][0], {"summary_index": 0}
            outer, inner = "response.reasoning_summary_part", "response.reasoning_summary_text"
        else:
            part, at = item["content"][0], {"content_index": 0}
            outer, inner = "response.content_part", "response.output_text"
        more = {"logprobs": []} if item["type"] == "message" else {}
        yield {"type": f"{outer}.added", **at, "part": {**part, "text": ""}}
        for piece in _pieces(part["text"]):
            yield {"type": f"{inner}.delta", **at, "delta": piece, **more}
        yield {"type": f"{inner}.done", **at, "text": part["text"], **more}
        yield {"type": f"{outer}.done", **at, "part": part}

    def error(self, status: int, message: str) -> Json:
        return _openai_error(status, message)

    def _head(self, reply: Reply) -> Json:
        return {
            "id": f"resp_{reply.id}",
            "object": "response",
            "created_at": 1_760_000_000,
            "status": "in_progress",
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "metadata": {},
            "model": reply.model,
            "output": [],
            "parallel_tool_calls": True,
            "temperature": 1.0,
            "tool_choice": "auto",
            "tools": [],
            "top_p": 1.0,
            "usage": None,
        }

    def _items(self, reply: Reply) -> list[Json]:
        items: list[Json] = []
        if reply.reasoning:
            summary = [{"type": "summary_text", "text": reply.reasoning}]
            items.append({"type": "reasoning", "id": f"rs_{reply.id}", "summary": summary})
        if reply.text:
            part = {"type": "output_text", "text": reply.text, "annotations": []}
            items.append(
                {
                    "type": "message",
                    "id": f"msg_{reply.id}",
                    "role": "assistant",
                    "status": "completed",
                    "content": [part],
                }
            )
        for call in reply.calls:
            items.append(
                {
                    "type": "function_call",
                    "id": f"fc_{call.id}",
                    "call_id": call.id,
                    **call.names,
                    "arguments": call.json,
                    "status": "completed",
                }
            )
        return items


class ChatCompletions:
    """OpenAI's Chat Completions, as compatible servers speak it too."""

    name = "chat-completions"

    def parse(self, body: Json, path: str, query: Mapping[str, str]) -> Asked:
        texts, calls, results = [], [], {}
        for message in body.get("messages", []):
            for call in message.get("tool_calls") or ():
                calls.append(call["id"])
                json.loads(call["function"]["arguments"])
            if message.get("role") == "tool":
                results[message["tool_call_id"]] = _text(message.get("content"))
            elif message.get("role") != "assistant":
                texts.append(_text(message.get("content")))
        tools = tuple(
            Tool(tool["function"]["name"], tool["function"].get("parameters") or {})
            for tool in body.get("tools") or ()
            if tool.get("type") == "function"
        )
        stream = bool(body.get("stream"))
        usage = bool((body.get("stream_options") or {}).get("include_usage"))
        return Asked(body["model"], stream, tools, "\n".join(texts), tuple(calls), results, usage)

    def whole(self, reply: Reply) -> Json:
        message: Json = {"role": "assistant", "content": reply.text or None}
        if reply.reasoning:
            message["reasoning_content"] = reply.reasoning
        if reply.calls:
            message["tool_calls"] = self._calls(reply)
        choice = {"index": 0, "message": message, "finish_reason": self._stop(reply)}
        head = self._head(reply, "chat.completion")
        return {**head, "choices": [choice], "usage": self._usage(reply)}

    def events(self, reply: Reply, asked: Asked) -> Iterator[bytes]:
        head = self._head(reply, "chat.completion.chunk")

        def chunk(delta: Json, stop: str | None = None) -> bytes:
            choice = {"index": 0, "delta": delta, "finish_reason": stop}
            return _sse({**head, "choices": [choice]})

        yield chunk({"role": "assistant", "content": ""})
        for piece in _pieces(reply.reasoning):
            yield chunk({"reasoning_content": piece})
        for piece in _pieces(reply.text):
            yield chunk({"content": piece})
        for index, call in enumerate(self._calls(reply)):
            function = {"name": call["function"]["name"], "arguments": ""}
            yield chunk({"tool_calls": [{**call, "index": index, "function": function}]})
            for piece in _pieces(call["function"]["arguments"]):
                part = {"index": index, "function": {"arguments": piece}}
                yield chunk({"tool_calls": [part]})
        yield chunk({}, self._stop(reply))
        if asked.include_usage:
            yield _sse({**head, "choices": [], "usage": self._usage(reply)})
        yield b"data: [DONE]\n\n"

    def error(self, status: int, message: str) -> Json:
        return _openai_error(status, message)

    def _head(self, reply: Reply, kind: str) -> Json:
        created = 1_760_000_000
        return {
            "id": f"chatcmpl-{reply.id}",
            "object": kind,
            "created": created,
            "model": reply.model,
        }

    def _calls(self, reply: Reply) -> list[Json]:
        return [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.tool, "arguments": call.json},
            }
            for call in reply.calls
        ]

    def _stop(self, reply: Reply) -> str:
        return "length" if reply.cut else "tool_calls" if reply.calls else "stop"

    def _usage(self, reply: Reply) -> Json:
        usage = reply.usage
        return {
            "prompt_tokens": usage.input,
            "completion_tokens": usage.output,
            "total_tokens": usage.input + usage.output,
            "prompt_tokens_details": {"cached_tokens": usage.cached},
            "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
        }


class GenerateContent:
    """Google's generateContent and streamGenerateContent.

    A client may drop the ids of calls, but must return a part's thought signature as it came: the
    id is in both.
    """

    name = "generate-content"

    def parse(self, body: Json, path: str, query: Mapping[str, str]) -> Asked:
        system = body.get("systemInstruction") or {}
        texts, calls = [_text(system.get("parts", ""))], []
        results: dict[str, str] = {}
        waiting: list[str] = []
        for content in body.get("contents", []):
            for part in content.get("parts", []):
                if called := part.get("functionCall"):
                    signed = part.get("thoughtSignature")
                    found = base64.b64decode(signed).decode() if signed else called.get("id", "")
                    calls.append(found)
                    waiting.append(found)
                elif answered := part.get("functionResponse"):
                    output = answered.get("response", {})
                    text = output.get("output") or output.get("error") or json.dumps(output)
                    if waiting:
                        results[waiting.pop(0)] = str(text)
                elif content.get("role") == "user":
                    texts.append(_text(part))
        declared = [
            each
            for tool in body.get("tools") or ()
            for each in tool.get("functionDeclarations", ())
        ]
        tools = tuple(
            Tool(
                each["name"], _lower(each.get("parametersJsonSchema") or each.get("parameters", {}))
            )
            for each in declared
        )
        model = path.rpartition("/models/")[2].partition(":")[0]
        stream = path.endswith(":streamGenerateContent")
        return Asked(model, stream, tools, "\n".join(texts), tuple(calls), results)

    def whole(self, reply: Reply) -> Json:
        return self._chunk(reply, [*self._parts(reply)], "STOP")

    def events(self, reply: Reply, asked: Asked) -> Iterator[bytes]:
        for part in self._parts(reply):
            if "text" not in part:
                yield _sse(self._chunk(reply, [part]))
                continue
            for piece in _pieces(part["text"]):
                yield _sse(self._chunk(reply, [{**part, "text": piece}]))
        yield _sse(self._chunk(reply, [{"text": ""}], "STOP"))

    def error(self, status: int, message: str) -> Json:
        names = {
            400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED",
            404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED", 503: "UNAVAILABLE",
        }  # fmt: skip
        name = names.get(status, "INTERNAL")
        return {"error": {"code": status, "message": message, "status": name}}

    def _parts(self, reply: Reply) -> Iterator[Json]:
        if reply.reasoning:
            yield {"text": reply.reasoning, "thought": True}
        if reply.text:
            yield {"text": reply.text}
        for call in reply.calls:
            signature = base64.b64encode(call.id.encode()).decode()
            called = {"id": call.id, "name": call.tool, "args": call.arguments}
            yield {"functionCall": called, "thoughtSignature": signature}

    def _chunk(self, reply: Reply, parts: list[Json], stop: str | None = None) -> Json:
        usage = reply.usage
        candidate: Json = {"content": {"role": "model", "parts": parts}, "index": 0}
        if stop:
            candidate["finishReason"] = stop
        return {
            "candidates": [candidate],
            "usageMetadata": {
                "promptTokenCount": usage.input,
                "candidatesTokenCount": usage.output - usage.reasoning,
                "totalTokenCount": usage.input + usage.output,
                "cachedContentTokenCount": usage.cached,
                "thoughtsTokenCount": usage.reasoning,
            },
            "modelVersion": reply.model,
            "responseId": reply.id,
        }


def _lower(schema: Any) -> Any:
    """Return a schema of Google's older form, whose types are in capitals, as JSON Schema."""
    if isinstance(schema, dict):
        return {
            name: value.lower() if name == "type" and isinstance(value, str) else _lower(value)
            for name, value in schema.items()
        }
    return [_lower(each) for each in schema] if isinstance(schema, list) else schema


def _openai_error(status: int, message: str) -> Json:
    kind, code = {
        401: ("invalid_request_error", "invalid_api_key"),
        404: ("invalid_request_error", "model_not_found"),
        429: ("requests", "rate_limit_exceeded"),
    }.get(status, ("server_error", None))
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


FORMATS: dict[str, Format] = {
    each.name: each for each in (Messages(), Responses(), ChatCompletions(), GenerateContent())
}
