"""Pipeline: gates in order, stages, scopes, reasons of failure and failures of the judge."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from evaluation.bench.devices import detect
from evaluation.bench.process import handle
from evaluation.bench.process.fork_server import ForkServer
from evaluation.code.languages.cpp import Cpp
from evaluation.errors import Broken, BuildError
from evaluation.judge import pipeline, report_text
from evaluation.judge.request import Request
from evaluation.kinds.kernel import judge as kernel_judge
from evaluation.kinds.kernel.builds import Build, baselines, build
from evaluation.kinds.kernel.gates import gates, generalization
from evaluation.kinds.kernel.judge import evaluate
from evaluation.kinds.kernel.load import load_task
from evaluation.kinds.kernel.session import MeasurementSession
from evaluation.sandbox import procfs
from evaluation.sandbox.policy import IsolationFeatures
from evaluation.tasks.operator import Track
from evaluation.tasks.spec import Task
from evaluation.types import DURATION, GateName, GateResult, Reason, Verdict, to_json
from tests.evaluation.conftest import OPERATORS, judged

pytestmark = pytest.mark.usefixtures("in_a_hurry", "shared_fork_server")

HEAD = '#include "scaled.h"\nextern "C" int scaled(const scaled_args* args) {\n'


def body(code: str) -> str:
    """Return a C++ submission with this body."""
    return f"{HEAD}    const int64_t n = args->rows * args->cols;\n    {code}\n    return 0;\n}}\n"


RIGHT = "args->out[i] = args->x[i] * args->weight[i % args->cols] + args->shift;"
HONEST = body(f"for (int64_t i = 0; i < n; ++i) {RIGHT}")


def test_honest_submission_passes_every_gate(task: Task, cache: Path) -> None:
    results: list[GateResult] = []
    request = Request(task, {task.target_file: HONEST}, cache)
    report = evaluate(request, results.append)
    assert report.verdict is Verdict.PASSED, report.message
    assert [result.gate for result in results] == [gate.NAME for gate in gates()]
    assert report.gates == tuple(results)
    assert report.seen is not None and report.unseen is not None
    assert report.seen.low <= report.seen.speedup <= report.seen.high
    assert report.aka_score > 120
    assert report.fingerprint["task"] == task.hash
    measured = report.gates[3].measurements
    assert [m.case for m in measured] == ["small", "medium"]
    for m in measured:
        assert 0 < m.roofline_share < 1.25
        assert m.gbps == pytest.approx(_bytes(m) / m.candidate_us / 1e3)
        assert m.captured is None, "a CPU has no graphs"


def _bytes(measurement: object) -> float:
    symbols = measurement.symbols  # type: ignore[attr-defined]
    return float((2 * symbols["rows"] * symbols["cols"] + symbols["cols"]) * 4)


@pytest.mark.slow
def test_honest_submission_is_timed_against_pytorch(cache: Path, in_a_hurry: None) -> None:
    task = load_task(OPERATORS, "scaled", "torch-to-cpp")
    more = {"memory_mb": 8192, "seconds": 100}  # that torch.compile needs
    operator = dataclasses.replace(
        task.operator,
        limits=dataclasses.replace(task.operator.limits, **more),
        cases=task.operator.cases[:1],
    )
    task = dataclasses.replace(task, operator=operator)
    report = judged(task, HONEST, cache, scope="round")
    assert report.verdict is Verdict.PASSED, report.message
    detail = report.gates[-1].detail
    assert detail["baseline"] in ("eager", "compile")
    assert set(detail["baseline_us"]) == {"eager", "compile"}


def with_time_to_compile(track: str) -> Task:
    """Return a task whose baseline may run PyTorch's compiler on a busy machine."""
    task = load_task(OPERATORS, "scaled", track)
    limits = dataclasses.replace(task.operator.limits, seconds=60, memory_mb=4096)
    return dataclasses.replace(task, operator=dataclasses.replace(task.operator, limits=limits))


