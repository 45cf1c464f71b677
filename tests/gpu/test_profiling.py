"""Profiles on a GPU: measured values of the kernels, and nothing of the judge."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evaluation.__main__ import PASSED, main
from evaluation.bench.profiling.tools import cupti, ncu
from evaluation.device_kind import GPU
from evaluation.judge import report_text
from evaluation.kinds.kernel import builds
from evaluation.kinds.kernel import profile as profiling
from evaluation.kinds.kernel.load import load_task
from evaluation.tasks.spec import Task
from evaluation.types import Profile, Reason, Split
from tests.gpu.submissions import OPERATORS, Submission, submissions

HONEST = {work.name: work for work in submissions("honest")}
SOURCE = """
#include "centred.h"
#include <cstdio>

static __global__ void spin(volatile float* out) { while (out[0] != 12345.f) {} }
static __global__ void illegal() { *(volatile float*)8 = 0; }
static __global__ void nothing() {}
static bool reads(const char* path) { return fopen(path, "r") != nullptr; }

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    BODY
    nothing<<<1, 1, 0, stream>>>();
    return 0;
}
"""

pytestmark = [pytest.mark.gpu, pytest.mark.slow, pytest.mark.usefixtures("fork_server")]


def task_for(language: str) -> Task:
    return load_task(OPERATORS, "centred", f"cuda-to-{language}", GPU)


def profiled(work: Submission, cache: Path) -> Profile:
    return profiling.profile_build(work.task(), work.build(cache), work.task().cases(Split.SEEN)[0])


def profiled_body(body: str, tmp_path: Path) -> Profile:
    task = task_for("cuda")
    files = {task.target_file: SOURCE.replace("BODY", body)}
    built = builds.build(task, "cuda", files, tmp_path)
    return profiling.profile_build(task, built, task.cases(Split.SEEN)[0])


@pytest.fixture
def with_counters() -> None:
    if why := ncu.absent():
        pytest.skip(why)


def test_profile_command_reports_counters_and_registers(
    with_counters: None, compilers: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    work = HONEST["four_at_a_time.cuda.cu"]
    words = ["profile", "centred", "cuda-to-cuda", str(work.path), "--case", "tall", "--json"]
    code = main([*words, "--tasks", str(OPERATORS), "--cache", str(tmp_path)])
    data = json.loads(capsys.readouterr().out)
    assert code == PASSED, data
    (kernel,) = data["kernels"]
    variants = work.build(tmp_path).outputs[0].resources.values()
    assert data["case"] == "tall"
    assert data["tool"].startswith("ncu ")
    assert kernel["registers"] in [variant["registers"] for variant in variants]
    assert 0.5 < kernel["duration_us"] < 500
    for share in ("bandwidth_share", "compute_share", "occupancy"):
        assert 0 < kernel[share] < 1, share
    assert 0 < sum(kernel["stalls"].values()) < 1


def test_kernels_of_one_launch_are_separate(
    with_counters: None, compilers: None, cache: Path
) -> None:
    profile = profiled(HONEST["two_kernels.triton.py"], cache)
    assert len(profile.kernels) == 2, report_text.profile(profile)
    assert all(kernel.calls == 1 for kernel in profile.kernels)


def test_profiled_process_reads_only_the_reference(compilers: None, tmp_path: Path) -> None:
    operator = task_for("cuda").operator.folder.resolve()
    refusal = profiled_body(f'if (reads("{operator}/reference.py")) return 77;', tmp_path)
    assert refusal.reason is Reason.CALL_ERROR
    assert "returned 77" in refusal.message
    hidden = (operator / "task.toml", Path(__file__), Path("/etc/hostname"))
    for path in hidden:
        assert path.exists()
    attempts = " || ".join(f'reads("{path}")' for path in hidden)
    assert profiled_body(f"if ({attempts}) return 77;", tmp_path).kernels


def test_without_counters_cupti_reports_times_and_configurations(
    compilers: None, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ncu, "absent", lambda: "ncu is not here")
    profile = profiled(HONEST["four_at_a_time.cuda.cu"], cache)
    assert len(profile.kernels) == 1, profile
    (kernel,) = profile.kernels
    assert "CUPTI" in profile.tool
    assert profile.message.startswith("ncu is not here")
    assert kernel.calls == cupti.LAUNCHES
    assert kernel.bandwidth_share is None
    assert kernel.registers
    assert 0.5 < kernel.duration_us < 500


def test_illegal_access_is_reported_as_a_crash(compilers: None, tmp_path: Path) -> None:
    profile = profiled_body("illegal<<<1, 1, 0, stream>>>();", tmp_path)
    assert not profile.kernels
    assert profile.reason in (Reason.CRASH, Reason.CALL_ERROR)
    assert "illegal memory access" in profile.message, profile


def test_endless_kernel_times_out(
    compilers: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(profiling, "MAX_SECONDS", 12.0)
    profile = profiled_body("spin<<<1, 1, 0, stream>>>(args->out);", tmp_path)
    assert profile.reason is Reason.TIMEOUT
    assert "longer than 12 s" in profile.message
