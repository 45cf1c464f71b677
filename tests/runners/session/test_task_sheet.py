"""Task sheet: TASK.md of a run has its hardware, budget, scoring and tools."""

from __future__ import annotations

from pathlib import Path

import pytest

from arena.catalog.models import Hardware
from evaluation.bench.devices.vendors import cpu
from evaluation.code.cache_folder import default_cache
from evaluation.judge.kinds import kind_of
from evaluation.kinds.kernel.load import load_task
from evaluation.kinds.kernel.workspace_files import starter_files
from runners.session.task_sheet import run_files

TASKS = Path(__file__).parents[3] / "tasks"
KERNEL, MODULE, REPOSITORY = (kind_of(word).sheet for word in ("", "production", "repository"))
BUDGET = {"rounds": 12, "seconds": 3600.0, "tokens": 2_000_000, "usd": 2.5}
CPU = Hardware(
    name="AMD EPYC",
    kind="cpu",
    arch="x86_64 avx512f",
    peaks={"l1_gbps": 232.282, "memory_gbps": 30.3, "float32_tflops": 0.354534},
    fingerprint={"threads": 2, "caches": {"L1": 65536, "L3": 32 << 20}, "compiler": "g++ 12.2"},
)
GPU = Hardware(
    name="NVIDIA H200",
    kind="gpu",
    arch="sm_90 Hopper",
    peaks={"l2_gbps": 5500.5, "memory_gbps": 4100.0, "bfloat16_tflops": 790.2},
    fingerprint={"multiprocessors": 132, "capability": "9.0", "memory_bytes": 141 << 30},
)


def public(operator: str, track: str) -> dict[str, object]:
    task = load_task(TASKS, operator, track)
    return {"starter": starter_files(task), "target_file": task.target_file}


def test_sheet_of_a_cpu_has_task_peaks_budget_and_tools() -> None:
    given = public("rms_norm", "cpp-to-cpp")
    files = run_files(KERNEL, given, CPU, BUDGET, mcp=True)
    sheet, starter = files["TASK.md"], given["starter"]
    assert isinstance(starter, dict) and sheet.startswith(starter["TASK.md"].rstrip())
    for text in (
        "| cores | 2: a candidate uses no more |",
        "| L3 cache | 32 MiB |",
        "| compiler | g++ 12.2 |",
        "| measured bandwidth, L1 | 232.3 GB/s |",
        "| measured bandwidth, memory | 30.3 GB/s |",
        "| measured peak, float32 | 355 GFLOP/s |",
        "| 12 | requests for a verdict |",
        "| 3,600 | seconds of work |",
        "| 2,000,000 | tokens, of input and output together |",
        "| 2.50 | US dollars for the model |",
        "generalization, which judges unseen cases",
        "`./arena-mcp` serves both",
        "needs a GPU, so there is no profile",
    ):
        assert text in sheet, text
    assert "calls of the model" not in sheet, "it has no limit of turns"
    assert {
        name: text for name, text in files.items() if name in starter and name != "TASK.md"
    } == {name: text for name, text in starter.items() if name != "TASK.md"}


def test_sheet_of_a_gpu_has_its_properties_and_the_profiler() -> None:
    sheet = run_files(KERNEL, public("rms_norm", "cuda-to-cuda"), GPU, BUDGET)["TASK.md"]
    for text in (
        "| multiprocessors | 132 |",
        "| compute capability | 9.0 |",
        "| memory | 141 GiB |",
        "| measured bandwidth, L2 | 5500.5 GB/s |",
        "| measured peak, bfloat16 | 790 TFLOP/s |",
        "`./arena-profile [case]` prints",
        "nvcc",
    ):
        assert text in sheet, text
    assert "arena-mcp" not in sheet


def test_pointers_name_the_sheet_in_one_line() -> None:
    files = run_files(KERNEL, public("softmax", "cpp-to-cpp"), CPU, BUDGET)
    for name in ("AGENTS.md", "CLAUDE.md"):
        assert files[name].count("\n") == 1 and "TASK.md" in files[name]


def test_sheet_of_this_machine_has_its_measured_peaks() -> None:
    (device,) = cpu.devices(default_cache())
    hardware = Hardware(
        name=device.name, kind="cpu", peaks=device.peaks, fingerprint=device.fingerprint
    )
    sheet = run_files(KERNEL, public("rope", "cpp-to-cpp"), hardware, BUDGET)["TASK.md"]
    assert sheet.count("| measured ") == len(device.peaks)
    assert f"| compiler | {device.fingerprint['compiler']} |" in sheet


@pytest.mark.parametrize("operator", ["rms_norm", "softmax"])
def test_starter_files_of_a_task_are_unchanged_by_a_run(operator: str) -> None:
    given = public(operator, "cpp-to-cpp")
    assert isinstance(given["starter"], dict)
    before = dict(given["starter"])
    run_files(KERNEL, given, CPU, BUDGET)
    assert given["starter"] == before


def test_sheet_of_a_module_of_a_live_model_scores_the_deployed_speedup() -> None:
    given = {"starter": {"TASK.md": "# A module\n"}, "target_file": "m.py"}
    for hardware in (CPU, GPU):
        sheet = run_files(MODULE, given, hardware, BUDGET)["TASK.md"]
        assert "The speedup of a run is the deployed one" in sheet
        assert "profiles no modules of live models" in sheet
        assert "generalization" not in sheet and "a run has a dozen" not in sheet


def test_sheet_of_a_repository_names_the_submitted_files_and_the_clock() -> None:
    given = {"starter": {"TASK.md": "# It\n"}, "target_file": "src/a.cpp"}
    sheet = run_files(REPOSITORY, given, GPU, BUDGET)["TASK.md"]
    for text in (
        "`./arena-check [note]` submits the editable files",
        "by the suite's own clock",
        "`./arena-profile` profiles no repositories.",
    ):
        assert text in sheet, text
    assert "unseen" not in sheet
