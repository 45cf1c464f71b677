"""The scripted model server, driven by the official clients and over plain HTTP."""

from __future__ import annotations

import gc
import http.client
import json
import math
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.model_server import Fault, ModelServer, Script, Turn
from tests.model_server.kernels import SOURCES, by_prompt, honest, optimisation, wrong
from tests.waiting import PATIENCE_SECONDS, until

if TYPE_CHECKING:  # their imports take seconds, which every worker would spend
    import anthropic

SCHEMA = {
    "type": "object",
    "properties": {"command": {"type": "string"}, "background": {"type": "boolean"}},
    "required": ["command", "background"],
}
TWO_TURNS = Script((Turn("I begin.", ("echo one", "echo two"), reasoning="Two."), Turn("It ends.")))
ARGUMENTS = [{"command": f"echo {word}", "background": False} for word in ("one", "two")]


@pytest.fixture
def server() -> Iterator[ModelServer]:
    flaky = (Fault("status", status=429, retry_after=0.01), Fault("status", status=529))
    scripts = {
        "two": TWO_TURNS,
        "flaky": Script((Turn("Late.", faults=flaky),)),
        "cut": Script((Turn("A text of more than a piece.", faults=(Fault("cut"),)),)),
        "garbage": Script((Turn("x", faults=(Fault("garbage", times=math.inf),)),)),
        "silent": Script((Turn("x", faults=(Fault("silence", seconds=0.1),)),)),
    }
    with ModelServer(scripts, key="k") as found:
        yield found


def connected(server: ModelServer) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=PATIENCE_SECONDS)


def post(server: ModelServer, path: str, body: Any, key: str = "k") -> tuple[int, Any, bytes]:
    connection = http.client.HTTPConnection(
        server.url.removeprefix("http://"), timeout=PATIENCE_SECONDS
    )
    connection.request("POST", path, json.dumps(body), {"x-api-key": key})
    answer = connection.getresponse()
    return answer.status, answer.headers, answer.read()


def message(model: str, **more: Any) -> dict[str, Any]:
    tool = {"name": "Bash", "input_schema": SCHEMA}
    return {
        "model": model,
        "messages": [{"role": "user", "content": "go"}],
        "tools": [tool],
        **more,
    }


def assert_recorded(server: ModelServer, tool: str) -> None:
    (conversation,) = server.of("two")
    assert [call.command for call in conversation.calls] == ["echo one", "echo two"]
    assert {call.tool for call in conversation.calls} == {tool}
    assert [conversation.output(call) for call in conversation.calls] == ["one", "two"]
    assert [exchange.turn for exchange in conversation.exchanges] == [0, 1]
    first, second = (exchange.reply for exchange in conversation.exchanges)
    assert first and second and (first.usage.cached, second.usage.cached > 0) == (0, True)


@pytest.mark.parametrize("streamed", [False, True])
def test_messages_client_gets_turns_and_returns_results(
    server: ModelServer, streamed: bool
) -> None:
    import anthropic

    client = anthropic.Anthropic(base_url=server.url, api_key="k")
    asked: dict[str, Any] = {**message("two"), "max_tokens": 1000}

    def ask() -> anthropic.types.Message:
        if not streamed:
            return client.messages.create(**asked)
        with client.messages.stream(**asked) as stream:
            return stream.get_final_message()

    answer = ask()
    assert [block.type for block in answer.content] == ["thinking", "text", "tool_use", "tool_use"]
    calls = answer.content[2:]
    assert [call.input for call in calls] == ARGUMENTS
    assert (answer.stop_reason, answer.model) == ("tool_use", "two")
    results = [
        {"type": "tool_result", "tool_use_id": call.id, "content": text}
        for call, text in zip(calls, ("one", "two"), strict=True)
    ]
    asked["messages"] += [
        {"role": "assistant", "content": [block.to_dict() for block in answer.content]},
        {"role": "user", "content": results},
    ]
    last = ask()
    assert (last.content[0].text, last.stop_reason) == ("It ends.", "end_turn")
    assert last.usage.cache_read_input_tokens > 0 and last.usage.output_tokens == 2
    assert_recorded(server, "Bash")


@pytest.mark.parametrize("streamed", [False, True])
def test_responses_client_gets_turns_and_returns_results(
    server: ModelServer, streamed: bool
) -> None:
    import openai

    client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="k")
    tool = {"type": "function", "name": "shell", "parameters": SCHEMA, "strict": None}
    asked: list[Any] = [{"role": "user", "content": "go"}]

    def ask() -> Any:
        if not streamed:
            return client.responses.create(model="two", input=asked, tools=[tool])
        with client.responses.stream(model="two", input=asked, tools=[tool]) as stream:
            return stream.get_final_response()

    answer = ask()
    assert [item.type for item in answer.output] == ["reasoning", "message", *["function_call"] * 2]
    calls = answer.output[2:]
    assert [json.loads(call.arguments) for call in calls] == ARGUMENTS
    asked += [item.to_dict() for item in answer.output]
    asked += [
        {"type": "function_call_output", "call_id": call.call_id, "output": text}
        for call, text in zip(calls, ("one", "two"), strict=True)
    ]
    last = ask()
    assert (last.output_text, last.status) == ("It ends.", "completed")
    assert last.usage.input_tokens_details.cached_tokens > 0
    assert_recorded(server, "shell")


