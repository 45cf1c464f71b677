"""The gateway of an attempt, beside a sandboxed agent, before the scripted model server."""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from arena.runs.models import Run
from arena.runs.states import Fault
from arena.runs.trace.events import EventDraft
from arena.runs.trace.recording import record
from arena.runs.traffic import recording
from evaluation.sandbox.features import isolation_features
from runners.session.confinement import confined, environment
from runners.session.control_socket import TimeBudget
from runners.worker import model_gateway
from runners.worker.model_gateway import Failure, ModelGateway, NoModel, traffic_file
from runners.worker.shared_traffic import SharedTraffic
from tests.conftest import skip_or_fail
from tests.model_server import Fault as Failing
from tests.model_server import ModelServer, Script, Turn
from tests.waiting import PATIENCE_SECONDS, until

KEY = "sk-real"
AGENT = """
import http.client, json, sys
token, times = json.load(sys.stdin)
for _ in range(times):
    connection = http.client.HTTPConnection("127.0.0.1", 8400, timeout=60)
    tools = [{"name": "Bash", "input_schema": {}}]
    body = {"model": "m", "stream": True, "messages": [], "tools": tools}
    connection.request("POST", "/v1/messages", json.dumps(body), {"x-api-key": token})
    answer = connection.getresponse()
    print("status", answer.status, flush=True)
    text = ""
    while line := answer.readline():  # it does not raise where it is cut
        text = line.decode().strip() or text
        if text.startswith("event: "):
            print(text, flush=True)
    print("ended" if "message_stop" in text else "cut", flush=True)
    connection.close()
"""


class Unshared(SharedTraffic):
    """A recording that no other machine finds, for attempts without a database."""

    def __init__(self) -> None:
        super().__init__("")

    def upload(self, path: Path) -> None:
        pass

    def read(self, run_ids: Sequence[str]) -> bytes:
        return b""


class Attempt:
    """A gateway, and what it does to its run."""

    def __init__(
        self,
        home: Path,
        continues: Any = None,
        model: str = "m",
        shared: SharedTraffic | None = None,
        **budget: float,
    ) -> None:
        self.home = home
        agent = SimpleNamespace(title="T", model=model, provider="test")
        run: Any = SimpleNamespace(pk="r-1", agent=agent, continues=continues, budget=budget)
        self.events: list[tuple[str, dict[str, Any], str | None]] = []
        self.failures: list[Failure] = []
        self.spent = threading.Event()
        self.failed = threading.Event()
        self.clock = TimeBudget(60)
        self.gateway = ModelGateway(
            run,
            ("messages",),
            self.clock,
            lambda *event: self.events.append(event),
            self._fail,
            self.spent.set,
            shared or Unshared(),
        )

    def _fail(self, failure: Failure) -> None:
        self.failures.append(failure)
        self.failed.set()

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [body for each, body, _ in self.events if each == kind]

    @contextlib.contextmanager
    def agent(self, times: int = 1) -> Iterator[subprocess.Popen[str]]:
        """Run the agent beside the gateway."""
        package, workspace = self.home / "package", self.home / "workspace"
        (package / "agents").mkdir(parents=True)
        workspace.mkdir()
        (package / "agents/__main__.py").write_text(AGENT)
        with self.gateway.serving() as control, subprocess.Popen(
            confined(workspace, package, loopback_control=control),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            cwd=workspace, env=environment(workspace), pass_fds=(control,),
        ) as process:  # fmt: skip
            assert process.stdin
            process.stdin.write(json.dumps([self.gateway.access.token, times]))
            process.stdin.close()
            process.stdin = None
            yield process


