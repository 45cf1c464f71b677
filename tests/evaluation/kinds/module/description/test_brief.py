"""Task briefs of modules: they are complete, honest about what is missing, and fast to compare."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from evaluation.device_kind import CPU, GPU
from evaluation.errors import TaskError
from evaluation.kinds.module import judge as production
from evaluation.kinds.module.architectures import FOLDER, Architecture, architectures, find_task
from evaluation.kinds.module.description import brief, descriptions
from evaluation.kinds.module.description.descriptions import COPY, DESCRIBED, description_of
from evaluation.kinds.module.limits import Ratios, all_limits
from tests.conftest import skip_or_fail

JUDGED = [architectures()[name] for name in all_limits()]


@pytest.fixture
def libraries() -> None:
    for architecture in JUDGED:
        if why := architecture.missing():
            skip_or_fail(why)


def test_each_task_with_error_limits_is_described() -> None:
    missing = [
        task.name
        for architecture in JUDGED
        for task in architecture.tasks
        if description_of(architecture, task) is None
    ]
    assert not missing, "run `python -m evaluation production describe --write`"


@pytest.mark.usefixtures("libraries")
def test_brief_names_module_shapes_gates_and_command() -> None:
    architecture, task = find_task("llama_rms_norm")
    found = brief.brief_of(architecture, task)
    assert set(found.files) == {"llama_rms_norm.py", "TASK.md", "reference.py"}
    text = found.files["TASK.md"]
    for part in (
        task.module, "`256, eps=1e-06` | 5", "hidden_states bfloat16[1, 64, 256]", "decode",
        "The ceiling", "1.30 times", "./arena-check", "Licence", "model.norm",
        "On a CPU both run in eager, the decode also in `torch.compile`. On a GPU",
    ):  # fmt: skip
        assert part in text + found.reference, part
    assert found.facts.places == 5 and found.facts.unavailable == ""
    assert found.files["reference.py"] == found.reference


@pytest.mark.usefixtures("libraries")
def test_brief_of_a_model_that_no_gpu_compiles_names_the_graph_alone() -> None:
    found = brief.brief_of(*find_task("rwkv_layer_norm"))
    assert found.facts.regimes[GPU] == ("eager", "graph")
    text = found.files["TASK.md"]
    assert "On a GPU both also run as a CUDA graph." in text and "torch.compile`" not in text


@pytest.mark.usefixtures("libraries")
def test_brief_without_error_limits_on_a_gpu_is_of_cpus_alone() -> None:
    found = brief.brief_of(*find_task("llama_rms_norm"), limits={CPU: Ratios(1.3, 1.4)})
    assert found.facts.kinds == (CPU,) and set(found.facts.regimes) == {CPU}
    text = found.files["TASK.md"]
    assert "not judged on a GPU" in text and "1.30 times" in text and "1.40 times" in text


@pytest.mark.usefixtures("libraries")
@pytest.mark.parametrize(
    ("name", "exact"),
    [
        ("llama_rms_norm", "float32"),
        ("xlstm_rms_norm", "float64"),
        ("esmfold2_pairs_layer_norm", "float32"),
    ],
)
def test_brief_names_the_dtype_of_the_exact_model(name: str, exact: str) -> None:
    text = brief.brief_of(*find_task(name)).files["TASK.md"]
    assert f"the model's error against a {exact} model" in text


@pytest.mark.usefixtures("libraries")
def test_starter_files_pass_static_analysis_and_most_copy_the_class() -> None:
    copies = []
    for architecture in JUDGED:
        for task in architecture.tasks:
            target = brief.brief_of(architecture, task).files[task.target_file]
            production.check_rules({task.target_file: target}, task, architecture.ranks)
            compile(target, task.target_file, "exec")
            described = description_of(architecture, task)
            assert described is not None
            assert "class ModelNew" in target
            copies.append(described.starter == COPY)
    assert sum(copies) > len(copies) / 2


@pytest.mark.usefixtures("libraries")
def test_starter_of_a_class_that_cannot_be_copied_is_a_skeleton() -> None:
    architecture, task = find_task("llama_attention")
    target = brief.brief_of(architecture, task).files[task.target_file]
    assert "def __init__(self, config, layer_idx)" in target
    assert "NotImplementedError" in target


def test_missing_library_leaves_a_reason_and_no_files(monkeypatch: pytest.MonkeyPatch) -> None:
    architecture, task = find_task("llama_rms_norm")
    monkeypatch.setattr(Architecture, "missing", lambda self: "transformers is not installed")
    found = brief.brief_of(architecture, task)
    assert found.files == {} and found.facts.unavailable == "transformers is not installed"
    assert found.facts.shapes and "not installed" in found.reference


def test_description_of_a_changed_architecture_is_refused(tmp_path: Path) -> None:
    shutil.copy(FOLDER / DESCRIBED, tmp_path)
    text = (FOLDER / "llama.toml").read_text()
    (tmp_path / "llama.toml").write_text(text.replace("steps = 8", "steps = 4"))
    architecture, task = find_task("llama_rms_norm", tmp_path)
    with pytest.raises(TaskError, match="describe llama --write"):
        brief.key_of(architecture, task, tmp_path)


def test_written_descriptions_are_read_back(tmp_path: Path) -> None:
    found = descriptions.read()
    descriptions.write(found, tmp_path)
    assert (tmp_path / DESCRIBED).read_text() == (FOLDER / DESCRIBED).read_text()


@pytest.mark.usefixtures("libraries")
def test_brief_of_a_split_module_has_its_ranks_and_a_starter_with_the_sum() -> None:
    architecture, task = find_task("llama_tp_mlp")
    files = brief.brief_of(architecture, task).files
    assert "torch.distributed.all_reduce(result)" in files[task.target_file]
    assert "split over 2 ranks" in files["TASK.md"] and "in eager alone" in files["TASK.md"]
    architecture, task = find_task("llama_mlp")
    files = brief.brief_of(architecture, task).files
    assert "torch.distributed" not in files[task.target_file] + files["TASK.md"]
    assert "ranks," not in files["TASK.md"] and "as a CUDA graph" in files["TASK.md"]