@pytest.mark.parametrize("streamed", [False, True])
def test_chat_client_gets_turns_and_returns_results(server: ModelServer, streamed: bool) -> None:
    import openai

    client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="k")
    tool = {"type": "function", "function": {"name": "run_shell_command", "parameters": SCHEMA}}
    asked: dict[str, Any] = {"model": "two", "tools": [tool]}
    asked["messages"] = [{"role": "user", "content": "go"}]

    def ask() -> Any:
        if not streamed:
            return client.chat.completions.create(**asked)
        options = {"include_usage": True}
        with client.chat.completions.stream(**asked, stream_options=options) as stream:
            return stream.get_final_completion()

    answer = ask()
    (choice,) = answer.choices
    assert (choice.message.content, choice.finish_reason) == ("I begin.", "tool_calls")
    calls = choice.message.tool_calls
    assert [json.loads(call.function.arguments) for call in calls] == ARGUMENTS
    asked["messages"].append(choice.message.to_dict())
    asked["messages"] += [
        {"role": "tool", "tool_call_id": call.id, "content": text}
        for call, text in zip(calls, ("one", "two"), strict=True)
    ]
    last = ask()
    assert last.choices[0].message.content == "It ends."
    assert last.usage.prompt_tokens_details.cached_tokens > 0
    assert answer.usage.completion_tokens_details.reasoning_tokens == 1
    assert_recorded(server, "run_shell_command")


@pytest.mark.parametrize("method", ["generateContent", "streamGenerateContent"])
def test_generate_content_gives_turns_and_takes_results(server: ModelServer, method: str) -> None:
    path = f"/v1beta/models/two:{method}?alt=sse"
    declared = {"name": "run_shell_command", "parametersJsonSchema": SCHEMA}
    contents: list[Any] = [{"role": "user", "parts": [{"text": "go"}]}]

    def ask() -> tuple[list[Any], Any]:
        asked = {"contents": contents, "tools": [{"functionDeclarations": [declared]}]}
        status, _, body = post(server, path, asked)
        assert status == 200
        texts = [line[6:] for line in body.splitlines() if line[:6] == b"data: "] or [body]
        chunks = [json.loads(each) for each in texts]
        parts = [part for each in chunks for part in each["candidates"][0]["content"]["parts"]]
        return parts, chunks[-1]

    parts, last = ask()
    called = [part for part in parts if "functionCall" in part]
    assert [part["functionCall"]["args"] for part in called] == ARGUMENTS
    assert last["candidates"][0]["finishReason"] == "STOP"
    assert last["usageMetadata"]["thoughtsTokenCount"] == 1
    for part in called:
        del part["functionCall"]["id"]  # a client may drop it
    results = [
        {"functionResponse": {"name": "run_shell_command", "response": {"output": text}}}
        for text in ("one", "two")
    ]
    contents += [{"role": "model", "parts": called}, {"role": "user", "parts": results}]
    parts, last = ask()
    assert "".join(part["text"] for part in parts) == "It ends."
    assert_recorded(server, "run_shell_command")


def test_conversations_with_one_model_are_kept_apart(server: ModelServer) -> None:
    bodies = [json.loads(post(server, "/v1/messages", message("two"))[2]) for _ in range(2)]
    for body, word in zip(bodies, ("left", "right"), strict=True):
        call = body["content"][2]
        result = {"type": "tool_result", "tool_use_id": call["id"], "content": word}
        asked = message("two")
        asked["messages"] += [
            {"role": "assistant", "content": body["content"]},
            {"role": "user", "content": [result]},
        ]
        assert json.loads(post(server, "/v1/messages", asked)[2])["stop_reason"] == "end_turn"
    assert [[*each.results.values()] for each in server.of("two")] == [["left"], ["right"]]


def test_a_request_without_a_shell_is_answered_beside_the_script(server: ModelServer) -> None:
    for model in ("two", "claude-haiku-4-5"):
        status, _, body = post(server, "/v1/messages", message(model, tools=[]))
        assert (status, json.loads(body)["content"][0]["text"]) == (200, "Kernel")
    assert (server.of("two"), len(server.side_requests)) == ([], 2)


