"""The server: conversations by the model's name, faults, and a record of all that was asked."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from aiohttp import web

from tests.model_server.formats import FORMATS, Format
from tests.model_server.script import (
    POLL,
    Asked,
    Fault,
    Reply,
    Script,
    ScriptSource,
    ToolCall,
    Turn,
    Usage,
    call_id,
    command_of,
    first_id,
    poll_id,
)

MAX_REQUEST_BYTES = 64 << 20
SIDE_MODELS = re.compile(r"haiku|nano|mini|flash|lite|embedding", re.IGNORECASE)
"""Models that harnesses use beside the one they are given, for titles and summaries."""
START_SECONDS = 30


@dataclass
class Exchange:
    """One request and its reply, as the server recorded them."""

    wire: str
    model: str
    turn: int
    reply: Reply | None
    """None for a fault."""
    tools: tuple[str, ...]
    """Names of the tools that the request offered."""
    key: str
    """The credential of the request."""
    status: int = 200


@dataclass
class Conversation:
    """A conversation, in order. Requests are tied to it by the ids of their tool calls."""

    number: int
    model: str
    prompt: str
    exchanges: list[Exchange] = field(default_factory=list)
    results: dict[str, str] = field(default_factory=dict)
    """Outputs of tools, by the id of their call."""

    @property
    def calls(self) -> list[ToolCall]:
        """The calls that were asked for, each once, without polls."""
        found = {
            call.id: call
            for exchange in self.exchanges
            if exchange.reply
            for call in exchange.reply.calls
            if call.tool != POLL
        }
        return list(found.values())

    def output(self, call: ToolCall) -> str:
        """Return what came back for a call and for the polls of its command."""
        parts = [text for each, text in self.results.items() if first_id(each) == call.id]
        return "\n".join(parts)


class ModelServer:
    """Serves scripts by the model's name, in a thread, while its context lasts.

    With a `key`, requests that do not carry it are answered 401.
    """

    def __init__(self, scripts: Mapping[str, ScriptSource], *, key: str = "", port: int = 0):
        self.scripts = dict(scripts)
        self.conversations: list[Conversation] = []
        self.side_requests: list[Exchange] = []
        """Requests without a shell: titles, summaries, checks of a quota."""
        self.requests = 0
        self._key, self._port = key, port
        self._faulted: dict[tuple[str, int, int], int] = defaultdict(int)
        self._lock = threading.Lock()
        self._started = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="model server", daemon=True)

    @property
    def url(self) -> str:
        """The root; the paths of Messages and of OpenAI's formats begin with `/v1` below it."""
        return f"http://127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._started.wait(START_SECONDS), "the model server did not start"
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def of(self, model: str) -> list[Conversation]:
        """Return the conversations with a model, in the order of their beginnings."""
        with self._lock:
            return [each for each in self.conversations if each.model == model]

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        app = web.Application(client_max_size=MAX_REQUEST_BYTES)
        for path, wire in (
            ("/v1/messages", "messages"),
            ("/v1/responses", "responses"),
            ("/v1/chat/completions", "chat-completions"),
            (r"/{version:v1|v1beta}/models/{model:[^/:]+}:generateContent", "generate-content"),
            (
                r"/{version:v1|v1beta}/models/{model:[^/:]+}:streamGenerateContent",
                "generate-content",
            ),
        ):
            app.router.add_post(path, self._handler(FORMATS[wire]))
        app.router.add_post("/v1/messages/count_tokens", self._count)
        app.router.add_post("/v1/responses/input_tokens", self._count)
        app.router.add_post(r"/{version:v1|v1beta}/models/{model:[^/:]+}:countTokens", self._count)
        app.router.add_get("/v1/models", self._list)
        app.router.add_get("/v1/models/{model:.+}", self._describe)
        app.router.add_get("/v1beta/models", self._list)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        self._loop.run_until_complete(runner.setup())
        site = web.TCPSite(runner, "127.0.0.1", self._port)
        self._loop.run_until_complete(site.start())
        self._port = runner.addresses[0][1]
        self._started.set()
        self._loop.run_forever()
        self._loop.run_until_complete(runner.cleanup())
        self._loop.run_until_complete(_cancel(asyncio.all_tasks(self._loop)))
        self._loop.close()

    def _handler(self, format_: Format) -> Any:
        async def handle(request: web.Request) -> web.StreamResponse:
            body = await request.read()
            try:
                asked = format_.parse(json.loads(body), request.path, request.query)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                text = f"not a request of {format_.name}: {type(error).__name__}: {error}"
                return web.json_response(format_.error(400, text), status=400)
            return await self._answer(request, format_, asked, len(body))

        return handle

    async def _answer(
        self, request: web.Request, format_: Format, asked: Asked, size: int
    ) -> web.StreamResponse:
        self.requests += 1
        key = _credential(request)
        exchange = Exchange(
            format_.name, asked.model, 0, None, tuple(tool.name for tool in asked.tools), key
        )
        if self._key and key != self._key:
            return _error(format_, 401, "the key is wrong")
        source = self.scripts.get(asked.model)
        if source is None and (asked.shell or not SIDE_MODELS.search(asked.model)):
            return _error(format_, 404, f"model: {asked.model} is not known")
        if source is None or asked.shell is None:
            exchange.reply = _reply(asked, 0, 0, Turn("Kernel"), (), size)
            self.side_requests.append(exchange)
            return await self._send(request, format_, asked, exchange.reply, Turn())
        script = source if isinstance(source, Script) else source(asked.prompt)
        with self._lock:
            conversation, turn_index = self._find(asked)
            polls = asked.running() if any(tool.name == POLL for tool in asked.tools) else {}
            if polls:
                turn_index -= 1  # it is not over
                turn, calls = Turn(), tuple(_poll(each, to) for each, to in polls.items())
            else:
                turn = script.turn(turn_index)
                calls = _calls(asked, conversation.number, turn_index, turn)
            exchange.turn = turn_index
            conversation.exchanges.append(exchange)
            fault = self._fault(asked.model, turn_index, turn)
            if fault and fault.kind == "status":
                exchange.status = fault.status
            reply = _reply(asked, conversation.number, turn_index, turn, calls, size)
            exchange.reply = None if fault else reply
        if fault:
            return await self._fail(request, format_, asked, reply, fault)
        return await self._send(request, format_, asked, reply, turn)

    def _find(self, asked: Asked) -> tuple[Conversation, int]:
        """Return the conversation of a request and the turn it asks for; keep its results."""
        number, turn = asked.position()
        if not number:
            number = len(self.conversations) + 1
        while len(self.conversations) < number:  # more than one after a new start of the server
            following = len(self.conversations) + 1
            self.conversations.append(Conversation(following, asked.model, asked.prompt))
        conversation = self.conversations[number - 1]
        conversation.results.update(asked.results)
        return conversation, turn

    def _fault(self, model: str, index: int, turn: Turn) -> Fault | None:
        for number, fault in enumerate(turn.faults):
            if self._faulted[model, index, number] < fault.times:
                self._faulted[model, index, number] += 1
                return fault
        return None

    async def _send(
        self, request: web.Request, format_: Format, asked: Asked, reply: Reply, turn: Turn
    ) -> web.StreamResponse:
        if not asked.stream:
            await asyncio.sleep(turn.seconds)  # waits: the pace of a script
            return web.json_response(format_.whole(reply))
        events = [*format_.events(reply, asked)]
        response = await _stream(request, events, turn.seconds / len(events))
        await response.write_eof()
        return response

    async def _fail(
        self, request: web.Request, format_: Format, asked: Asked, reply: Reply, fault: Fault
    ) -> web.StreamResponse:
        if fault.kind == "status":
            return _error(format_, fault.status, fault.message, fault.retry_after)
        if fault.kind == "garbage":
            kind = "text/event-stream" if asked.stream else "application/json"
            body = b"data: {not JSON\n\n" if asked.stream else b"<html>not JSON"
            return web.Response(body=body, content_type=kind)
        if fault.kind != "silence" and asked.stream:
            events = [*format_.events(reply, asked)]
            response = await _stream(request, events[: len(events) // 2], 0)
            if fault.kind == "short":
                await response.write_eof()
                return response
        await asyncio.sleep(fault.seconds)  # waits: the silence of a script
        assert request.transport
        request.transport.abort()
        return web.Response(status=500)

    async def _count(self, request: web.Request) -> web.Response:
        tokens = max(1, len(await request.read()) // 4)
        return web.json_response({"input_tokens": tokens, "totalTokens": tokens})

    async def _list(self, request: web.Request) -> web.Response:
        listed = [self._model(name) for name in self.scripts]
        body: dict[str, Any] = {"object": "list", "data": listed, "has_more": False}
        body["models"] = [{"name": f"models/{name}"} for name in self.scripts]
        return web.json_response(body)

    async def _describe(self, request: web.Request) -> web.Response:
        name = request.match_info["model"]
        if name not in self.scripts:
            return _error(FORMATS["messages"], 404, f"model: {name} is not known")
        return web.json_response(self._model(name))

    def _model(self, name: str) -> dict[str, Any]:
        return {
            "id": name,
            "object": "model",
            "type": "model",
            "display_name": name,
            "created": 1_760_000_000,
            "created_at": "2025-10-09T08:53:20Z",
            "owned_by": "arena",
        }


def _calls(asked: Asked, conversation: int, index: int, turn: Turn) -> tuple[ToolCall, ...]:
    calls: list[tuple[str, Mapping[str, Any] | str, str]] = [
        (*asked.arguments(action), command_of(action)) for action in turn.commands
    ]
    calls += [(tool, arguments, "") for tool, arguments in turn.calls]
    return tuple(
        ToolCall(call_id(conversation, index, number), *each) for number, each in enumerate(calls)
    )


def _poll(previous: str, session: str) -> ToolCall:
    arguments = {"session_id": int(session), "chars": "", "yield_time_ms": 60_000}
    return ToolCall(poll_id(previous), POLL, arguments)


def _reply(
    asked: Asked, conversation: int, index: int, turn: Turn, calls: tuple[ToolCall, ...], size: int
) -> Reply:
    """Return a reply, with a token for four characters. All but the latest input is cached."""
    spoken = len(turn.text) + sum(len(call.json) for call in calls)
    reasoning = len(turn.reasoning) // 4
    latest = sum(len(asked.results[each]) for each in asked.calls[-1:] if each in asked.results)
    prompt = max(1, size // 4)
    cached = max(0, prompt - latest // 4 - 64) if asked.calls else 0
    usage = Usage(prompt, max(1, spoken // 4) + reasoning, cached, reasoning)
    polls = f"p{len(asked.calls)}" if calls and calls[0].tool == POLL else ""
    name = f"{conversation}-{index}{polls}"
    return Reply(name, asked.model, turn.text, turn.reasoning, calls, usage, turn.cut)


async def _cancel(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait for their ends; aiohttp leaves requests whose client is gone."""
    left = list(tasks)
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)


def _credential(request: web.Request) -> str:
    for name in ("x-api-key", "x-goog-api-key"):
        if value := request.headers.get(name):
            return value
    bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
    return bearer or request.query.get("key", "")


def _error(
    format_: Format, status: int, message: str, retry_after: float | None = None
) -> web.Response:
    headers = {} if retry_after is None else {"retry-after": f"{retry_after:g}"}
    return web.json_response(format_.error(status, message), status=status, headers=headers)


async def _stream(
    request: web.Request, events: Iterable[bytes], pause: float
) -> web.StreamResponse:
    headers = {"content-type": "text/event-stream", "cache-control": "no-cache"}
    response = web.StreamResponse(headers=headers)
    await response.prepare(request)
    for event in events:
        await response.write(event)
        if pause:
            await asyncio.sleep(pause)  # waits: the pace of a script
    return response
