"""Profiles without a GPU: parsing of tools' output, bounds, sandbox, and the lack of a GPU."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from evaluation.__main__ import BAD_REQUEST, NOT_PASSED, main, serve_request
from evaluation.bench.profiling.kernels import (
    MAX_KERNELS,
    MAX_NAME_CHARACTERS,
    Unprofiled,
    kernel_name,
    merge,
    number,
    printable,
)
from evaluation.bench.profiling.tools import cupti, ncu, tools
from evaluation.errors import RequestError
from evaluation.judge import report_text
from evaluation.judge.request import Request
from evaluation.kinds.kernel import profile as profiling
from evaluation.kinds.kernel.builds import Build
from evaluation.kinds.kernel.load import load_task
from evaluation.sandbox import launch
from evaluation.sandbox.features import isolation_features
from evaluation.sandbox.policy import Policy
from evaluation.sandbox.resource_watch import SECONDS, Excess
from evaluation.sandboxed import profile_kernel
from evaluation.tasks.spec import Task
from evaluation.types import Argument, Case, KernelProfile, Profile, Reason, Split, to_json
from tests.evaluation.conftest import OPERATORS

HERE = Path(__file__).parent
TASKS = HERE.parents[3] / "tasks"
CASE = Case("wide", Split.SEEN, "nominal", "float32", {})
LAUNCHED = {
    "name": "void (anonymous namespace)::rms<float, 4>(float const*, int)",
    "us": 131.807,
    "grid": [16384, 1, 1],
    "block": [512, 2, 1],
    "registers per thread": 39,
    "shared memory": 64,
    "est. achieved occupancy %": 75,
}


def captured(language: str) -> str:
    """Return output of ncu 2025.3.1 on an H200 for one launch of an RMS norm, with few columns."""
    return (HERE / f"ncu-2025.3.{language}.txt").read_text()


def completed(text: str, ready: bool = True, exceeded: Excess | None = None) -> launch.Completed:
    return launch.Completed(0, text, exceeded, ready)


def answered(**answer: Any) -> str:
    return f"\n{profile_kernel.ANSWER}{json.dumps(answer)}\n"


def test_ncu_output_is_parsed() -> None:
    (kernel,) = ncu.read(captured("triton"), {})
    assert kernel.name == "rms_norm_kernel"
    assert (kernel.grid, kernel.block) == ("16384", "512")
    assert kernel.duration_us == pytest.approx(128.672)
    shares = (kernel.bandwidth_share, kernel.compute_share, kernel.occupancy)
    assert shares == pytest.approx((0.8291, 0.3963, 0.6886))
    assert (kernel.registers, kernel.shared_bytes) == (39, 1088)
    assert next(iter(kernel.stalls)) == "barrier", "in the order of ncu"
    (kernel,) = merge([kernel])
    assert list(kernel.stalls)[:2] == ["long scoreboard", "barrier"]
    assert kernel.stalls["long scoreboard"] == pytest.approx(0.5, abs=0.01)


def test_ncu_times_are_converted_to_microseconds() -> None:
    for unit, expected in (("ns", 217.376), ("us", 217376.0), ("msecond", 217376e3)):
        text = captured("cuda").replace('"ns","ns","ns","ns"', f'"ns","ns","ns","{unit}"')
        (kernel,) = ncu.read(text.replace('"217376"', '"217,376"'), {})
        assert kernel.duration_us == pytest.approx(expected)


def test_missing_ncu_counter_becomes_none() -> None:
    text = captured("cuda").replace('"49.36"', '"n/a"').replace('"43.49"', '"nan"')
    (kernel,) = ncu.read(text, {})
    assert (kernel.bandwidth_share, kernel.compute_share) == (None, None)
    assert kernel.registers == 31


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text.replace('"ID"', '"Id"'),
        lambda text: text[: text.rindex('"217376"')],
        lambda text: text.replace("gpu__time_duration.sum", "gpu__time"),
        lambda text: '"ID"\n"0"\n"\0"\n' + "\udcff" * 10,
        lambda text: "",
    ],
)
def test_malformed_ncu_table_has_no_kernels(damage: Any) -> None:
    assert ncu.read(damage(captured("cuda")), {}) == []


def test_counters_without_permission_raise_unprofiled() -> None:
    refusal = "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission\n"
    with pytest.raises(Unprofiled, match="only its administrator"):
        ncu.read(refusal, {})


def test_cupti_answer_is_parsed() -> None:
    (kernel,) = merge(cupti.read("", {"kernels": [LAUNCHED, {**LAUNCHED, "us": 133.807}]}))
    assert (kernel.name, kernel.calls) == ("rms", 2)
    assert kernel.duration_us == pytest.approx(132.807)
    assert (kernel.grid, kernel.block) == ("16384", "512 x 2")
    assert (kernel.registers, kernel.shared_bytes, kernel.occupancy) == (39, 64, 0.75)
    assert (kernel.bandwidth_share, kernel.stalls) == (None, {})


@pytest.mark.parametrize(
    "kernels", [None, 7, {"name": "k"}, [None, 3, {}], [{"us": "inf"}], [{"us": [1], "grid": "x"}]]
)
def test_malformed_cupti_answer_is_tolerated(kernels: object) -> None:
    assert cupti.read("", {"kernels": kernels}) == []
    odd = cupti.read(
        "", {"kernels": [{"us": 1, "name": kernels, "grid": [kernels, "9" * 99], "block": kernels}]}
    )
    assert len(odd) == 1
    json.dumps(to_json(odd))


def test_kernel_names_and_counts_are_bounded() -> None:
    many = [KernelProfile(kernel_name(f"k{i}\n\x1b[2J" + "x" * 999), i) for i in range(200)]
    kernels = merge(many)
    assert len(kernels) == MAX_KERNELS
    assert kernels[0].name.startswith("k199")
    assert all(len(k.name) <= MAX_NAME_CHARACTERS and k.name.isprintable() for k in kernels)
    text = report_text.profile(Profile("wide", "t", kernels))
    assert len(text) < 20_000
    assert (number("1,234.5"), number("nan"), number(None), number([])) == (
        1234.5,
        None,
        None,
        None,
    )


def test_profile_text_omits_unknown_columns() -> None:
    (kernel,) = ncu.read(captured("triton"), {})
    whole = report_text.profile(Profile("wide", "ncu 2025.3.1", merge([kernel])))
    assert whole.splitlines()[0] == "case wide, by ncu 2025.3.1"
    assert "DRAM" in whole
    assert "82.9%" in whole
    assert "rms_norm_kernel stalls: long scoreboard 50%, barrier 21%" in whole
    part = report_text.profile(
        Profile("wide", "t", merge(cupti.read("", {"kernels": [LAUNCHED]})), "no counters")
    )
    assert "DRAM" not in part
    assert part.endswith("no counters")


def test_failed_profile_has_reason_and_message() -> None:
    refused = answered(reason="OUT_OF_MEMORY", message="m" * 9000)
    found = profiling.parse_output(completed(refused), CASE, cupti)
    assert (found.reason, found.kernels) == (Reason.OUT_OF_MEMORY, ())
    odd = profiling.parse_output(completed(answered(reason=["x"], message={})), CASE, cupti)
    assert (odd.reason, odd.message) == (Reason.CALL_ERROR, "no kernel was launched")
    gone = profiling.parse_output(completed("Segmentation fault"), CASE, cupti)
    assert (gone.reason, "Segmentation fault" in gone.message) == (Reason.CRASH, True)
    late = profiling.parse_output(completed("", exceeded=Excess(SECONDS, 101, 100)), CASE, cupti)
    assert (late.reason, late.message) == (
        Reason.TIMEOUT,
        "the profile took longer than 100 s",
    )
    grown = Excess("memory_bytes", 3 << 20, 2 << 20)
    assert profiling.parse_output(completed("", exceeded=grown), CASE, cupti).reason is (
        Reason.OUT_OF_MEMORY
    )
    many = profiling.parse_output(
        completed("", exceeded=Excess("processes", 300, 256)), CASE, cupti
    )
    assert (many.reason, many.message) == (
        Reason.FORBIDDEN,
        "the profile took at least 300 processes at a time; the limit is 256",
    )
    assert printable("\x1b[2Ja\nb\ud800") == "\ufffd[2Ja\nb\ufffd"
    for broken in ("{", "[1]", "[" * 9999):
        text = f"{profile_kernel.ANSWER}{broken}"
        assert profiling.parse_output(completed(text), CASE, cupti).reason is Reason.CRASH


def test_tool_stuck_before_the_kernel_raises_unprofiled() -> None:
    stuck = completed("==PROF== Connected", ready=False, exceeded=Excess(SECONDS, 41, 40))
    with pytest.raises(Unprofiled, match="did not get to the kernel: ==PROF== Connected"):
        profiling.parse_output(stuck, CASE, cupti)


def test_tools_try_ncu_before_cupti() -> None:
    assert list(tools()) == ["ncu", "cupti"]
    assert "--clock-control none" in " ".join(ncu.command())


def test_profile_without_gpu_is_refused_before_build(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "any.cpp"
    source.write_text("this is no C++")
    words = ["profile", "scaled", "cpp-to-cpp", str(source), "--tasks", str(OPERATORS)]
    assert main([*words, "--cache", str(tmp_path)]) == NOT_PASSED
    assert capsys.readouterr().out == "no profiler for the CPU here: needs a GPU\n"
    assert main([*words, "--case", "none"]) == BAD_REQUEST
    assert "there is no seen case 'none'; there are: " in capsys.readouterr().err


def test_profile_request_is_answered_with_a_profile(
    task: Task, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    request = {
        "task": "scaled/cpp-to-cpp", "tasks_root": str(OPERATORS), "files": {task.target_file: ""},
        "cache": str(tmp_path), "stage": "measure", "scope": "round", "profile": "",
    }  # fmt: skip
    for case, expected in (("", "needs a GPU"), ("none", "there is no seen case 'none'")):
        assert serve_request(json.dumps({**request, "profile": case})) == NOT_PASSED
        (line,) = map(json.loads, capsys.readouterr().out.splitlines())
        assert (line["type"], line["kernels"]) == ("profile", [])
        assert expected in line["message"]
        assert expected in line["text"]


def test_seen_case_without_name_is_the_largest(task: Task) -> None:
    cases = task.cases(Split.SEEN)
    largest = profiling.seen_case(task, "")
    assert largest in cases
    assert profiling.seen_case(task, cases[0].name) == cases[0]
    hidden = task.cases(Split.UNSEEN)[0].name
    with pytest.raises(RequestError, match="there is no seen case"):
        profiling.seen_case(task, hidden)


def test_uncompilable_source_is_reported_in_the_profile(
    task: Task, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(profiling, "unsupported", lambda task: "")
    request = Request(task, {task.target_file: "this is no C++"}, cache)
    found = profiling.profile_submission(request, task.cases(Split.SEEN)[0])
    assert found.reason is Reason.BUILD_ERROR
    assert "g++ refused the source" in found.message


# The next tests run in the sandbox of this machine.


def run(argv: list[str], policy: Policy, folder: Path, **env: str) -> list[str]:
    env = {"PATH": os.environ["PATH"], **env}
    return launch.run(argv, policy, timeout=40, cwd=folder, env=env).stdout.split()


# A checkout in the home folder is hidden from the sandbox, so the first file is none of its own.
OPENS_FILES = """
import os
name = f"/proc/self/task/{os.getpid()}/comm"
for path, mode in (("/etc/hostname", os.O_RDONLY), (name, os.O_WRONLY)):
    try:
        os.close(os.open(path, mode))
        print("opened", flush=True)
    except PermissionError:
        print("refused", flush=True)