def test_a_running_command_is_polled_until_it_ends(server: ModelServer) -> None:
    tools = [
        {"type": "function", "name": "exec_command", "parameters": SCHEMA},
        {"type": "function", "name": "write_stdin", "parameters": {}},
    ]
    asked: list[Any] = [{"role": "user", "content": "go"}]

    def ask(*outputs: str) -> list[Any]:
        body = {"model": "two", "input": asked, "tools": tools}
        items = json.loads(post(server, "/v1/responses", body)[2])["output"]
        found = [item for item in items if item["type"] == "function_call"]
        asked.extend(items)
        asked.extend(
            {"type": "function_call_output", "call_id": call["call_id"], "output": output}
            for call, output in zip(found, outputs, strict=False)
        )
        return found

    ask("Process running with session ID 7\nwarming up", "two")
    for output in ("Process running with session ID 7\nstill", "one"):
        (poll,) = ask(output)
        assert (poll["name"], json.loads(poll["arguments"])["session_id"]) == ("write_stdin", 7)
    assert ask() == []
    (conversation,) = server.of("two")
    first, second = conversation.calls
    assert conversation.output(first).endswith("still\none")
    assert conversation.output(second) == "two"


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/v1/messages", "not_found_error"), ("/v1/responses", "model_not_found")],
)
def test_an_unknown_model_or_a_wrong_key_is_refused(
    server: ModelServer, path: str, kind: str
) -> None:
    body = {**message("unknown"), "input": "go"}
    body["tools"] = []
    status, _, text = post(server, path, body)
    assert status == 404 and kind in text.decode()
    assert post(server, path, body, key="another")[0] == 401


def test_statuses_come_first_and_then_the_answer(server: ModelServer) -> None:
    found = [post(server, "/v1/messages", message("flaky")) for _ in range(3)]
    assert [status for status, _, _ in found] == [429, 529, 200]
    assert found[0][1]["retry-after"] == "0.01"
    kinds = [json.loads(body).get("error", {}).get("type") for _, _, body in found]
    assert kinds == ["rate_limit_error", "overloaded_error", None]


def test_a_cut_stream_ends_early(server: ModelServer) -> None:
    with pytest.raises(http.client.IncompleteRead) as raised:
        post(server, "/v1/messages", message("cut", stream=True))
    assert b"message_start" in raised.value.partial
    assert b"message_stop" not in raised.value.partial
    assert b"message_stop" in post(server, "/v1/messages", message("cut", stream=True))[2]


def test_garbage_is_no_json_and_silence_ends_without_an_answer(server: ModelServer) -> None:
    for stream in (False, True):
        status, _, body = post(server, "/v1/messages", message("garbage", stream=stream))
        assert status == 200
        with pytest.raises(ValueError, match="Expecting"):
            json.loads(body.removeprefix(b"data: "))
    with pytest.raises((http.client.RemoteDisconnected, ConnectionResetError)):
        post(server, "/v1/messages", message("silent"))


def test_request_without_an_answer_leaves_no_task_behind(
    caplog: pytest.LogCaptureFixture,
) -> None:
    silent = Script((Turn("x", faults=(Fault("silence", seconds=60),)),))
    with ModelServer({"silent": silent}) as server:
        connection = http.client.HTTPConnection(
            server.url.removeprefix("http://"), timeout=PATIENCE_SECONDS
        )
        connection.request("POST", "/v1/messages", json.dumps(message("silent")))
        until(lambda: server.requests, "the request")
        connection.close()
    gc.collect()
    assert [each.getMessage() for each in caplog.records if each.name == "asyncio"] == []


def test_models_are_listed_and_tokens_counted(server: ModelServer) -> None:
    import anthropic

    client = anthropic.Anthropic(base_url=server.url, api_key="k")
    assert "two" in [model.id for model in client.models.list()]
    counted = client.messages.count_tokens(model="two", messages=[{"role": "user", "content": "x"}])
    assert counted.input_tokens > 0


@pytest.mark.parametrize("task", SOURCES)
def test_an_optimisation_writes_a_wrong_a_plain_and_a_fast_kernel(task: str) -> None:
    commands = [turn.commands for turn in optimisation(task).turns]
    assert [len(each) for each in commands] == [1, 1, 1, 1, 0]
    sources = SOURCES[task]
    expected = (wrong(task), honest(task, sources.plain), honest(task, sources.fast))
    for (command,), source in zip(commands[1:4], expected, strict=True):
        assert source in command and "./arena-check" in command
    assert by_prompt(f"Edit {task}.cpp, then run") == optimisation(task)


def test_the_process_serves_the_ready_scripts() -> None:
    import openai

    command = [sys.executable, "-m", "tests.model_server"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        line = process.stdout.readline()
        try:
            found = re.match(r"(http://127\.0\.0\.1:\d+): scripted, ", line)
            assert found
            models = openai.OpenAI(base_url=f"{found[1]}/v1", api_key="any").models.list()
            assert {"scripted", "fault-429", "fault-silence"} <= {model.id for model in models}
        finally:
            process.terminate()
        assert process.wait(PATIENCE_SECONDS) in (0, -15)