@pytest.mark.slow
def test_baseline_is_measured_once_for_all_tracks_of_a_source(
    cache: Path, tmp_path: Path, fork_server: ForkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured_tracks: list[str] = []

    def trial(judge: MeasurementSession, names: Sequence[str]) -> Iterator[list[float]]:
        measured_tracks.append(judge.task.track.slug)
        for name in names:
            judge.process(name)
        yield [2.0, 1.0]

    monkeypatch.setattr(MeasurementSession, "trial_times", trial)
    scaled = with_time_to_compile("torch-to-cpp")
    fewer = dataclasses.replace(scaled.operator, cases=scaled.operator.cases[:1])
    triton = dataclasses.replace(scaled, track=Track("torch", "triton"), hash="another")
    returned = with_time_to_compile("torch-to-torch")
    for task in (scaled, triton, returned, dataclasses.replace(scaled, operator=fewer)):
        with MeasurementSession(task, fork_server, baselines(task, cache), tmp_path) as judge:
            judge.device = detect.device_for("cpu", cache)
            assert judge.baseline() == "compile"
            assert judge.baseline_times().us == {"eager": 2.0, "compile": 1.0}
    assert measured_tracks == ["torch-to-cpp", "torch-to-cpp"]  # again for other cases


@pytest.mark.slow
def test_a_baseline_that_fails_is_none_to_beat(
    cache: Path, tmp_path: Path, fork_server: ForkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = {"compile"}

    def trial(judge: MeasurementSession, names: Sequence[str]) -> Iterator[list[float]]:
        for name in names:
            judge.process(name)
        if failing & set(names):
            raise Broken("the baseline failed: no lowering")
        yield [2.0 for _ in names]

    monkeypatch.setattr(MeasurementSession, "trial_times", trial)
    scaled = with_time_to_compile("torch-to-cpp")
    builds = baselines(scaled, cache)
    with MeasurementSession(scaled, fork_server, builds, tmp_path / "one") as judge:
        judge.device = detect.device_for("cpu", cache)
        assert judge.baseline() == "eager"
        assert judge.baseline_times().us == {"eager": 2.0}
        assert judge.baseline_times().left_out == {"compile": "it does not run"}
    failing.add("eager")
    with MeasurementSession(scaled, fork_server, builds, tmp_path / "two") as judge:
        judge.device = detect.device_for("cpu", cache)
        with pytest.raises(Broken, match="no lowering"):
            judge.baseline()


@pytest.mark.slow
@pytest.mark.parametrize(("wrong", "beaten"), [(1, {"eager"}), (0, {"eager", "compile"})])
def test_a_compiled_baseline_with_wrong_values_is_none_to_beat_unless_eager_is_wrong_too(
    wrong: int, beaten: set[str], cache: Path, tmp_path: Path, fork_server: ForkServer
) -> None:
    scaled = with_time_to_compile("torch-to-cpp")
    builds = baselines(scaled, cache)
    files = {"scaled.py": "def scaled(x, weight, shift):\n    return x * weight - shift\n"}
    made = build(scaled, "torch", files, cache, "adds")
    for number in range(wrong, len(builds)):
        copying = builds[number].copying
        assert copying
        other = dataclasses.replace(copying, folder=made.folder)
        builds[number] = dataclasses.replace(builds[number], copying=other)
    with MeasurementSession(scaled, fork_server, builds, tmp_path) as judge:
        judge.device = detect.device_for("cpu", cache)
        times = judge.baseline_times()
    assert times.us.keys() == beaten
    assert times.left_out.keys() == {"eager", "compile"} - beaten
    assert all("is wrong: expected" in why for why in times.left_out.values())


def test_round_report_has_no_hidden_cases(task: Task, cache: Path) -> None:
    report = judged(task, HONEST, cache, scope="round")
    assert GateName.GENERALIZATION not in {result.gate for result in report.gates}
    assert report.unseen is None
    assert "hidden" not in json.dumps(to_json(report))


ALL = f"for (int64_t i = 0; i < n; ++i) {RIGHT}"
EACH = "for (int64_t i = 0; i < n; ++i) "
ALLOCATE = "volatile char* p = new char[{size}]; for (long i = 0; i < {size}; ++i) p[i] = 1;"
AT_ONCE = ALLOCATE.format(size="2L << 30")
BIT_BY_BIT = f"for (;;) {{ {ALLOCATE.format(size='1 << 16')} }}"


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("", Reason.BAD_SOURCE),
        ("int x = \ufffd;", Reason.BAD_SOURCE),
        ("// " + "x" * (2 << 20), Reason.BAD_SOURCE),
        (body("system(0);"), Reason.FORBIDDEN),
        ("// arena: flags -include /etc/passwd\n" + HONEST, Reason.FORBIDDEN),
    ],
    ids=["empty", "not text", "too large", "system call", "compiler flag"],
)
def test_unusable_source_fails_integrity(
    task: Task, cache: Path, source: str, reason: Reason
) -> None:
    report = judged(task, source, cache)
    assert (report.gates[-1].gate, report.reason) == (GateName.INTEGRITY, reason), report.message
    assert report.verdict in (Verdict.FAILED, Verdict.REJECTED)


