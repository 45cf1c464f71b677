"""Environment and policy of a process."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluation.bench.process.limits import ProcessLimits


def limits(**changes: object) -> ProcessLimits:
    given = {
        "folder": Path("/build"), "scratch": Path("/scratch"), "memory_bytes": 1 << 30,
        "seconds": 10.0, "threads": 1, **changes,
    }  # fmt: skip
    return ProcessLimits(**given)  # type: ignore[arg-type]


def test_variables_hold_nothing_of_the_judges_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARENA_TEST_SECRET", "swordfish")
    variables = limits(environment={"LD_PRELOAD": "libgomp.so"}).variables()
    assert set(variables) == {
        "PATH", "HOME", "TRITON_HOME", "USER", "TMPDIR", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES",
        "LD_PRELOAD",
    }  # fmt: skip
    assert variables["HOME"] == variables["TMPDIR"] == "/scratch"


@pytest.mark.parametrize(
    ("visible", "expected"), [(None, "0"), ("3", "3"), ("2,0,1", "2"), ("GPU-a,GPU-b", "GPU-a")]
)
def test_variables_show_only_the_gpu_that_is_measured(
    monkeypatch: pytest.MonkeyPatch, visible: str | None, expected: str
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert limits(kind="gpu").variables()["CUDA_VISIBLE_DEVICES"] == expected
    assert limits(kind="cpu").variables()["CUDA_VISIBLE_DEVICES"] == ""


def test_policy_allows_processes_to_compilers_and_large_files_to_baselines() -> None:
    candidate, compiling, baseline = (
        r.policy() for r in (limits(), limits(compiles=True), limits(trusted=True))
    )
    assert not candidate.fork and compiling.fork
    assert 0 < candidate.scratch_bytes < compiling.scratch_bytes
    assert baseline.scratch_bytes == 0 and baseline.file_bytes > candidate.file_bytes
    task_code = limits(task_code=True).policy()  # which serves many verdicts
    assert not task_code.fork and task_code.unprivileged_user
    assert candidate.cpu_seconds < task_code.cpu_seconds
    assert "/build" in candidate.readable and candidate.writable == ("/scratch",)


def test_policy_limits_addresses_on_a_cpu_and_opens_devices_on_a_gpu() -> None:
    cpu, gpu = limits().policy(), limits(kind="gpu").policy()
    assert (cpu.memory_bytes, cpu.gpu) == (2 << 30, False)
    assert (gpu.memory_bytes, gpu.gpu) == (0, True)
    assert not cpu.unix_sockets and not gpu.unix_sockets


def test_ranks_see_a_gpu_each_and_meet_on_the_loopback_interface(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,1,2")
    ranks = limits(kind="gpu", ranks=2, trusted=True)
    variables, policy = ranks.variables(), ranks.policy()
    assert variables["CUDA_VISIBLE_DEVICES"] == "3,1"
    assert variables["NCCL_NVLS_ENABLE"] == "0" and variables["NCCL_SOCKET_IFNAME"] == "lo"
    assert policy.ranks and policy.minimal_root
    assert policy.writable == ("/scratch", "/dev/shm") and policy.scratch_bytes > 0
    assert "NCCL_NVLS_ENABLE" not in limits(kind="gpu").variables()
    assert not limits().policy().ranks and not limits().policy().minimal_root
