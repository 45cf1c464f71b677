"""The gateway's HTTP server: one run, one provider.

A request is checked against the run's token, the provider's wire formats and the run's budget. Its
answer is streamed through unchanged. Overload and connection errors before the first byte of an
answer are retried with back-off. `WaitingCalls` decides when the run's clock stands meanwhile.
The answer to an agent that hung up is read to its end all the same, for its usage. One that costs
nothing is dropped, so that the provider can end it.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import aiohttp
from aiohttp import web

from evaluation.sandbox import loopback
from runners.gateway import forwarding
from runners.gateway.answers import refusal, retry_after, text_of, times
from runners.gateway.budget import Amount, Budget
from runners.gateway.call import (
    HUNG_UP,
    MALFORMED,
    UNFINISHED,
    AgentLeft,
    Asked,
    Call,
    NoCredit,
    ProviderFailed,
    parse_request,
    problem_of,
)
from runners.gateway.clock import Clock, RateLimit
from runners.gateway.key import Key, has_token
from runners.gateway.progress import Progress
from runners.gateway.providers import Provider
from runners.gateway.room import MAX_REQUEST_BYTES, Crowded, Room, size_of
from runners.gateway.traffic import Exchange, Replay, TrafficWriter
from runners.gateway.waiting import WaitingCalls
from runners.gateway.wire import FORMATS, Endpoint, Usage, WireFormat

ERROR_BYTES = 64 << 10
RETRIED = frozenset({408, 429, 500, 502, 503, 504, 529})
FIRST_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS = 1.0, 60.0
MAX_BAD_ANSWERS = 3
"""Answers in a row that were cut or cannot be read; then the provider has failed."""
MAX_REFUSED = 100
"""Refusals that a run's trace lists."""
NO_USAGE = "its answers name no usage, so each call is charged its upper bound"
KEY_REFUSED = frozenset({401, 402, 403})
UNKNOWN_MODEL = 404
NO_CREDIT = re.compile(rb"insufficient_quota|credit balance|billing", re.IGNORECASE)
"""In the body of a 429: no time makes up for it."""


@dataclass(frozen=True)
class Settings:
    """Model and budget of a run: 0 for no limit of tokens, dollars or calls.

    Requests for another model are refused. `patience_seconds` limits retries of one call,
    `silence_seconds` the wait for the next byte. After `quiet_seconds` without an answer a call
    waits for the provider. `progress_seconds` is that of `Progress`.
    """

    token: str
    model: str
    max_tokens: int = 0
    max_usd: float = 0.0
    max_calls: int = 0
    patience_seconds: float = 600.0
    silence_seconds: float = 600.0
    quiet_seconds: float = 180.0
    progress_seconds: float = 5.0


Report = Callable[[str, Mapping[str, Any]], None]
"""Called with a kind and its facts.

The kinds: `model_call`, `progress` (of one under way), `no_usage` (once), `budget` (`name` is
spent), `refused` (a connection, path or request), `waiting` and `working` (of `WaitingCalls`),
`failed` (with its `fault`: provider, user or arena).
"""