def test_uncompilable_source_fails_with_compiler_output(task: Task, cache: Path) -> None:
    report = judged(task, body("this is not C++;"), cache)
    last = report.gates[-1]
    assert (last.gate, last.reason) == (GateName.COMPILE, Reason.BUILD_ERROR)
    (output,) = last.compiler
    assert not output.ok
    assert output.diagnostics[0].file == task.target_file
    assert output.diagnostics[0].line == 4
    assert f"{task.target_file}:4" in last.message


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (HEAD.replace("scaled(", "other(") + "return 0; }", Reason.MISSING_ENTRY),
        (body("(void)n;"), Reason.STALE_OUTPUT),
        (body(f"{EACH} args->out[i] = 1;"), Reason.WRONG_VALUES),
        (body(f"{EACH} args->out[i] = 0.0f / 0;"), Reason.NON_FINITE),
        (body(f"for (int64_t i = 0; i < n - 1; ++i) {RIGHT}"), Reason.STALE_OUTPUT),
        (body(f"{ALL} args->out[n] = 0;"), Reason.OUT_OF_BOUNDS),
        (body(f"{ALL} ((float*)args->x)[0] = 3;"), Reason.INPUT_MUTATED),
        (body("*(volatile int*)0 = 1;"), Reason.CRASH),
        (body("__builtin_trap();"), Reason.CRASH),
        (body("for (volatile int i = 0;; i = 0);"), Reason.TIMEOUT),
        (body(AT_ONCE), Reason.OUT_OF_MEMORY),
        (body(BIT_BY_BIT), Reason.OUT_OF_MEMORY),
        (HEAD + "return 7; }", Reason.CALL_ERROR),
    ],
    ids=[
        *("no entry", "no work", "a constant", "not a number", "all but the last", "one too many"),
        *("input changed", "segfault", "trap", "endless", "memory at once", "memory bit by bit"),
        "an error code",
    ],
)
def test_faulty_call_fails_with_its_reason(
    task: Task, cache: Path, source: str, reason: Reason
) -> None:
    if reason is Reason.TIMEOUT:
        limits = dataclasses.replace(task.operator.limits, seconds=2)
        operator = dataclasses.replace(task.operator, limits=limits)
        task = dataclasses.replace(task, operator=operator)
    report = judged(task, source, cache)
    last = report.gates[-1]
    assert (last.gate, report.reason) == (GateName.CORRECTNESS, reason), report.message
    assert report.verdict is Verdict.FAILED
    assert report.message


def test_slow_calls_in_total_fail_with_timeout(
    task: Task, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handle, "TOTAL_TO_REPLY_TIME", 1.5 / task.operator.limits.seconds)
    slow = "for (clock_t end = clock() + CLOCKS_PER_SEC / 5; clock() < end;);"
    report = judged(task, f"#include <ctime>\n{body(f'{ALL} {slow}')}", cache)
    assert (report.verdict, report.reason) == (Verdict.FAILED, Reason.TIMEOUT), report.message
    pattern = r"took more than 1\.5 s in all its calls \(case \S+: rows = \d+, cols = \d+.*\)"
    assert re.fullmatch(pattern, report.message), report.message


