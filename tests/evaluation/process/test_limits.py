"""A contestant gets the environment, the folders and the device it is meant to have, no more."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluation.process.limits import ProcessLimits


def rights(**changes: object) -> ProcessLimits:
    given = {
        "folder": Path("/build"), "scratch": Path("/scratch"), "memory_bytes": 1 << 30,
        "seconds": 10.0, "threads": 1, **changes,
    }  # fmt: skip
    return ProcessLimits(**given)  # type: ignore[arg-type]


def test_nothing_of_the_judges_environment_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARENA_TEST_SECRET", "swordfish")
    variables = rights(environment={"LD_PRELOAD": "libgomp.so"}).variables()
    assert set(variables) == {
        "PATH", "HOME", "TRITON_HOME", "USER", "TMPDIR", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES",
        "LD_PRELOAD",
    }  # fmt: skip
    assert variables["HOME"] == variables["TMPDIR"] == "/scratch"


@pytest.mark.parametrize(
    ("seen", "expected"), [(None, "0"), ("3", "3"), ("2,0,1", "2"), ("GPU-a,GPU-b", "GPU-a")]
)
def test_a_contestant_sees_the_gpu_that_the_judge_measures_on_and_no_other(
    monkeypatch: pytest.MonkeyPatch, seen: str | None, expected: str
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if seen is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", seen)
    assert rights(kind="gpu").variables()["CUDA_VISIBLE_DEVICES"] == expected
    assert rights(kind="cpu").variables()["CUDA_VISIBLE_DEVICES"] == ""


def test_only_what_compiles_may_start_processes_and_only_ours_writes_large_files() -> None:
    candidate, compiling, ours = (
        r.policy() for r in (rights(), rights(compiles=True), rights(trusted=True))
    )
    assert not candidate.fork and compiling.fork
    assert 0 < candidate.scratch_bytes < compiling.scratch_bytes
    assert ours.scratch_bytes == 0 and ours.file_bytes > candidate.file_bytes
    assert "/build" in candidate.readable and candidate.writable == ("/scratch",)


def test_addresses_are_limited_on_a_processor_and_devices_are_reached_on_a_gpu() -> None:
    cpu, gpu = rights().policy(), rights(kind="gpu").policy()
    assert (cpu.memory_bytes, cpu.gpu) == (2 << 30, False)
    assert (gpu.memory_bytes, gpu.gpu) == (0, True)
    assert not cpu.unix_sockets and not gpu.unix_sockets
