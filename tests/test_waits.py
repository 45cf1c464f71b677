"""No test waits for time: it waits for an event, a state or a file, with a generous deadline."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.test_house import ROOT, tracked

CLOCKS = set("monotonic perf_counter process_time thread_time".split())
WAITS = {
    *CLOCKS,
    *(f"{name}_ns" for name in CLOCKS),
    "sleep",
    "wait_for_timeout",
    "receive_nothing",
}
MIN_DEADLINE_SECONDS = 30
DEADLINES = {
    "communicate",
    "join",
    "receive_json_from",
    "receive_output",
    "recv",
    "wait",
    "wait_for",
}
MARKED_SERIAL = re.compile(r"pytestmark = .*mark\.serial")
REASON = "# waits: "
OUTSIDE = ("tests/gpu/", "tests/evaluation/hostile/", "tests/evaluation/kinds/module/candidates/")
"""What is judged, and what measures a GPU."""
HELPERS = ("tests/waiting.py", "tests/leftovers.py", "tests/test_waits.py")


def timed_lines(tree: ast.Module) -> Iterator[range]:
    """Yield the lines of the timing lane: of tests, or of a whole file, that are marked serial."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if "pytest.mark.serial" in map(ast.unparse, node.decorator_list):
                yield range(node.lineno, (node.end_lineno or 0) + 1)
        elif isinstance(node, ast.Assign) and MARKED_SERIAL.match(ast.unparse(node)):
            yield range(10**6)


def waits(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each use of a clock, each pause, and each short deadline."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        name = called.rpartition(".")[2]
        zero = [ast.unparse(each) for each in node.args] == ["0"]  # a turn of an event loop
        if called in ("time.time", "time.time_ns") or (name in WAITS and not zero):
            yield node.lineno, called
        elif name in DEADLINES and any(seconds < MIN_DEADLINE_SECONDS for seconds in limits(node)):
            yield node.lineno, f"a deadline of {called}"


def limits(call: ast.Call) -> Iterator[float]:
    """Yield the seconds that a call names, as a number."""
    named = [each.value for each in call.keywords if each.arg == "timeout"]
    for value in (*call.args, *named):
        if isinstance(value, ast.Constant) and type(value.value) in (int, float):
            yield value.value


def unexplained(path: str, source: str) -> list[str]:
    """Return the waits that no reason explains, outside the timing lane."""
    lines, timed = source.splitlines(), list(timed_lines(ast.parse(source)))
    return [
        f"{path}:{number} {text}"
        for number, text in sorted(waits(source))
        if REASON not in lines[number - 1] and not any(number in part for part in timed)
    ]


def test_pause_or_duration_in_a_test_has_a_reason() -> None:
    found = []
    for file in tracked("tests/*.py"):
        path, source = str(file.relative_to(ROOT)), file.read_text()
        if not path.startswith((*OUTSIDE, *HELPERS)):
            found += unexplained(path, source)
    assert found == [], "wait for a state (tests/waiting.py), or give a reason: # waits: ..."


@pytest.mark.parametrize(
    "line",
    [
        "time.sleep(0.1)",
        "await asyncio.sleep(pause)",
        "assert time.monotonic() - began < 2",
        "took = perf_counter() - began",
        "page.wait_for_timeout(500)",
        "thread.join(5)",
        "await asyncio.wait_for(event.wait(), 1.5)",
        "process.communicate(timeout=10)",
    ],
)
def test_each_kind_of_wait_is_found_unless_it_has_a_reason(line: str) -> None:
    source = f"async def test():\n    {line}"
    assert len(unexplained("x", source)) == 1
    assert unexplained("x", f"{source}  # waits: a reason") == []


@pytest.mark.parametrize(
    "line",
    [
        "await asyncio.sleep(0)",
        "thread.join()",
        "process.wait(60)",
        "until(done, 'x')",
        "','.join(x)",
    ],
)
def test_waits_for_a_state_need_no_reason(line: str) -> None:
    assert unexplained("x", f"async def test():\n    {line}") == []


@pytest.mark.parametrize("before", ["pytestmark = [pytest.mark.serial]\n", "@pytest.mark.serial\n"])
def test_timing_lane_is_left_out(before: str) -> None:
    assert unexplained("x", f"{before}def test():\n    time.sleep(1)") == []