"""
CONFINES = f"""
import os, sys
sys.path.insert(0, {str(Path(launch.__file__).parents[2])!r})
from evaluation.sandboxed import profile_kernel
profile_kernel.restart_confined(os.environ["POLICY"], ["-c", {OPENS_FILES!r}])
"""


@pytest.mark.skipif(not isolation_features().landlock, reason="this machine has no Landlock")
def test_split_policy_lets_the_confined_child_write_its_proc(
    tmp_path: Path,
) -> None:
    readable = (sys.prefix, sys.base_prefix, str(Path(launch.__file__).parents[1]))
    whole = Policy(
        isolation_features(), readable, (str(tmp_path),), scratch_bytes=1 << 20, gpu=True
    )
    outer, inner = profiling.split_policy(whole)
    starts = ["sh", "-c", '"$@"; true', "sh", sys.executable, "-I", "-c"]
    inside = run([*starts, OPENS_FILES], whole, tmp_path, POLICY=inner)
    assert inside == ["refused", "refused"], "the child of a confined process"
    parted = run([*starts, CONFINES], outer, tmp_path, POLICY=inner)
    assert parted == ["refused", "opened"], "one that confined itself"


@pytest.mark.parametrize("name", ["rms_norm", "gelu", "bilinear_resize"])
def test_launches_of_a_profile_have_inputs_though_a_reference_defines_none(name: str) -> None:
    task = load_task(TASKS, name, "torch-to-triton")
    case = task.cases(Split.SEEN)[0]
    built = Build("candidate", "triton", HERE)
    job = json.loads(json.dumps(profiling._job(task, built, case, "ncu", tools()["ncu"])))
    arguments = [Argument(**argument) for argument in job["arguments"]]
    slots = profile_kernel.slots_of(job, case, arguments, "cpu")
    assert len(slots) == job["slots"] > 0
    tensors = [argument.name for argument in arguments if argument.role != "scalar"]
    assert all(torch.is_tensor(slot[name]) for slot in slots for name in tensors)
