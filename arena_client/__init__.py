"""Client of an arena's API: submit kernels, follow runs, bring an agent of your own.

It needs Python 3.10 and nothing else, so a copy of this folder is enough.
"""

from __future__ import annotations

import http.client
import json
import os
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, cast

from arena_client.types import (
    BudgetIn,
    EventIn,
    HardwareOut,
    ProgressOut,
    RewardOut,
    RunDetail,
    RunOut,
    SubmissionDetail,
    TaskDetail,
    TaskOut,
)

__all__ = ["Arena", "ArenaError", "OwnRun"]

DEFAULT_URL = "http://127.0.0.1:8000"
TIMEOUT_SECONDS = 60.0
POLL_SECONDS = 1.0
MAX_TRIES = 5
MAX_WAIT_SECONDS = 60.0
BAD_REQUEST, UNAUTHORIZED, NOT_FOUND, BAD_ANSWER = 400, 401, 404, 502
ACTIVE = ("queued", "running", "judging")


class ArenaError(Exception):
    """A refusal: its HTTP status, its code, and `expected` where a stream has a gap."""

    def __init__(self, status: int, error: Mapping[str, Any]) -> None:
        super().__init__(" ".join(filter(None, (error.get("message"), error.get("hint")))))
        self.status = status
        self.code = str(error.get("code", ""))
        self.expected: int | None = error.get("expected")


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: the request would be repeated with the token, perhaps elsewhere."""

    def redirect_request(self, req: Any, fp: Any, code: int, *rest: Any) -> None:
        *_, target = rest
        address = urllib.parse.urlsplit(str(target))
        where = f"{address.scheme}://{address.netloc}"
        hint = "Set ARENA_URL to its own address."
        error = {"code": "redirect", "message": f"The arena redirects to {where}.", "hint": hint}
        raise ArenaError(code, error)


_OPENER = urllib.request.build_opener(_NoRedirects)


class Arena:
    """An arena with the token of its user: `ARENA_URL` and `ARENA_TOKEN` by default."""

    def __init__(self, url: str = "", token: str = "") -> None:
        self.url = (url or os.environ.get("ARENA_URL", DEFAULT_URL)).rstrip("/")
        self._token = (token or os.environ.get("ARENA_TOKEN", "")).strip()
        if not self._token.isascii() or not self._token.isprintable() or " " in self._token:
            raise ArenaError(
                BAD_REQUEST,
                {
                    "code": "token",
                    "message": "The token has characters that no token of an arena has.",
                    "hint": f"Copy it again from {self.url}/account/, and set ARENA_TOKEN to it.",
                },
            )
        if not _is_address(self.url):
            hint = f"Set ARENA_URL to an address such as {DEFAULT_URL}."
            message = f"{self.url} is not the address of an arena."
            raise ArenaError(BAD_REQUEST, {"code": "url", "message": message, "hint": hint})

    def hardware(self) -> list[HardwareOut]:
        """Return the devices on which kernels can be judged now."""
        return cast(list[HardwareOut], self._call("/hardware"))

    def tasks(self) -> list[TaskOut]:
        return cast("list[TaskOut]", self._call("/tasks"))

    def task(self, slug: str) -> TaskDetail:
        """Return a task with its starter files, by a slug such as rms_norm/cpp-to-cpp."""
        if "/" not in slug:
            message = f"There is no task {slug!r}. Tasks are named operator/track,"
            hint = f"such as rms_norm/cpp-to-cpp, and listed at {self.url}/tasks/."
            raise ArenaError(NOT_FOUND, {"code": "task", "message": message, "hint": hint})
        return cast(TaskDetail, self._call(f"/tasks/{urllib.parse.quote(slug)}"))

    def submit(
        self,
        task: str,
        source: str,
        *,
        scope: Literal["round", "final"] = "round",
        visibility: Literal["owner", "public"] = "owner",
        hardware: str | None = None,
        label: str = "",
    ) -> RewardOut:
        """Submit a kernel; `final` judges the held-out cases too."""
        body = {
            "task": task,
            "source": source,
            "scope": scope,
            "visibility": visibility,
            "hardware": hardware,
            "label": label,
        }
        return cast(RewardOut, self._call("/submissions", body))

    def verdict(self, submission_id: str, seconds: float = 600.0) -> RewardOut:
        """Return the verdict on a submission once there is one. Raises: TimeoutError."""
        end = time.monotonic() + seconds
        while True:
            found = cast(RewardOut, self._call(f"/submissions/{_quoted(submission_id)}/reward"))
            if found["status"] != "pending":
                return found
            if time.monotonic() > end:
                waiting = found["waiting"]
                raise TimeoutError(waiting["reason"] if waiting else "It is being judged.")
            time.sleep(POLL_SECONDS)

    def run(self, run_id: str) -> RunDetail:
        return cast(RunDetail, self._call(f"/runs/{_quoted(run_id)}"))

    def cancel(self, run_id: str) -> RunOut:
        return cast(RunOut, self._call(f"/runs/{_quoted(run_id)}/cancel", {}))

    def watch(self, run_id: str, after: int = 0) -> Iterator[dict[str, Any]]:
        """Yield every event of a run above `after` as it comes, until the run has ended."""
        while True:
            page = self._call(f"/runs/{_quoted(run_id)}/events?after={after}&limit=500")
            for event in page["events"]:
                after = event["seq"]
                yield event
            if page["more"]:
                continue
            if page["status"] not in ACTIVE:
                return
            time.sleep(POLL_SECONDS)

    def download(self, run_id: str, folder: str | Path) -> list[Path]:
        """Write a run, its events and the sources of each round below `folder`."""
        target = Path(folder)
        run = self.run(run_id)
        target.mkdir(parents=True, exist_ok=True)
        written = [_write(target / "run.json", json.dumps(run, indent=2) + "\n")]
        events = target / "events.ndjson"
        with events.open("w", encoding="utf-8") as lines:
            for event in self._stored_events(run_id, run["last_seq"]):
                lines.write(json.dumps(event) + "\n")
        written.append(events)
        for each in run["submissions"]:
            path = f"/runs/{_quoted(run_id)}/submissions/{each['round']}"
            detail = cast(SubmissionDetail, self._call(path))
            place = target / f"round-{each['round']}"
            place.mkdir(exist_ok=True)
            written.append(_write(place / "verdict.json", json.dumps(detail, indent=2) + "\n"))
            for name, text in detail["files"].items():
                written.append(_write(place / Path(name).name, text))
        return written

    def start(
        self,
        task: str,
        name: str,
        *,
        model: str = "",
        hardware: str | None = None,
        budget: BudgetIn | None = None,
        label: str = "",
        visibility: Literal["public", "owner"] = "public",
    ) -> OwnRun:
        """Start a run of your own agent `name`, whose events and submissions you send."""
        body = {
            "task": task,
            "external": {"name": name, "model": model},
            "hardware": hardware,
            "budget": dict(budget) if budget else None,
            "label": label,
            "visibility": visibility,
        }
        return OwnRun(self, cast(RunOut, self._call("/runs", body)))

    def _stored_events(self, run_id: str, last: int) -> Iterator[dict[str, Any]]:
        after = 0
        while after < last:
            page = self._call(f"/runs/{_quoted(run_id)}/events?after={after}&limit=500")
            if not page["events"]:
                return
            yield from page["events"]
            after = page["events"][-1]["seq"]

    def _call(self, path: str, body: Any = None, *, again: bool = False) -> Any:
        """Return the answer; `again` repeats a request that may arrive twice.

        Reading is always repeated. A request above a limit waits as long as the answer asks.

        Raises: ArenaError; OSError where the arena cannot be reached.
        """
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        request = urllib.request.Request(f"{self.url}/api/v1{path}", data, headers)
        for number in range(1, MAX_TRIES + 1):
            try:
                with _OPENER.open(request, timeout=TIMEOUT_SECONDS) as answer:
                    return _parsed(answer.read(), self.url)
            except urllib.error.HTTPError as error:
                refusal = _refusal(error, self._hint(error.code))
                wait = _seconds(error.headers.get("Retry-After")) if error.code == 429 else None
                if wait is None or number == MAX_TRIES or wait > MAX_WAIT_SECONDS:
                    raise refusal from None
                time.sleep(wait)
            except (OSError, http.client.HTTPException) as error:
                if isinstance(error, http.client.HTTPException):
                    error = OSError(f"the answer was cut: {type(error).__name__}")
                if number == MAX_TRIES or not (body is None or again):
                    raise error from None
                time.sleep(POLL_SECONDS * number)
        raise AssertionError("the last try returns or raises")

    def _hint(self, status: int) -> str:
        """Return what to do after a refusal, where the client knows it better than the arena."""
        if status != UNAUTHORIZED:
            return ""
        what = "another" if self._token else "a"
        return f"Set ARENA_TOKEN to {what} token from {self.url}/account/."


class OwnRun:
    """A run of your own agent. Its events are numbered, so a lost answer does no harm."""

    def __init__(self, arena: Arena, run: RunOut) -> None:
        self.id = run["id"]
        self.run = run
        self._arena = arena
        self._next = 1
        self._round = 0

    def send(self, events: Sequence[EventIn] = ()) -> ProgressOut:
        """Record events; none is a sign of life, due every five minutes."""
        body = {"first": self._next, "events": list(events)}
        sent = cast(ProgressOut, self._post("events", body))
        self._next = sent["next"]
        return sent

    def log(self, text: str) -> ProgressOut:
        return self.send([{"kind": "log", "body": {"text": text}}])

    def check(self, source: str, note: str = "", seconds: float = 600.0) -> RewardOut:
        """Submit the next round and return its verdict. Raises: ArenaError, TimeoutError."""
        body = {"source": source, "note": note, "round": self._round + 1}
        pending = cast(RewardOut, self._post("verdicts", body))
        self._round = pending["round"]
        return self._arena.verdict(pending["id"], seconds)

    def finish(self) -> RunOut:
        """End the run: its best round gets the final verdict."""
        return cast(RunOut, self._post("finish", {}))

    def _post(self, what: str, body: Any) -> Any:
        return self._arena._call(f"/runs/{self.id}/{what}", body, again=True)


def _refusal(error: urllib.error.HTTPError, hint: str) -> ArenaError:
    try:
        found = json.load(error)["error"]
    except (ValueError, KeyError, TypeError, OSError, http.client.HTTPException):
        found = None
    if not isinstance(found, dict):
        found = {"message": f"{error.code} {error.reason}"}
    return ArenaError(error.code, {**found, "hint": hint} if hint else found)


def _parsed(content: bytes, url: str) -> Any:
    """Return the JSON of an answer. Raises: ArenaError for any other, as of another server."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        hint = "Set ARENA_URL to the address of an arena."
        error = {"code": "answer", "message": f"{url} does not answer as an arena.", "hint": hint}
        raise ArenaError(BAD_ANSWER, error) from None


def _seconds(text: str | None) -> float | None:
    """Return the seconds of a Retry-After header; None for a date or none."""
    return float(text) if text and text.strip().isdecimal() else None


def _is_address(url: str) -> bool:
    """Return whether a text is the address of a server of HTTP."""
    try:
        parts = urllib.parse.urlsplit(url)
        known = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        return False
    return bool(known) and url.isascii() and url.isprintable() and " " not in url


def _quoted(text: str) -> str:
    return urllib.parse.quote(text, safe="")


def _write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path
