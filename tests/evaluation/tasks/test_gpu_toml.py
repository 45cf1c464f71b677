"""Tests of `gpu.toml`: on a GPU it replaces the cases, the domain and the limits."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from evaluation.errors import TaskError
from evaluation.kinds.kernel.load import load_operator, load_task
from evaluation.tasks.spec import folder_of, self_tested
from evaluation.types import Split

TASKS = Path(__file__).resolve().parents[3] / "tasks"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(TASKS / "Normalization" / "rms_norm", tmp_path / "rms_norm")
    return tmp_path / "rms_norm"


@pytest.fixture
def edited(folder: Path) -> Callable[[str, str], Path]:
    """Replace one piece of the gpu.toml in a copy of an operator folder."""

    def edit(old: str, new: str) -> Path:
        text = (folder / "gpu.toml").read_text()
        assert old in text
        (folder / "gpu.toml").write_text(text.replace(old, new, 1))
        return folder

    return edit


def test_gpu_toml_replaces_cases_domain_and_limits_only() -> None:
    for track in ("torch-to-cuda", "torch-to-triton"):
        cpu, gpu = (load_task(TASKS, "rms_norm", track, kind) for kind in ("cpu", "gpu"))
        assert (cpu.kind, gpu.kind) == ("cpu", "gpu")
        assert cpu.hash == gpu.hash
        small, large = cpu.operator, gpu.operator
        assert small.cases != large.cases
        assert small.domain != large.domain
        assert small.limits.case_mb < large.limits.case_mb
        assert small.arguments == large.arguments
        assert small.tolerance == large.tolerance
        assert small.tracks == large.tracks
        assert large.domain.max_bytes == large.limits.case_mb * 2**20
        assert {case.dtype for case in gpu.cases(Split.SEEN)} <= set(gpu.dtypes)


def test_gpu_toml_of_a_cpu_task_is_not_used() -> None:
    task = load_task(TASKS, "rms_norm", "torch-to-cpp")
    assert task.kind == "cpu"
    assert task.operator == load_operator(TASKS / "Normalization" / "rms_norm")


def test_gpu_toml_missing_uses_task_toml(folder: Path) -> None:
    (folder / "gpu.toml").unlink()
    on_gpu = load_task(folder.parent, "rms_norm", "torch-to-cuda", "gpu")
    assert on_gpu.kind == "gpu"
    assert on_gpu.operator == load_operator(folder)


def test_gpu_toml_change_changes_the_hash(folder: Path) -> None:
    before = load_task(folder.parent, "rms_norm", "torch-to-cuda").hash
    (folder / "gpu.toml").write_text((folder / "gpu.toml").read_text() + "\n")
    assert load_task(folder.parent, "rms_norm", "torch-to-cuda").hash != before


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[limits]", "[limits", "not TOML"),
        ("[limits]", "[limitz]", "limits: missing"),
        ("[limits]\n", "[tolerance]\n[limits]\n", "tolerance: unknown key"),
        ("cases = [", "title = 'RMS'\ncases = [", "title: unknown key"),
        ("seconds = 120", "seconds = -1", "limits.seconds: must be a number above 0"),
        ("case_mb = 1024", "case_mb = 1", "is larger than limits.case_mb"),
        ('["bfloat16", "float16", "float32"]', '["float8"]', "domain.dtypes: must be of"),
        ('["bfloat16", "float16", "float32"]', '["float32"]', "dtype: must be one of float32;"),
        ("[1, 16384]", "[1, 100]", "lies outside the domain"),
        ("rows = { log_uniform", "columns = { log_uniform", "domain.rows: missing"),
        ('split = "seen"', 'split = "shown"', "split: must be one of seen, unseen"),
        ('kind = "edge"', 'kind = "odd"', "kind: must be one of nominal"),
    ],
)
def test_gpu_toml_malformed_raises_task_error_with_the_key(
    edited: Callable[[str, str], Path], old: str, new: str, message: str
) -> None:
    folder = edited(old, new)
    with pytest.raises(TaskError) as refused:
        load_operator(folder, "gpu")
    assert "gpu.toml" in str(refused.value)
    assert message in str(refused.value)
    load_operator(folder)  # not read for a CPU


def test_tolerance_of_a_gpu_dtype_is_in_task_toml(tmp_path: Path) -> None:
    folder = tmp_path / "attention"
    shutil.copytree(TASKS / "Fusion" / "attention", folder)
    assert "bfloat16" not in load_operator(folder).domain.dtypes
    assert "bfloat16" in load_operator(folder, "gpu").domain.dtypes
    lines = (folder / "task.toml").read_text().splitlines(keepends=True)
    without = (line for line in lines if not line.startswith("bfloat16 = "))
    (folder / "task.toml").write_text("".join(without))
    load_operator(folder)
    with pytest.raises(TaskError, match=r"task\.toml: tolerance\.bfloat16: missing"):
        load_operator(folder, "gpu")


@pytest.mark.parametrize("name", self_tested(TASKS))
def test_gpu_toml_of_every_operator_loads_on_every_track(name: str) -> None:
    assert (folder_of(TASKS, name) / "gpu.toml").is_file()
    for track in load_operator(folder_of(TASKS, name)).tracks:
        task = load_task(TASKS, name, track.slug, "gpu")
        assert task.cases(Split.SEEN), track.slug
        assert task.cases(Split.UNSEEN), track.slug
        assert all(task.operator.tolerance[dtype].c1 > 0 for dtype in task.dtypes)