@pytest.fixture
def home(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    if not isolation_features().namespaces:
        skip_or_fail("network namespaces")
    settings.ARENA_HOME = tmp_path
    monkeypatch.setenv("TEST_KEY", KEY)
    return tmp_path


@contextlib.contextmanager
def provider(home: Path, turn: Turn) -> Iterator[ModelServer]:
    with ModelServer({"m": Script((turn,))}, key=KEY) as server:
        (home / "providers.toml").write_text(
            f'[test]\nwires = ["messages"]\nbase_url = "{server.url}/v1"\n'
            'key_variable = "TEST_KEY"\nprices = { m = { input = 1, output = 2 } }\n'
        )
        yield server


def processes_of_gateway() -> list[psutil.Process]:
    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if "runners.gateway" in process.cmdline() and "python" in process.name():
                found.append(process)
    return found


def test_a_call_of_the_agent_is_an_event_with_usage_and_cost(home: Path) -> None:
    with provider(home, Turn("Hello.")) as server:
        attempt = Attempt(home)
        with attempt.agent() as process:
            output, errors = process.communicate(timeout=PATIENCE_SECONDS)
        assert output.splitlines()[-1] == "ended", errors
        ((exchange,),) = (conversation.exchanges for conversation in server.of("m"))
        assert exchange.key == KEY and exchange.reply
        usage = exchange.reply.usage
        (call,) = attempt.of("model_call")
        assert (call["usage"]["input_tokens"], call["usage"]["output_tokens"]) == (
            usage.input,
            usage.output,
        )
        assert call["cost_usd"] == pytest.approx((usage.input + 2 * usage.output) / 1e6)
        assert attempt.failures == []
        assert KEY not in json.dumps(attempt.events)
        recording = home / "traffic/r-1.jsonl"
        assert KEY not in recording.read_text() and "message_stop" in recording.read_text()


def test_call_under_way_is_an_event_that_its_end_replaces(home: Path) -> None:
    with provider(home, Turn("A text of several pieces. " * 20, seconds=60)):
        attempt = Attempt(home)
        with attempt.agent():
            until(lambda: bool(attempt.of("model_progress")), "progress")
    (*under_way, (kind, body, event)) = [each for each in attempt.events if each[2]]
    assert {each[0] for each in under_way} == {"model_progress"} and kind == "model_call"
    assert {each[2] for each in under_way} == {event}
    assert body["estimated"] and attempt.of("model_call") == [body]


def test_a_gateway_killed_in_mid_stream_is_the_arenas_fault(home: Path) -> None:
    with provider(home, Turn("A text of several pieces. " * 20, seconds=60)):
        attempt = Attempt(home)
        with attempt.agent() as process:
            assert process.stdout
            while "content_block_delta" not in process.stdout.readline():
                pass
            innermost = processes_of_gateway()[-1]
            os.kill(innermost.pid, signal.SIGKILL)
            assert attempt.failed.wait(PATIENCE_SECONDS)
            rest, _ = process.communicate(timeout=PATIENCE_SECONDS)
            assert rest.splitlines()[-1] == "cut"
        (failure,) = attempt.failures
        assert failure.fault == Fault.ARENA and "model gateway ended" in failure.text
        assert processes_of_gateway() == []


def test_time_of_waiting_for_the_provider_is_not_the_runs(home: Path) -> None:
    with provider(home, Turn("Hi.", faults=(Failing("status", status=529, retry_after=1.5),))):
        attempt = Attempt(home)
        before = attempt.clock.deadline()
        with attempt.agent() as process:
            output, errors = process.communicate(timeout=PATIENCE_SECONDS)
        assert output.splitlines()[0] == "status 200", errors
        assert attempt.clock.deadline() - before > 1.0
        (log,) = attempt.of("log")
        assert log["stream"] == "provider" and "HTTP 529" in log["text"]
        assert attempt.of("model_call")[0]["retries"] == 1


def test_a_gateway_killed_while_the_clock_stands_lets_it_go_on(home: Path) -> None:
    overload = Failing("status", status=529, retry_after=60, times=math.inf)
    with provider(home, Turn("Hi.", faults=(overload,))):
        attempt = Attempt(home)
        with attempt.agent() as process:
            until(lambda: attempt.clock.deadline() == math.inf, "the stop of the clock")
            os.kill(processes_of_gateway()[-1].pid, signal.SIGKILL)
            assert attempt.failed.wait(PATIENCE_SECONDS)
            process.communicate(timeout=PATIENCE_SECONDS)
        assert attempt.clock.deadline() < math.inf


def test_a_spent_budget_of_calls_is_a_limit_event_once(home: Path) -> None:
    with provider(home, Turn("Hi.")) as server:
        attempt = Attempt(home, turns=2)
        with attempt.agent(times=4) as process:
            output, errors = process.communicate(timeout=PATIENCE_SECONDS)
        statuses = [line for line in output.splitlines() if line.startswith("status")]
        assert statuses == ["status 200"] * 2 + ["status 429"] * 2, errors
        assert attempt.spent.is_set() and server.requests == 2
        (limit,) = attempt.of("limit")
        assert (limit["name"], limit["limit"], limit["used"]) == ("turns", 2, 2)


def test_bad_answers_in_a_row_are_the_providers_fault(home: Path) -> None:
    with provider(home, Turn("Hi.", faults=(Failing("garbage", times=math.inf),))):
        attempt = Attempt(home)
        with attempt.agent(times=3) as process:
            process.communicate(timeout=PATIENCE_SECONDS)
            assert attempt.failed.wait(PATIENCE_SECONDS)
        (failure,) = attempt.failures
        assert failure.fault == Fault.PROVIDER and "not what its format says" in failure.text


def test_another_model_is_refused_and_named_in_the_trace(home: Path) -> None:
    with provider(home, Turn("Hi.")) as server:
        attempt = Attempt(home, model="another")
        with attempt.agent() as process:
            output, errors = process.communicate(timeout=PATIENCE_SECONDS)
        assert output.splitlines()[0] == "status 403", errors
        assert server.requests == 0 and attempt.of("model_call") == []
        (log,) = attempt.of("log")
        assert "'m'" in log["text"] and "'another' only" in log["text"]


def test_requested_model_is_part_of_a_calls_event(home: Path) -> None:
    with provider(home, Turn("Hi.")):
        attempt = Attempt(home, model="m[1m]")  # a suffix that Claude Code does not send
        with attempt.agent() as process:
            process.communicate(timeout=PATIENCE_SECONDS)
        (call,) = attempt.of("model_call")
        assert call["requested_model"] == "m"


def test_a_missing_key_or_an_unknown_provider_names_what_to_do(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NoModel, match="no provider 'test'"):
        Attempt(home)
    with provider(home, Turn("Hi.")):
        monkeypatch.delenv("TEST_KEY")
        with pytest.raises(NoModel, match="TEST_KEY is not set"):
            Attempt(home)


@pytest.mark.parametrize(
    ("failing", "fault", "text"),
    [
        (Failing("garbage"), Fault.PROVIDER, "The agent gave up: test: the answer "),
        (Failing("status", status=400), Fault.USER, "test refused the last request"),
        (
            Failing("status", status=400, message="prompt is too long: 9 tokens > 8 maximum"),
            Fault.CANDIDATE,
            "test: the request is longer than the context of the model",
        ),
        (
            Failing("status", status=500, message="Failed to parse tool call arguments as JSON"),
            Fault.CANDIDATE,
            "test: the server cannot read a tool call of the model",
        ),
    ],
)
def test_last_failure_of_a_call_says_whose_fault_it_is(
    home: Path, failing: Failing, fault: Fault, text: str
) -> None:
    with provider(home, Turn("Hi.", faults=(failing,))):
        attempt = Attempt(home)
        with attempt.agent() as process:
            process.communicate(timeout=PATIENCE_SECONDS)
        assert attempt.failures == []
        last = attempt.gateway.last_failure
        assert last and last.fault == fault and last.text.startswith(text)


def test_answer_after_a_failure_leaves_no_last_failure(home: Path) -> None:
    with provider(home, Turn("Hi.", faults=(Failing("garbage"),))):
        attempt = Attempt(home)
        with attempt.agent(times=2) as process:
            process.communicate(timeout=PATIENCE_SECONDS)
        assert len(attempt.of("model_call")) == 2 and attempt.gateway.last_failure is None


def broken_run(pk: str, before: Any = None) -> Any:
    return SimpleNamespace(pk=pk, continues=before)


@pytest.mark.parametrize(
    ("events", "replayed"), [(2, [True, True, False]), (1, [True, False, False])]
)
def test_continued_run_replays_the_recording_and_a_chain_loses_nothing(
    events: int, replayed: list[bool], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run in between broke before it had replayed anything.

    Where a kill lost the event of the second call, the cost of its answer counts here.
    """
    of_runs = {(): 0, ("r-between", "r-0"): events}
    monkeypatch.setattr(model_gateway, "count_kept_calls", lambda ids: of_runs[tuple(ids)])
    with provider(home, Turn(text="Yes.")) as server:
        first = Attempt(home)
        with first.agent(times=2) as agent:
            agent.communicate(timeout=60)
        recording = traffic_file("r-1")
        whole = recording.read_bytes()
        recording.rename(traffic_file("r-0"))
        traffic_file("r-0").write_bytes(whole + b'{"method": "cut')
        shutil.rmtree(home / "package")
        shutil.rmtree(home / "workspace")
        chain = broken_run("r-between", broken_run("r-0"))
        second = Attempt(home, continues=chain)
        assert recording.read_bytes() == whole and recording.stat().st_mode & 0o777 == 0o600
        with second.agent(times=3) as agent:
            agent.communicate(timeout=60)
        assert server.requests == 3
    calls = second.of("model_call")
    assert [call["replayed"] for call in calls] == replayed
    assert [call["cost_usd"] > 0 for call in calls] == [not call for call in replayed]
    assert len(recording.read_bytes().splitlines()) == 3


def test_call_in_flight_at_the_end_is_reported_with_its_upper_bound(home: Path) -> None:
    """An agent that is ended while its model writes, as at the end of its time."""
    with provider(home, Turn("A text of several pieces. " * 20, seconds=600)) as server:
        attempt = Attempt(home)
        with attempt.agent() as process:
            assert process.stdout
            while "content_block_delta" not in process.stdout.readline():
                pass
            process.kill()
        assert server.requests == 1 and processes_of_gateway() == []
    (call,) = attempt.of("model_call")
    assert call["estimated"] and call["usage"]["output_tokens"] > 0 and call["cost_usd"] > 0
    assert attempt.failures == []


@pytest.mark.django_db(transaction=True)
def test_run_continued_on_another_machine_pays_for_no_answer_again(
    home: Path, settings: Any, start: Callable[..., Run], tmp_path: Path
) -> None:
    before, run = start(), start(repeat=1)
    with provider(home, Turn(text="Yes.")) as server:
        first = Attempt(home, shared=SharedTraffic(before.pk))
        with first.agent(times=2) as agent:
            agent.communicate(timeout=60)
        drafts = [EventDraft("model_call", body) for body in first.of("model_call")]
        record(before.pk, drafts, producer="worker")
        other = tmp_path / "other machine"
        other.mkdir()
        shutil.copy(home / "providers.toml", other)
        settings.ARENA_HOME = other
        second = Attempt(other, continues=broken_run(before.pk), shared=SharedTraffic(run.pk))
        with second.agent(times=2) as agent:
            agent.communicate(timeout=60)
        assert server.requests == 2
    assert [call["replayed"] for call in second.of("model_call")] == [True, True]
    assert recording([run.pk]) == recording([before.pk]) != b""
