"""Gateway of an attempt: its process, and its reports as events of the run.

The process is on the trusted side and alone holds the provider's key. The agent gets a token that
is good for its own gateway only, whose socket is in the network of its own sandbox.
"""

from __future__ import annotations

import contextlib
import contextvars
import json
import logging
import math
import os
import re
import secrets
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connections

from arena.runs.models import Run
from arena.runs.spending import count_kept_calls
from arena.runs.states import Fault, RunStatus
from evaluation.sandbox import loopback
from evaluation.sandbox.features import isolation_features
from runners.gateway.call import BAD_CALL, HUNG_UP, TOO_LONG
from runners.gateway.providers import BadProvider, Provider
from runners.harnesses import known_providers
from runners.process.supervisor import Child, Ended, Ending
from runners.session.control_socket import TimeBudget
from runners.session.session import ModelAccess
from runners.worker.shared_traffic import SharedTraffic

logger = logging.getLogger(__name__)

ENVIRONMENT = (
    "PATH", "LANG", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy",
    "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR",
)  # fmt: skip
"""Variables of the worker's environment that the process gets; the key comes on its stdin."""
REPORT_SECONDS = 5.0
"""Time for the process to report the calls in flight when it is to end."""
CONTEXT_SUFFIX = re.compile(r"\[\d+m\]$", re.IGNORECASE)
BUDGETS = {"tokens": "max_tokens", "usd": "max_usd", "turns": "max_calls"}
"""Settings of the gateway by the name of a budget."""


class NoModel(Exception):
    """Raised where the agent's model cannot be reached from here; the user can mend it."""


@dataclass(frozen=True)
class Failure:
    """Reason why an agent's model cannot be used any more."""

    text: str
    fault: Fault

    @property
    def status(self) -> RunStatus:
        """Return the end of a run: a failure of the candidate counts in its pass rate."""
        return RunStatus.FAILED if self.fault == Fault.CANDIDATE else RunStatus.BROKEN


def traffic_file(run_id: str) -> Path:
    """Return the recording of a run's model traffic; only the worker's user can read it."""
    folder: Path = settings.ARENA_HOME / "traffic"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder / f"{run_id}.jsonl"


class ModelGateway:
    """Runs beside an agent.

    `record(kind, body, event)` writes an event of the run, in the place of an earlier one with the
    id `event`; the id is None for one that nothing replaces. `fail` is called once when the model
    cannot be used any more, and `spend` when a budget is spent; both from another thread. `shared`
    keeps the recording where other machines find it.
    """

    def __init__(
        self,
        run: Run,
        wires: tuple[str, ...],
        clock: TimeBudget,
        record: Callable[[str, dict[str, Any], str | None], None],
        fail: Callable[[Failure], None],
        spend: Callable[[], None],
        shared: SharedTraffic,
    ) -> None:
        """Create it. Raises: NoModel for an unknown provider, a missing key, no common wire."""
        if not isolation_features().namespaces:
            raise NoModel(
                "An agent with a model needs network namespaces, which this machine refuses:"
                " run the worker as root or allow unprivileged user namespaces."
            )
        self._run, self._clock = run, clock
        self._record, self._fail, self._spend = record, fail, spend
        provider, key = _provider(run)
        common = tuple(wire for wire in wires if wire in provider.wires)
        if not common:
            raise NoModel(
                f"{run.agent.title} speaks {' and '.join(wires)}, and the provider"
                f" {provider.name} {' and '.join(provider.wires)}: choose another provider."
            )
        url = f"http://{loopback.HOST}:{loopback.PORT}"
        self.access = ModelAccess(run.agent.model, url, secrets.token_urlsafe(24), common)
        traffic = traffic_file(run.pk)
        _copy_recording(run, traffic, shared)
        self._shared, self._traffic = shared, traffic
        shared.upload(traffic)
        limits = {BUDGETS[name]: run.budget.get(name, 0) for name in BUDGETS}
        self._configuration = {
            "provider": provider.model_dump(mode="json"),
            "key": key,
            "settings": {"token": self.access.token, "model": requested(run.agent.model), **limits},
            "record": str(traffic),
            "replay": str(traffic) if traffic.exists() else "",
            "reported": count_kept_calls(_continued(run)),
        }
        self.last_failure: Failure | None = None
        """Why the last call of the model failed; None if it did not."""
        self._budgets_spent: set[str] = set()
        self._pauses = 0
        self._events = f"model-call-{secrets.token_hex(4)}"
        """Beginning of the ids of events of calls that are reported before they end."""
        self._over = threading.Event()

    @contextlib.contextmanager
    def serving(self) -> Iterator[int]:
        """Serve; the value is the descriptor over which the sandbox hands out its sockets."""
        ours, theirs = socket.socketpair()
        with theirs:
            with ours:
                self._child = Child(
                    [sys.executable, "-m", "runners.gateway", str(ours.fileno())],
                    on_lines=self._on_lines,
                    stdin=json.dumps(self._configuration),
                    cwd=settings.BASE_DIR,
                    env={name: os.environ[name] for name in ENVIRONMENT if name in os.environ},
                    pass_fds=(ours.fileno(),),
                    grace_seconds=REPORT_SECONDS,
                )
            thread = threading.Thread(
                target=contextvars.copy_context().run,
                args=(self._follow,),
                name=f"gateway of {self._run.pk}",
            )
            thread.start()
            try:
                yield theirs.fileno()
            finally:
                self._over.set()
                self._child.terminate()
                thread.join()

    def _follow(self) -> None:
        try:
            ended = self._child.follow(deadline=lambda: math.inf)
            if not self._over.is_set():
                self._fail(Failure(_death(ended), Fault.ARENA))
        except Exception as error:
            logger.exception("the gateway of %s failed", self._run.pk)
            self._fail(Failure(f"The model gateway failed: {error}.", Fault.ARENA))
        finally:
            for _ in range(self._pauses):
                self._clock.resume()
            connections.close_all()

    def _on_lines(self, lines: list[str]) -> None:
        for line in lines:
            report = json.loads(line)
            self._handle(report.pop("kind"), report)

    def _record_call(self, kind: str, facts: Mapping[str, Any]) -> None:
        """Record a call; one whose progress is reported has a number, and so one event."""
        body = {name: value for name, value in facts.items() if name != "number"}
        event = f"{self._events}-{facts['number']}" if "number" in facts else None
        self._record(kind, body, event)

    def _warn(self, text: str, stream: str) -> None:
        self._record("log", {"text": text, "level": "warning", "stream": stream}, None)

    def _handle(self, kind: str, facts: Mapping[str, Any]) -> None:
        match kind:
            case "model_call":
                self._shared.upload(self._traffic)  # before its event: see `count_kept_calls`
                self._record_call("model_call", facts)
                self.last_failure = _failure_of(facts)
            case "progress":
                self._record_call("model_progress", facts)
            case "refused":
                self._warn(facts["text"], "network")
            case "no_usage":
                self._warn(facts["text"], "provider")
            case "waiting":
                self._pauses += 1
                self._clock.pause()
                self._warn(facts["text"], "provider")
            case "working":
                self._pauses -= 1
                self._clock.resume()
            case "budget" if facts["name"] not in self._budgets_spent:
                name = facts["name"]
                self._budgets_spent.add(name)
                limit, text = self._run.budget[name], f"Its budget of {name} is spent."
                body = {"name": name, "limit": limit, "used": facts["used"], "text": text}
                self._record("limit", body, None)
                self._spend()
            case "failed":
                self._fail(Failure(f"{facts['text']}.", Fault(facts["fault"])))