def test_wrong_value_message_names_case_element_and_values(task: Task, cache: Path) -> None:
    wrong = "args->out[i] = args->x[i] * args->weight[i % args->cols] + args->shift + (i == 5);"
    report = judged(task, body(f"for (int64_t i = 0; i < n; ++i) {wrong}"), cache)
    assert report.reason is Reason.WRONG_VALUES
    pattern = r"case \S+, nominal inputs: out\[\d+, \d+\] is wrong: expected \S+, got \S+"
    assert re.search(pattern, report.message), report.message
    assert re.search(r"\(.*rows = \d+, cols = \d+.*\)$", report.message), report.message


def test_hidden_case_failure_is_private(
    task: Task, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 67 columns occur in a hidden case, not in a seen one or boundary size.
    monkeypatch.setattr(generalization, "SAMPLED", 0)
    monkeypatch.setattr(generalization, "neighbours", lambda task, random: [])
    source = body(f"if (args->cols == 67) return 0; for (int64_t i = 0; i < n; ++i) {RIGHT}")
    report = judged(task, source, cache, scope="final")
    last = report.gates[-1]
    assert (last.gate, last.reason) == (GateName.GENERALIZATION, Reason.HIDDEN_CASE)
    assert (last.private["case"], last.cause) == ("hidden-odd", Reason.STALE_OUTPUT)
    public = json.dumps([report.message, last.message, to_json(last.detail)])
    assert "hidden-odd" not in public
    assert "67" not in public


def test_verdict_that_fails_on_hidden_cases_is_the_same_whatever_the_kernel_does_there(
    task: Task, cache: Path
) -> None:
    # It is late by a hidden size and leaves out its work, ends its process, or returns an error.
    spin = "for (clock_t end = clock() + {} * CLOCKS_PER_SEC / 1000; clock() < end;);"
    hidden = "if (args->cols == 67) {{ {} }}"
    found = []
    for act in (spin.format("9 * args->cols") + "return 0;", "__builtin_trap();", "return 7;"):
        right = f"for (int64_t i = 0; i < n; ++i) {RIGHT}"
        source = f"#include <ctime>\n{body(hidden.format(act) + right)}"
        report = judged(task, source, cache, scope="final")
        last = report.gates[-1]
        assert last.gate is GateName.GENERALIZATION and last.verdict is Verdict.FAILED
        assert last.private[DURATION] > 0 and last.private["case"]
        found.append(dataclasses.replace(last, private={}))
        assert (report.reason, report.message) == (last.reason, last.message)
    assert found[0] == found[1] == found[2]


def test_duration_of_a_gate_that_used_hidden_cases_is_private(task: Task, cache: Path) -> None:
    report = judged(task, HONEST, cache, scope="final")
    durations = {result.gate: result.duration_ms for result in report.gates}
    assert durations.pop(GateName.GENERALIZATION) == 0
    assert report.gates[-1].took_ms > 0
    assert all(durations.values())


def test_measure_stage_reuses_the_build(
    task: Task, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {task.target_file: HONEST + "// staged\n"}
    first = evaluate(Request(task, files, cache, stage="build"))
    assert [result.gate for result in first.gates] == [GateName.INTEGRITY, GateName.COMPILE]
    assert first.gates[1].compiler[0].tool == "g++"
    assert first.fingerprint["device"] == {}

    monkeypatch.setattr(Cpp, "build", _never)
    second = evaluate(Request(task, files, cache, stage="measure", scope="round"))
    assert [result.gate for result in second.gates] == [GateName.CORRECTNESS, GateName.PERFORMANCE]
    assert second.verdict is Verdict.PASSED
    speedups = [m.speedup for m in second.gates[1].measurements]
    assert second.aka_score == pytest.approx(120 + 100 * sum(speedups) / len(speedups))
    assert first.aka_score == 20.0, "compiled, but not known to be correct"


def test_build_stage_makes_the_baseline_too(task: Task, tmp_path: Path) -> None:
    report = evaluate(Request(task, {task.target_file: HONEST}, tmp_path, stage="build"))
    assert report.verdict is Verdict.PASSED
    made = set(tmp_path.glob("builds/*/build.json"))
    (baseline,) = baselines(task, tmp_path)
    assert len(made) == 2 and baseline.folder / "build.json" in made
    assert set(tmp_path.glob("builds/*/build.json")) == made, "found, not built again"


def test_baseline_that_cannot_be_built_is_no_failure_of_a_build(tmp_path: Path) -> None:
    shutil.copytree(OPERATORS / "scaled", tmp_path / "tasks" / "scaled")
    (tmp_path / "tasks/scaled/baseline/cpp.cpp").write_text("this is not C++")
    task = load_task(tmp_path / "tasks", "scaled", "cpp-to-cpp")
    report = evaluate(Request(task, {task.target_file: HONEST}, tmp_path, stage="build"))
    assert report.verdict is Verdict.PASSED
    assert len(list(tmp_path.glob("builds/*/build.json"))) == 1


def test_refused_source_does_not_wait_for_the_baseline(task: Task, tmp_path: Path) -> None:
    files = {task.target_file: body("system(0);")}
    report = evaluate(Request(task, files, tmp_path, stage="build"))
    assert report.verdict is Verdict.REJECTED
    assert not list(tmp_path.glob("builds/*/build.json"))


def test_measure_stage_without_build_reports_build_error(task: Task, cache: Path) -> None:
    results: list[GateResult] = []
    request = Request(task, {task.target_file: body("nonsense;")}, cache, stage="measure")
    report = evaluate(request, results.append)
    assert [result.gate for result in results] == [GateName.COMPILE]
    assert (report.verdict, report.reason) == (Verdict.FAILED, Reason.BUILD_ERROR)
    assert "nonsense" in report.message
    assert report.aka_score == 0.0


def _never(*arguments: object) -> None:
    raise AssertionError("built again")


def test_judge_error_ends_as_broken(
    task: Task, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_baselines(task: Task, cache: Path) -> list[Build]:
        raise RuntimeError("the disk is full")

    monkeypatch.setattr(kernel_judge, "baselines", no_baselines)
    report = judged(task, HONEST, cache)
    assert (report.verdict, report.reason) == (Verdict.BROKEN, Reason.JUDGE_ERROR)
    assert "disk" not in report.message
    assert "the disk is full" in str(report.gates[-1].private["error"])


def test_machine_without_isolation_ends_as_broken_with_advice(
    task: Task, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "isolation_features", IsolationFeatures)
    report = judged(task, HONEST, cache)
    assert (report.verdict, report.reason) == (Verdict.BROKEN, Reason.NO_ISOLATION)
    assert "ARENA_UNCONFINED=1" in report.message
    assert "ARENA_UNCONFINED=1" in report_text.gate(report.gates[-1])
    assert [gate.gate for gate in report.gates] == [GateName.INTEGRITY, GateName.COMPILE]


def test_baseline_build_error_ends_as_broken(
    task: Task, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_baselines(task: Task, cache: Path) -> list[Build]:
        raise BuildError("g++ refused the source", [])

    monkeypatch.setattr(kernel_judge, "baselines", no_baselines)
    report = judged(task, HONEST, cache)
    assert (report.verdict, report.reason) == (Verdict.BROKEN, Reason.JUDGE_ERROR)
    assert "the baseline failed: g++ refused" in str(report.gates[-1].private["error"])


@pytest.mark.parametrize("source", [HONEST, body("this is not C++;"), ""])
def test_evaluation_leaves_no_processes(
    source: str, task: Task, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_judge, "ForkServer", ForkServer)  # its own, not the shared one
    before = set(procfs.descendants(os.getpid()))
    judged(task, source, cache)
    assert set(procfs.descendants(os.getpid())) <= before
