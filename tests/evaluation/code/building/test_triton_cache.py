"""What a build compiled of a Triton kernel is found again, and only what is a file of its own."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from evaluation import device_kind
from evaluation.code.building import triton_cache, triton_output
from evaluation.code.languages import triton
from evaluation.kinds.kernel.builds import (
    Build,
    baselines,
    build,
    compile_baselines,
    compile_cases,
    with_further,
)
from evaluation.kinds.kernel.gates import Trial
from evaluation.kinds.kernel.gates import compile as compile_gate
from evaluation.kinds.kernel.gates.generalization import lasting_cases
from evaluation.kinds.kernel.load import load_task
from evaluation.sandboxed import build_triton
from evaluation.tasks.operator import Track
from evaluation.tasks.spec import Task
from evaluation.types import Verdict
from tests.evaluation.code.languages.test_triton import FOLDER, HONEST

KERNEL = HONEST.replace("BLOCK=256", "BLOCK=triton.next_power_of_2(n)")
RUN = """\
import json, sys
from pathlib import Path
import torch, triton
from triton.backends.compiler import GPUTarget
from evaluation.code.building import triton_cache
from evaluation.sandboxed.build_triton import CompilingDriver
from evaluation.sandboxed.kernels.python_file import load_function

folder, elements = Path(sys.argv[1]), json.loads(sys.argv[2])
for made in map(Path, (sys.argv[1], *sys.argv[3:])):
    triton_cache.restore(made / triton_cache.FOLDER, Path.home() / ".triton" / "cache")
triton.runtime.driver.set_active(CompilingDriver(GPUTarget("cuda", 90, 32), 232448))
found = []
triton.knobs.compilation.listener = lambda *, cache_hit, **rest: found.append(cache_hit)
twice = load_function(folder / "twice.py", "twice")
for count in elements:
    twice(torch.zeros(count), torch.zeros(count), 2.0)
print(json.dumps(found))
"""


def ran(made: Build, home: Path, counts: Sequence[int], *added: Path) -> list[bool]:
    """Return for each number of elements whether its call was found compiled, or in `added`."""
    told = subprocess.run(
        [sys.executable, "-c", RUN, str(made.folder), json.dumps(counts), *map(str, added)],
        env={**os.environ, "HOME": str(home), "PYTHONPATH": str(Path(__file__).parents[4])},
        capture_output=True,
        text=True,
        check=True,
    )
    hits: list[bool] = json.loads(told.stdout)
    return hits


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch) -> Task:
    """One that is judged on a GPU which is here."""
    monkeypatch.setenv("ARENA_CUDA_ARCH", "sm_90a")
    monkeypatch.setattr(triton, "TRIED", {})
    monkeypatch.setattr(device_kind, "gpu_vendor", lambda: "nvidia")
    task = load_task(FOLDER, "twice", "torch-to-triton")
    small, hidden = task.operator.cases
    large = dataclasses.replace(small, name="large", symbols={"rows": 16, "cols": 64, "by": 2.0})
    operator = dataclasses.replace(task.operator, cases=(large, small, hidden))
    return dataclasses.replace(task, operator=operator)


SMALL, LARGE, HIDDEN = 4 * 64, 16 * 64, 3 * 67
"""Elements of its cases."""


def test_calls_that_everybody_knows_are_found_compiled(
    task: Task, cache: Path, tmp_path: Path
) -> None:
    made = build(task, "triton", {"twice.py": KERNEL}, cache)
    known = [case["rows"] * case["cols"] for case in task.checked_cases()]
    assert {SMALL, LARGE, 1} < set(known) and HIDDEN not in known
    hits = ran(made, tmp_path, known)
    assert len(hits) > 5 and all(hits)
    assert ran(made, tmp_path, [SMALL, HIDDEN]) == [True, False]
    assert ran(made, tmp_path, [HIDDEN]) == [True], "what was compiled is kept"
    assert not (made.folder / "work").exists()


def test_what_hidden_cases_need_is_compiled_apart(task: Task, cache: Path, tmp_path: Path) -> None:
    files = {"twice.py": KERNEL}
    made, hidden = build(task, "triton", files, cache), lasting_cases(task, b"secret")
    folder = compile_cases(task, files, made, hidden)
    counts = [case["rows"] * case["cols"] for case in hidden]
    assert HIDDEN in counts and len(counts) > 1
    assert set(ran(made, tmp_path / "with", [SMALL, *counts], folder)) == {True}
    assert not all(ran(made, tmp_path / "without", counts))
    assert compile_cases(task, files, made, hidden) == folder, "found"
    names = {path.name for path in folder.rglob("*")}
    assert not {"compiling", "request.json"} & names, "nothing else names a hidden case"
    known = {path.name for path in (made.folder / triton_cache.FOLDER).iterdir()}
    assert not known & names and folder not in made.folder.parents


def test_what_a_baseline_needs_on_hidden_cases_is_compiled_ahead(
    task: Task, tmp_path: Path
) -> None:
    folder = shutil.copytree(task.operator.folder, tmp_path / "twice")
    (folder / "baseline").mkdir()
    (folder / "baseline/triton.py").write_text(KERNEL)
    operator = dataclasses.replace(task.operator, folder=folder)
    task = dataclasses.replace(task, operator=operator, track=Track("triton", "triton"))
    hidden = lasting_cases(task, b"secret")
    compile_baselines(task, tmp_path / "cache", hidden)
    (made,) = baselines(task, tmp_path / "cache")
    further = with_further(made, hidden).further
    assert further and with_further(made, hidden[:1]).further is None, "of these cases alone"
    counts = [case["rows"] * case["cols"] for case in hidden]
    assert set(ran(made, tmp_path, [SMALL, *counts], further)) == {True}


@pytest.mark.parametrize("final", [True, False])
def test_only_a_final_verdict_compiles_for_hidden_cases(
    task: Task, cache: Path, final: bool
) -> None:
    trial = Trial(
        task, {"twice.py": KERNEL}, cache, final, start=lambda made: pytest.fail("measured")
    )
    assert compile_gate.judge(trial).verdict is Verdict.PASSED
    assert (trial.compiled is not None) is final


def test_hidden_cases_that_fail_to_compile_fail_no_build(
    task: Task, cache: Path, tmp_path: Path
) -> None:
    failing = KERNEL.replace("    n = x", f"    assert x.numel() != {HIDDEN}\n    n = x")
    files = {"twice.py": failing}
    made, hidden = build(task, "triton", files, cache), lasting_cases(task, b"secret")
    compile_cases(task, files, made, hidden)


def test_where_nothing_is_run_one_call_is_compiled(
    task: Task, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_kind, "gpu_vendor", lambda: "")
    made = build(task, "triton", {"twice.py": KERNEL}, cache)
    assert ran(made, tmp_path, [SMALL, LARGE]) == [True, False]


@pytest.fixture
def altered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Has a copy of the script compile in which one piece is replaced."""

    def alter(old: str, new: str) -> None:
        copy = tmp_path / "altered.py"
        text = Path(build_triton.__file__).read_text()
        assert old in text
        copy.write_text(text.replace(old, new))
        monkeypatch.setattr(triton, "_COMPILER", copy)

    return alter


