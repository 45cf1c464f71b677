"""Architectures and production tasks as data."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
from torch import nn

from evaluation.device_kind import CPU, GPU
from evaluation.errors import RequestError, TaskError
from evaluation.kinds.module import limits
from evaluation.kinds.module.architectures import (
    FAMILIES,
    FOLDER,
    architectures,
    find_task,
    load,
)
from evaluation.kinds.module.fit import REQUIRED, drop_expert

ROOT = Path(__file__).resolve().parents[4]
MIN_ARCHITECTURES, MIN_TASKS, MIN_TASKED = 54, 60, 20
PAPER = {"same": 31, "stand-in": 10}
"""Least number of FastKernels' architectures that are here, and that others stand in for."""

FILE = """
title = "Tiny"
family = "llm"
library = "transformers"
model = "LlamaForCausalLM"
config = "LlamaConfig"
kind = "causal"
cache = "static"

[settings]
hidden_size = 64

[cpu.settings]
num_hidden_layers = 2

[cpu.inputs]
input_ids = { shape = [1, 8], below = 32 }

[gpu.inputs]
input_ids = { shape = [1, 8], below = 32 }
"""


def test_architectures_cover_every_family() -> None:
    found = architectures()
    assert len(found) >= MIN_ARCHITECTURES
    assert {a.family for a in found.values()} == set(FAMILIES)


def test_tasks_are_many_over_many_architectures_and_every_family() -> None:
    found = [(a, task) for a in architectures().values() for task in a.tasks]
    assert len(found) >= MIN_TASKS
    assert len({a.name for a, _ in found}) >= MIN_TASKED
    assert {a.family for a, _ in found} == set(FAMILIES)
    names = Counter(task.name for _, task in found)
    assert [name for name, count in names.items() if count > 1] == []


def test_table_of_a_size_is_merged_over_the_shared_one(tmp_path: Path) -> None:
    path = tmp_path / "tiny.toml"
    path.write_text(FILE)
    tiny = load(path)
    assert tiny.sizes["cpu"].settings == {"hidden_size": 64, "num_hidden_layers": 2}
    assert tiny.sizes["gpu"].settings == {"hidden_size": 64}
    assert tiny.phases == ("prefill", "decode")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('family = "llm"', 'family = "other"', "family: must be one of llm"),
        ('cache = "static"', "", "cache: a causal model needs one of"),
        ("below = 32", "under = 32", "under: unknown key"),
        ("shape = [1, 8], ", "", "shape: missing; add a shape"),
    ],
)
def test_malformed_architecture_is_refused(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    path = tmp_path / "tiny.toml"
    path.write_text(FILE.replace(old, new))
    with pytest.raises(TaskError, match=re.escape(message)):
        load(path)


@pytest.mark.parametrize(
    ("ranks", "message"),
    [
        (1, "parallel.ranks: must be 2 or more"),
        (3, "cpu.settings.hidden_size is 64; it must be a multiple of the 3 ranks"),
    ],
)
def test_model_that_cannot_be_split_is_refused(tmp_path: Path, ranks: int, message: str) -> None:
    path = tmp_path / "tiny.toml"
    parallel = '\n[parallel]\nranks = {}\ndivided = ["hidden_size"]\ncolumn = ["q"]\nrow = ["o"]\n'
    path.write_text(FILE + parallel.format(2))
    tiny = load(path)
    assert tiny.ranks == 2 and tiny.parallel and tiny.parallel.row == ("o",)
    path.write_text(FILE + parallel.format(ranks))
    with pytest.raises(TaskError, match=re.escape(message)):
        load(path)


def test_library_that_only_the_judge_would_import_is_refused(tmp_path: Path) -> None:
    """The fork server starts without PYTHONPATH, and found another release of transformers."""
    library = tmp_path / "transformers"
    library.mkdir()
    (library / "__init__.py").touch()
    asked = "from evaluation.kinds.module.architectures import architectures as found\n"
    asked += "print(found()['pi0'].missing())"
    completed = subprocess.run(
        [sys.executable, "-c", asked],
        env={"PYTHONPATH": f"{tmp_path}:{ROOT}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert completed.stdout.startswith(f"transformers is in {tmp_path}, which sandboxed processes")


def test_unknown_task_is_refused_with_the_command_that_lists_them() -> None:
    with pytest.raises(RequestError, match="production tasks"):
        find_task("no_such_task")


def test_probe_rebuilds_the_modules_of_every_task() -> None:
    results = json.loads((FOLDER / "probe.json").read_text())["architectures"]
    probed = {result["name"]: result for result in results}
    found = architectures()
    assert set(probed) == set(found)
    works = [name for name, result in probed.items() if result["finite"] and not result["error"]]
    assert len(works) >= MIN_ARCHITECTURES
    for architecture in found.values():
        if not architecture.tasks:
            continue
        result = probed[architecture.name]
        assert (result["error"], result["finite"]) == ("", True), architecture.name
        rebuilt = {module["module"] for module in result["modules"] if module["rebuilds"]}
        assert {task.module for task in architecture.tasks} <= rebuilt, architecture.name


def test_table_of_the_paper_is_complete() -> None:
    """The page lists every architecture of FastKernels with its place here."""
    page = (ROOT / "tasks/production/README.md").read_text()
    rows = re.findall(r"^\| ([^|]+) \| (same|stand-in|missing) \| ([^|]+) \|", page, re.MULTILINE)
    assert len(rows) == 47
    counts = Counter(place for _, place, _ in rows)
    assert all(counts[place] >= least for place, least in PAPER.items())
    listed = {name.strip(): place for name, place, _ in rows}
    named = [a for a in architectures().values() if a.paper]
    here = {a.paper: "stand-in" if a.stand_in else "same" for a in named}
    assert here == {name: place for name, place in listed.items() if place != "missing"}


def test_limits_are_fitted_in_every_family() -> None:
    fitted = [a for a in architectures().values() if limits.limits_of(a.name, CPU) and a.tasks]
    assert {a.family for a in fitted} == set(FAMILIES)


def test_limits_of_a_gpu_are_those_of_a_cpu_where_the_file_names_it() -> None:
    assert limits.all_limits()["llama"][GPU] == CPU
    assert limits.limits_of("llama", GPU) == limits.limits_of("llama", CPU) is not None
    assert limits.limited_kinds("llama") == (GPU, CPU)


def test_limits_are_exceeded_by_every_mutant() -> None:
    found = limits.all_limits()
    assert {"llama", "qwen3_moe", "dit"} <= set(found)
    fits = [(name, kind, data) for name, each in found.items() for kind, data in each.items()]
    for name, kind, data in fits:
        if data == CPU:
            continue
        own = limits.limits_of(name, kind)
        assert own is not None
        for honest in data["honest"].values():
            assert limits.Ratios(*honest).within(own), name
        mutants = data["mutants"]
        assert set(REQUIRED) == {"skipped layer", "int8 weights"} <= set(mutants), name
        for mutant, ratios in mutants.items():
            assert not limits.Ratios(*ratios).within(own), f"{name}: {mutant}"


def test_expert_of_a_configuration_is_dropped_once_for_all_its_modules() -> None:
    config = SimpleNamespace(top_k_experts=4)
    routers = nn.ModuleList([nn.Identity(), nn.Identity()])
    for router in routers:
        router.config = config
    drop_expert(routers)
    assert config.top_k_experts == 3
    assert "dropped expert" in limits.all_limits()["diffusion_gemma"][CPU]["mutants"]
