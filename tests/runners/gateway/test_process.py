"""The gateway's process beside a sandbox whose loopback network it answers on."""

from __future__ import annotations

import http.server
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evaluation.sandbox import launch, loopback
from evaluation.sandbox.features import isolation_features
from evaluation.sandbox.policy import Policy

ROOT = Path(__file__).parents[3]
ANSWER = {"model": "m-1", "stop_reason": "end_turn", "usage": {"input_tokens": 3}}
AGENT = f"""
import json, os, socket, urllib.request
request = urllib.request.Request("http://{loopback.HOST}:{loopback.PORT}/v1/messages",
    json.dumps({{"model": "m-1"}}).encode(), {{"x-api-key": "run-token"}})
print(urllib.request.urlopen(request, timeout=60).read().decode())
for address in [("203.0.113.7", 443), ("127.0.0.1", UPSTREAM)]:
    try:
        socket.create_connection(address, 5)
        print("reached", address)
    except OSError as error:
        print(type(error).__name__)
try:
    socket.getaddrinfo("example.com", 443)
except OSError as error:
    print(type(error).__name__)
found = [path for path in os.listdir("/proc") if path.isdigit()
    and ("sk-" + "real").encode() in open(f"/proc/{{path}}/cmdline", "rb").read()]
print("sk-" + "real" in str(os.environ), found)
"""


class Provider(http.server.BaseHTTPRequestHandler):
    keys: list[str] = []

    def do_POST(self) -> None:
        self.keys.append(self.headers["x-api-key"])
        body = json.dumps(ANSWER).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        """Stay silent."""


@pytest.fixture
def upstream() -> Iterator[int]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Provider) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


def test_an_agent_reaches_the_gateway_and_nothing_else(upstream: int, tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    provider = {"name": "test", "wires": ["messages"], "key_variable": "K"}
    provider["base_url"] = f"http://127.0.0.1:{upstream}/v1"
    configuration = {
        "provider": provider,
        "key": "sk-real",
        "settings": {"token": "run-token", "model": "m-1"},
        "record": "",
        "replay": "",
    }
    gateway = subprocess.Popen(
        [sys.executable, "-m", "runners.gateway", str(ours.fileno())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=(ours.fileno(),),
        cwd=ROOT,
        text=True,
    )
    assert gateway.stdin and gateway.stdout
    gateway.stdin.write(json.dumps(configuration))
    gateway.stdin.close()
    policy = Policy(
        features=isolation_features(),
        readable=(sys.prefix, sys.base_prefix, sys.executable),
        writable=(str(tmp_path),),
        unix_sockets=True,
        minimal_root=True,
        loopback_control=theirs.fileno(),
    )
    program = AGENT.replace("UPSTREAM", str(upstream))
    agent = subprocess.run(
        launch.command([sys.executable, "-I", "-c", program], policy),
        pass_fds=(theirs.fileno(),),
        cwd=tmp_path,
        env={},
        capture_output=True,
        text=True,
        timeout=120,
    )
    gateway.terminate()
    reports = [json.loads(line) for line in gateway.stdout.read().splitlines()]
    gateway.wait(60)
    ours.close()
    theirs.close()
    lines = agent.stdout.splitlines()
    assert json.loads(lines[0]) == ANSWER, agent.stderr
    assert lines[1:] == ["ConnectionRefusedError", "ConnectionRefusedError", "gaierror", "False []"]
    assert Provider.keys == ["sk-real"]
    refused = [report for report in reports if report["kind"] == "refused"]
    assert {(each["address"], each["port"]) for each in refused[:2]} == {
        ("203.0.113.7", 443),
        ("127.0.0.1", upstream),
    }
    assert "example.com" in {each["host"] for each in refused}
    (call,) = (report for report in reports if report["kind"] == "model_call")
    assert call["usage"]["input_tokens"] == 3