def test_a_call_that_does_not_end_keeps_no_build_waiting(
    task: Task, cache: Path, altered: Callable[[str, str], None]
) -> None:
    altered("MAX_AHEAD_SECONDS, MAX_PROCESSES = 30, 4", "MAX_AHEAD_SECONDS, MAX_PROCESSES = 1, 1")
    endless = KERNEL.replace(
        "    n = x", f"    while x.numel() not in ({SMALL}, 1):\n        pass\n    n = x"
    )
    made = build(task, "triton", {"twice.py": endless}, cache)
    assert made.outputs[0].ok and made.outputs[0].duration_ms < 30_000


@pytest.mark.parametrize(("gibibytes", "room"), [(1, True), (3, False)])
def test_processes_that_share_the_calls_share_the_memory(
    task: Task,
    cache: Path,
    tmp_path: Path,
    altered: Callable[[str, str], None],
    gibibytes: int,
    room: bool,
) -> None:
    altered("len(os.sched_getaffinity(0))", "MAX_PROCESSES")
    workspace = f"    torch.empty({gibibytes} << 30, dtype=torch.uint8)\n"
    source = "import torch\n" + KERNEL.replace("    n = x", f"{workspace}    n = x")
    made = build(task, "triton", {"twice.py": source}, cache)
    assert made.outputs[0].ok
    assert ran(made, tmp_path, [SMALL, LARGE]) == [True, room]


def test_what_is_no_file_of_a_cache_is_left_behind(tmp_path: Path) -> None:
    left, folder, secret = tmp_path / "cache", tmp_path / "artefact", tmp_path / "secret.json"
    secret.write_text("{}")
    for name in ("first", "last"):
        (left / name).mkdir(parents=True)
        (left / name / "kernel.cubin").write_bytes(b"1")
    (left / "first" / "kernel.ptx").write_text("a step in between")
    (left / "first" / "linked.json").symlink_to(secret)
    (left / "linked").symlink_to(left / "first")
    (left / "last" / "scale.autotune.json").write_text("equal times")
    os.mkfifo(left / "last" / "pipe.json")
    triton_output.keep(left, folder / "compiled")
    kept = {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}
    assert kept == {"compiled/first/kernel.cubin", "compiled/last/kernel.cubin"}
    triton_output.keep(tmp_path / "nothing", tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_entries_are_kept_whole_while_there_is_room(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / "cache" / name).mkdir(parents=True)
        for kind in ("cubin", "json"):
            (tmp_path / "cache" / name / f"kernel.{kind}").write_bytes(b"1")
    triton_output.keep(tmp_path / "cache", tmp_path / "compiled", max_bytes=5)
    assert sorted(path.name for path in (tmp_path / "compiled").iterdir()) == ["a", "b"]
    assert len(list((tmp_path / "compiled").glob("*/*"))) == 4


def test_entries_without_bytes_take_room_too(tmp_path: Path) -> None:
    for number in range(9):
        (tmp_path / "cache" / str(number)).mkdir(parents=True)
        (tmp_path / "cache" / str(number) / "kernel.json").touch()
    triton_output.keep(tmp_path / "cache", tmp_path / "compiled", max_files=5)
    assert len(list((tmp_path / "compiled").iterdir())) == 2


def test_what_cannot_be_copied_is_compiled(tmp_path: Path) -> None:
    (tmp_path / "compiled" / "entry").mkdir(parents=True)
    (tmp_path / "home").write_text("in the way")
    triton_cache.restore(tmp_path / "compiled", tmp_path / "home" / "cache")
    assert (tmp_path / "home").is_file()


def test_a_group_that_cannot_be_read_is_nobodys_end(tmp_path: Path) -> None:
    entry = tmp_path / "compiled" / "entry"
    entry.mkdir(parents=True)
    for number, text in enumerate(["no JSON", "[]", '{"child_paths": [1]}', '{"child_paths": {}}']):
        (entry / f"__grp__{number}.json").write_text(text)
    triton_cache.restore(tmp_path / "compiled", tmp_path / "home")
    assert len(list((tmp_path / "home" / "entry").iterdir())) == 4