def _copy_recording(run: Run, target: Path, shared: SharedTraffic) -> None:
    """Copy the recording that a run continues, of this machine or shared; nothing for no call.

    It is whole, whatever of it was replayed already, so that a chain of broken runs loses nothing.
    """
    files = (traffic_file(pk) for pk in _continued(run))
    before = next((file for file in files if file.exists()), None)
    if target.exists():
        return
    found = before.read_bytes() if before else shared.read(_continued(run))
    if found:
        lines = found.splitlines(keepends=True)
        whole = lines if not lines or lines[-1].endswith(b"\n") else lines[:-1]
        partial = target.with_suffix(".partial")
        partial.write_bytes(b"".join(whole))
        partial.chmod(0o600)
        partial.rename(target)


def requested(model: str) -> str:
    """Return the name of an agent's model as requests have it.

    Claude Code has a suffix for the size of a context, such as `[1m]`, and sends it in a header.
    """
    return CONTEXT_SUFFIX.sub("", model)


def _continued(run: Run) -> list[str]:
    """Return the ids of the runs that a run continues, the last one first."""
    ids: list[str] = []
    before = run.continues
    while before is not None:
        ids.append(before.pk)
        before = before.continues
    return ids


def _provider(run: Run) -> tuple[Provider, str]:
    """Return the provider of a run's agent and its key. Raises: NoModel."""
    name = run.agent.provider
    try:
        known = known_providers()
    except BadProvider as error:
        raise NoModel(f"{error}: correct the file.") from error
    if name not in known:
        raise NoModel(
            f"There is no provider {name!r} where the worker runs; there are {', '.join(known)}."
            " Add it to providers.toml in ARENA_HOME."
        )
    try:
        return known[name], known[name].key()
    except LookupError as error:
        raise NoModel(f"{str(error).strip('.')}.") from error


def _failure_of(call: Mapping[str, Any]) -> Failure | None:
    """Return why a call failed, for an agent that gave up after it; None if it did not.

    A conversation that is too long for its model is the candidate's failure, and so is a malformed
    tool call.
    """
    provider, status = call["provider"], call["status"]
    if call["error"] == TOO_LONG:
        text = f"{provider}: {TOO_LONG}: HTTP {status}. Choose a model with a longer context."
        return Failure(text, Fault.CANDIDATE)
    if call["error"] == BAD_CALL:
        text = f"{provider}: {BAD_CALL}: HTTP {status}. Choose a model that is made for tools."
        return Failure(text, Fault.CANDIDATE)
    if call["error"] and call["error"] != HUNG_UP:
        return Failure(f"The agent gave up: {provider}: {call['error']}.", Fault.PROVIDER)
    if 400 <= status < 500:
        text = f"{provider} refused the last request of the agent: HTTP {status}."
        return Failure(f"{text} Check the agent's model and settings.", Fault.USER)
    return None


def _death(ended: Ended) -> str:
    if ended.ending is Ending.EXITED:
        last = ended.stderr.splitlines()[-1:] or [""]
        return f"The model gateway ended with status {ended.code}. {last[0]}".strip()
    return f"The model gateway was ended: {ended.ending}."
