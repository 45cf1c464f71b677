"""Execution of a harness's program: its output, its files, and how it ends."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from runners.session.harness import (
    HarnessFailed,
    Translator,
    mcp_server,
    prompt,
    run_harness,
)
from runners.session.session import AgentSession, TaskBrief


class Shouts(Translator):
    """Records a text in upper case."""

    def __call__(self, record: Mapping[str, Any]) -> bool:
        if "text" not in record:
            return False
        self._session.message(record["text"].upper())
        return True


class Bench:
    """A session, and what a program in it wrote."""

    def __init__(self, folder: Path) -> None:
        self._out = io.StringIO()
        self.session = AgentSession(folder, TaskBrief("k/t", "k.cpp", 3, 60), self._out)

    def run(self, program: str, failure: str = "", **more: Any) -> None:
        translate = Shouts(self.session)
        translate.failure = failure
        run_harness(self.session, [sys.executable, "-c", program], translate, **more)

    def of(self, kind: str) -> list[dict[str, Any]]:
        lines = map(json.loads, self._out.getvalue().splitlines())
        return [each.get("body", each) for each in lines if each["kind"] == kind]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_lines_are_kept_translated_or_logged(bench: Bench) -> None:
    bench.run("""print('{"text": "a"}'); print("plain"); print('{"b": 1}'); print('{"text": 3}')""")
    assert [raw["text"] for raw in bench.of("raw")] == [
        '{"text": "a"}', "plain", '{"b": 1}', '{"text": 3}',
    ]  # fmt: skip
    assert [message["text"] for message in bench.of("message")] == ["A"]
    logs = [log["text"] for log in bench.of("log")]
    assert logs[0] == "plain" and logs[1] == '{"b": 1}\n(unknown record)'
    assert logs[2].startswith('{"text": 3}\n(not understood: AttributeError')


def test_changes_of_files_and_stderr_are_events(bench: Bench) -> None:
    bench.run("import sys; open('k.cpp', 'w').write('int f();\\n'); print('oh', file=sys.stderr)")
    (edit,) = bench.of("file_edit")
    assert (edit["path"], edit["operation"]) == ("k.cpp", "create")
    (log,) = bench.of("log")
    assert (log["text"], log["level"], log["stream"]) == ("oh", "warning", "stderr")


def test_environment_reaches_the_program(bench: Bench) -> None:
    bench.run("import os; print('{\"text\": \"' + os.environ['NAME'] + '\"}')", env={"NAME": "n"})
    assert [message["text"] for message in bench.of("message")] == ["N"]


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("import sys; sys.exit('no model')", r"ended with status 1: no model"),
        ("import sys; sys.exit(3)", r"ended with status 3: it printed no reason"),
        ("import os; os.kill(os.getpid(), 9)", r"was ended by SIGKILL"),
    ],
)
def test_program_that_fails_is_an_error_with_its_last_words(
    bench: Bench, program: str, message: str
) -> None:
    with pytest.raises(HarnessFailed, match=message):
        bench.run(program)


def test_failure_in_the_output_counts_whatever_the_exit_code(bench: Bench) -> None:
    with pytest.raises(HarnessFailed, match="gave up: no credit left"):
        bench.run("pass", failure="no credit\nleft")


@pytest.mark.parametrize(("code", "fails"), [(53, False), (54, True)])
def test_exit_code_of_a_limit_is_no_failure(bench: Bench, code: int, fails: bool) -> None:
    expected = pytest.raises(HarnessFailed, match="status 54") if fails else nullcontext()
    with expected:
        bench.run(f"raise SystemExit({code})", limit_code=53)


def test_prompt_names_the_target_the_rounds_and_the_extra_text(bench: Bench) -> None:
    text = prompt(bench.session, "Think first.")
    assert "Edit k.cpp" in text and "3 rounds" in text and text.endswith("\n\nThink first.")


def test_prompt_of_a_repository_names_no_single_file(tmp_path: Path) -> None:
    brief = TaskBrief("answer/repository", "kernel.sh", 3, 60, "the editable files")
    text = prompt(AgentSession(tmp_path, brief, io.StringIO()))
    assert "Edit the editable files, then" in text and "kernel.sh" not in text


def test_server_of_tools_is_that_of_the_workspace(bench: Bench) -> None:
    with pytest.raises(HarnessFailed, match="arena-mcp is not in the workspace"):
        mcp_server(bench.session)
    (bench.session.folder / "arena-mcp").touch()
    server = mcp_server(bench.session)
    assert (server.name, server.command) == ("arena", str(bench.session.folder / "arena-mcp"))