class Gateway:
    """Answers the requests of one run's agent."""

    def __init__(
        self,
        provider: Provider,
        key: str,
        settings: Settings,
        report: Report,
        *,
        replay: Replay | None = None,
        writer: TrafficWriter | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._clock = clock or Clock()
        self.budget = Budget(Amount(settings.max_tokens, settings.max_usd, settings.max_calls))
        self._provider, self._key, self._settings = provider, key, settings
        self._secret = Key(key)
        self._wires = [FORMATS[name] for name in provider.wires]
        self._reports, self._replay, self._writer = report, replay, writer
        self._rate = RateLimit(provider.requests_per_minute, self._clock)
        self.waiting = WaitingCalls(report)
        self._calls: set[asyncio.Task[web.StreamResponse]] = set()
        self._progress = Progress(self._report, settings.progress_seconds)
        self._room = Room()
        self._bad_answers = 0
        self._refused: set[str] = set()
        self._reported_no_usage = False
        self._session: aiohttp.ClientSession | None = None
        self._app = web.Application(client_max_size=MAX_REQUEST_BYTES)
        self._app.router.add_route("*", "/{path:.*}", self._answer)

    @contextlib.asynccontextmanager
    async def serving(self, listener: socket.socket) -> Any:
        """Serve on a listening socket while the context lasts."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=30)
        connector = aiohttp.TCPConnector(limit=0)
        runner = web.AppRunner(
            self._app, access_log=None, handler_cancellation=True, shutdown_timeout=1
        )
        async with aiohttp.ClientSession(
            timeout=timeout,
            connector=connector,
            auto_decompress=True,
            trust_env=not self._provider.is_local,  # whether the environment's proxy applies
        ) as self._session:
            await runner.setup()
            await web.SockSite(runner, listener).start()
            try:
                yield self
            finally:
                await runner.cleanup()
                for task in self._calls:
                    task.cancel()
                await asyncio.gather(*self._calls, return_exceptions=True)

    def watch(self, packets: socket.socket) -> None:
        """Report the connections that the sandbox refused, each once."""
        seen: set[loopback.Attempt] = set()

        def read() -> None:
            with contextlib.suppress(BlockingIOError):
                while True:
                    attempt = loopback.read_attempt(packets)
                    if attempt and attempt not in seen and len(seen) < 1000:
                        seen.add(attempt)
                        self._report("refused", {**asdict(attempt), "text": f"{attempt} refused"})

        packets.setblocking(False)
        asyncio.get_running_loop().add_reader(packets, read)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        found = ((wire, wire.endpoint(request.method, request.path)) for wire in self._wires)
        wire, endpoint = next((each for each in found if each[1]), (self._wires[0], None))
        if not has_token(request, self._settings.token):
            return refusal(wire, 401, "authentication_error", "the run's token is wrong")
        if endpoint is None:
            text = (
                f"{request.method} {request.path} is not a model endpoint of {self._provider.name}"
            )
            self._report("refused", {"text": f"{text}: refused"})
            return refusal(wire, 404, "not_found_error", text)
        try:
            async with self._room.hold(size_of(request)):
                return await self._answer_request(request, wire, endpoint)
        except Crowded:
            text = "too many requests at a time"
            self._report_refused(text)
            return refusal(wire, 429, "rate_limit_error", text)

    async def _answer_request(
        self, request: web.Request, wire: WireFormat, endpoint: Endpoint
    ) -> web.StreamResponse:
        """Answer a request for which there is room."""
        body = await request.read()
        asked = parse_request(wire, request.path, body, self._provider.tools)
        if endpoint.runs_model and (problem := asked.model_problem(self._settings.model)):
            self._report_refused(problem)
            return refusal(wire, 403, "permission_error", problem)
        if asked.problem:
            self._report_refused(asked.problem)
            return refusal(wire, 400, "invalid_request_error", asked.problem)
        if not endpoint.runs_model:
            return await self._pass_free(request, wire, endpoint, body)
        if problem := self._unpriced(asked.model):
            self._report("failed", {"text": problem, "fault": "user"})
            return refusal(wire, 429, "insufficient_quota", problem)
        if name := await self.budget.wait():
            used = getattr(self.budget.used, name)
            self._report("budget", {"name": name, "used": used})
            return refusal(wire, 429, "insufficient_quota", f"the run's budget of {name} is spent")
        call = Call(self._provider.name, wire, endpoint, asked, keep=self._writer is not None)
        return await self._call_model(request, call)

    def _report(self, kind: str, facts: Mapping[str, Any]) -> None:
        self._reports(kind, self._secret.strike_all(facts))

    def _report_refused(self, text: str) -> None:
        """Report a refusal, each text once."""
        if text not in self._refused and len(self._refused) < MAX_REFUSED:
            self._refused.add(text)
            self._report("refused", {"text": f"{text}: refused"})

    def _unpriced(self, model: str) -> str:
        """Return why a model cannot be used within a budget of dollars."""
        if not self._settings.max_usd or self._provider.cost_usd(model, Usage()) is not None:
            return ""
        return (
            f"the price of {model} is unknown, so the run's budget of dollars cannot be kept: "
            f"add it under prices of [{self._provider.name}] in providers.toml"
        )

    def _bound(self, asked: Asked) -> Amount:
        """Return an upper bound of what a call can use."""
        bound = asked.bound
        written = replace(bound, cache_write_tokens=bound.input_tokens)
        costs = [self._provider.cost_usd(asked.model, usage) for usage in (bound, written)]
        return Amount(bound.total, max(cost or 0.0 for cost in costs), turns=1)

    def _is_free(self, asked: Asked) -> bool:
        return self._provider.cost_usd(asked.model, asked.bound) == 0.0

    async def _pass_free(
        self, request: web.Request, wire: WireFormat, endpoint: Endpoint, body: bytes
    ) -> web.StreamResponse:
        """Answer a request that costs nothing, from the provider."""
        await self._rate.wait()
        try:
            async with self._send(request, wire, endpoint, body) as answer:
                content = self._secret.strike_bytes(await answer.read())
                return web.Response(
                    status=answer.status, body=content, content_type=answer.content_type
                )
        except (aiohttp.ClientError, TimeoutError) as error:
            text = self._secret.strike(f"{self._provider.name}: {text_of(error)}")
            return refusal(wire, 502, "api_error", text)

    async def _call_model(self, request: web.Request, call: Call) -> web.StreamResponse:
        """Make a call in a task of its own, which goes on when the agent hangs up."""
        exchange = None
        if self._replay:
            exchange = self._replay.take(request.method, request.path, call.asked.model)
        self.budget.admit(call, self._bound(call.asked))
        self.waiting.open(call)
        self._progress.follow(call)
        task = asyncio.create_task(self._complete(request, call, exchange))
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            self._hang_up(call)
            if call.has_usage or self._is_free(call.asked):
                task.cancel()  # it costs nothing more, and its server is free for the next call
            raise

    async def _complete(
        self, request: web.Request, call: Call, exchange: Exchange | None
    ) -> web.StreamResponse:
        """Make a call to its end. It is reported however it ends."""
        try:
            if exchange:
                return await self._play_back(request, call, exchange)
            async with self._answered(request, call) as answer:
                return await self._pass_through(request, call, answer)
        except AgentLeft:
            return web.Response()  # that nobody receives
        except asyncio.CancelledError:
            self._hang_up(call)
            raise
        except (ProviderFailed, NoCredit) as error:
            fault, text = "provider", str(error)
            if isinstance(error, NoCredit):
                fault, text = "user", f"{self._provider.name} refuses for lack of credit: {text}"
            call.error = text
            self._finish(call)
            self._report("failed", {"text": text, "fault": fault})
            return refusal(call.wire, 503, "api_error", self._secret.strike(text))
        finally:
            self._finish(call)

    @contextlib.asynccontextmanager
    async def _answered(self, request: web.Request, call: Call) -> Any:
        """Return the provider's answer to a call, with retries until it is worth passing on.

        Raises: ProviderFailed, NoCredit, AgentLeft.
        """
        ends = self._clock.now() + self._settings.patience_seconds
        backoff = FIRST_BACKOFF_SECONDS
        name = self._provider.name
        quiet_seconds = self._settings.quiet_seconds
        quiet_text = f"{name} does not answer for {quiet_seconds:g} s"
        loop = asyncio.get_running_loop()
        quiet = loop.call_later(quiet_seconds, self.waiting.wait, call, quiet_text)
        try:
            while True:
                await self._rate.wait()
                if call.left.is_set():
                    raise AgentLeft
                call.unread = True
                stack = contextlib.AsyncExitStack()
                async with stack:
                    why, retry_seconds = "", 0.0
                    try:
                        answer = await stack.enter_async_context(
                            self._send(request, call.wire, call.endpoint, call.asked.body)
                        )
                        content = await answer.read() if answer.status in RETRIED else b""
                        if answer.status not in RETRIED or problem_of(answer.status, content):
                            quiet.cancel()
                            self.waiting.answer(call)
                            yield answer
                            return
                        call.unread = False
                        if answer.status == 429 and NO_CREDIT.search(content):
                            raise NoCredit(content[:ERROR_BYTES].decode(errors="replace"))
                        why = f"HTTP {answer.status}"
                        retry_seconds = retry_after(answer.headers.get("retry-after", ""))
                    except (aiohttp.ClientError, TimeoutError, OSError) as error:
                        if call.begun:
                            raise
                        why = text_of(error)
                        if isinstance(error, aiohttp.ClientConnectorError):
                            call.unread = False
                if call.left.is_set():
                    raise AgentLeft
                call.retries += 1
                pause = min(
                    max(retry_seconds, backoff * random.uniform(1, 1.5)), MAX_BACKOFF_SECONDS
                )
                text = f"{name} does not answer: {why}"
                if self._clock.now() + pause > ends:
                    raise ProviderFailed(f"{text}, {times(call.retries)}")
                self.waiting.wait(call, f"{text}; trying again")
                await self._clock.wait(pause, call.left)
                backoff = min(2 * backoff, MAX_BACKOFF_SECONDS)
        finally:
            quiet.cancel()

    def _hang_up(self, call: Call) -> None:
        """Note that the agent left a call, which is then no longer open."""
        call.hang_up()
        self.waiting.close(call)

    def _send(self, request: web.Request, wire: WireFormat, endpoint: Endpoint, body: bytes) -> Any:
        assert self._session, "the gateway serves"
        url = self._provider.base_url.rstrip("/") + endpoint.path
        return self._session.request(
            request.method,
            url,
            params=forwarding.query(request.query),
            data=body or None,
            headers=forwarding.headers(request.headers, wire, self._key),
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(
                total=None, sock_connect=30, sock_read=self._settings.silence_seconds
            ),
        )

    async def _pass_through(
        self, request: web.Request, call: Call, answer: aiohttp.ClientResponse
    ) -> web.StreamResponse:
        """Stream an answer to the agent and read its usage on the way."""
        response = web.StreamResponse(status=answer.status)
        for name, value in answer.headers.items():
            if name.lower() not in forwarding.NOT_PASSED:
                response.headers.add(name, self._secret.strike(value))
        reader = call.start_reading(answer.status, answer.content_type)
        try:
            await self._write(request, response, call)
            async for piece in self._pieces(call, answer):
                call.add(piece)
                reader.feed(piece)
                await self._write(request, response, call, piece)
                if call.left.is_set() and call.has_usage:
                    break
            call.unread = False
        except (aiohttp.ClientError, TimeoutError, ConnectionError) as error:
            if not call.left.is_set():
                call.error = f"the answer was cut: {text_of(error)}"
        reading = reader.end()
        if reader.malformed and call.error in ("", HUNG_UP):
            call.error = MALFORMED
        elif call.status == 200 and reading.stop_reason in UNFINISHED and not call.error:
            call.error = "the answer ends early"
        name = self._provider.name
        if answer.status in KEY_REFUSED:
            text = f"{name} refused the key of the worker: HTTP {answer.status}"
            self._report("failed", {"text": text, "fault": "user"})
        elif answer.status == UNKNOWN_MODEL:
            text = f"{name} does not know the model {call.asked.model!r}: HTTP {answer.status}"
            self._report("failed", {"text": text, "fault": "user"})
        self._finish(call)
        if call.error.startswith("the answer was cut") and request.transport:
            request.transport.abort()  # the agent must see that it was cut
        elif not call.left.is_set():
            with contextlib.suppress(ConnectionError):
                await response.write_eof()
        return response

    async def _pieces(self, call: Call, answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        """Yield the body of an answer as it comes; that of an error is whole, without the key.

        The problem that an error names is noted in the call.
        """
        if answer.status == 200:
            async for piece in answer.content.iter_any():
                yield piece
        else:
            content = await answer.read()
            call.error = problem_of(answer.status, content)
            yield self._secret.strike_bytes(content)

    async def _write(
        self,
        request: web.Request,
        response: web.StreamResponse,
        call: Call,
        piece: bytes = b"",
    ) -> None:
        """Send headers, if they are not sent, and a piece to the agent unless it hung up."""
        if call.left.is_set():
            return
        try:
            if not response.prepared:
                await response.prepare(request)
            if piece:
                await response.write(piece)
        except ConnectionError:
            self._hang_up(call)

    async def _play_back(
        self, request: web.Request, call: Call, exchange: Exchange
    ) -> web.StreamResponse:
        assert self._replay, "it has the exchange"
        call.replayed = self._replay.is_reported(exchange)
        call.recorded = True
        response = web.StreamResponse(status=exchange.status)
        response.content_type = exchange.content_type
        reader = call.start_reading(exchange.status, exchange.content_type)
        await self._write(request, response, call)
        for _, text in exchange.pieces:
            call.add(text.encode())
            reader.feed(text.encode())
            await self._write(request, response, call, text.encode())
        reader.end()
        call.error = ""
        self._finish(call)
        if not call.left.is_set():
            with contextlib.suppress(ConnectionError):
                await response.write_eof()
        return response

    def _finish(self, call: Call) -> None:
        """Add a call to the sums, keep its traffic, and report it; once."""
        if call.finished:
            return
        call.finished = True
        self._progress.end(call)
        self.waiting.close(call)
        reading = call.reading()
        cost, used = None, Amount(turns=1)
        if reading.usage:
            cost = self._provider.call_cost_usd(call.asked.model, reading.model, reading.usage)
            used = Amount(reading.usage.total, cost or 0.0, turns=1)
        self.budget.settle(call, used)
        done = call.reported(reading, cost)
        if call.replayed:
            done = replace(done, cost_usd=0.0 if reading.usage else None)
        if self._writer and not call.error and call.begun and not call.recorded:
            self._writer.add(call.exchange())
        followed = {"number": call.number} if call.number else {}
        self._report("model_call", asdict(done) | followed)
        if done.estimated and call.status == 200 and not (call.error or self._reported_no_usage):
            self._reported_no_usage = True
            self._report("no_usage", {"text": f"{self._provider.name}: {NO_USAGE}"})
        if call.status == 200 and call.error != HUNG_UP:
            self._bad_answers = self._bad_answers + 1 if call.error else 0
            if self._bad_answers == MAX_BAD_ANSWERS:
                text = f"{self._provider.name}: {call.error}, {times(MAX_BAD_ANSWERS)} in a row"
                self._report("failed", {"text": text, "fault": "provider"})
