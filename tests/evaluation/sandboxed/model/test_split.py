"""Weights and settings of ranks, and the rules for modules that are split."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from evaluation.device_kind import CPU, GPU
from evaluation.errors import Rejected, RequestError, SubmissionError, TaskError, Unsupported
from evaluation.kinds.module import judge, tape, windows
from evaluation.kinds.module.architectures import Parallel, find_task
from evaluation.kinds.module.composition import Part
from evaluation.kinds.module.windows import Checked, ModelWindows
from evaluation.sandboxed.model import models, split
from evaluation.sandboxed.model.models import ModelData
from evaluation.sandboxed.model.phases import Extent, Regime, extent
from tests.conftest import skip_or_fail

CANDIDATE = (Path(__file__).parents[2] / "kinds/module/candidates/rank_mlp.py").read_text()
NATIVE = "from torch.utils.cpp_extension import load_inline\nload_inline('x', cpp_sources='')\n"


@torch.inference_mode()
def test_parts_of_all_ranks_add_up_to_the_whole_module() -> None:
    architecture, _ = find_task("llama_tp_mlp")
    if why := architecture.missing():
        skip_or_fail(why)
    parallel = architecture.parallel
    assert parallel is not None
    data = ModelData.of(architecture, architecture.sizes[CPU])
    data = dataclasses.replace(data, dtype="float64")
    whole = models.build(data)
    models.draw_weights(whole, 1)
    ranks = []
    for rank in range(parallel.ranks):
        model = models.build(split.rank_data(data, parallel))
        model.load_state_dict(split.shard(whole.state_dict(), parallel, rank))
        ranks.append(model)
    x = torch.randn(1, 8, 256, dtype=torch.float64)
    path = "model.layers.1.mlp"
    parts = [model.get_submodule(path)(x) for model in ranks]
    torch.testing.assert_close(sum(parts), whole.get_submodule(path)(x))
    assert list(split.row_parallel(ranks[0].get_submodule(path), parallel.row)) == [
        ranks[0].get_submodule(f"{path}.down_proj")
    ]
    attention = ranks[0].get_submodule("model.layers.0.self_attn")
    assert attention.q_proj.weight.shape == (128, 256)  # type: ignore[union-attr]


def test_bias_that_every_rank_would_add_is_refused() -> None:
    parallel = Parallel(2, ("inner",), ("up",), ("down",))
    state = {"up.bias": torch.arange(4), "down.bias": torch.zeros(4)}
    with pytest.raises(TaskError, match=r"down.bias: a row-parallel layer must have no bias"):
        split.shard(state, parallel, 0)
    del state["down.bias"]
    assert split.shard(state, parallel, 1)["up.bias"].tolist() == [2, 3]


def test_error_of_a_split_module_is_that_of_the_sum() -> None:
    linear = torch.nn.Linear(4, 4, bias=False)
    parts = [torch.nn.Linear(2, 4, bias=False) for _ in range(2)]
    session: Any = SimpleNamespace(
        model=torch.nn.Sequential(linear),
        library_modules=lambda path: [torch.nn.Identity(), torch.nn.Identity()] if parts else [],
        device="cpu",
        dtype=torch.float32,
    )
    x = torch.ones(1, 4)
    call = tape.ModuleCall("0", "prefill", {"tuple": [{"tuple": [{"tensor": 0}]}, {"dict": {}}]},
                           (x,), (x,))  # fmt: skip
    assert torch.equal(tape.Truth(session, call).library(call)[0], 2 * x)


def test_ranks_that_choose_different_tokens_are_refused() -> None:
    session: Any = SimpleNamespace(draw=lambda phase: {})
    tokens = [torch.tensor([1, 2]), torch.tensor([1, 3])]
    found: Any = SimpleNamespace(mode="candidate", phase="decode", session=session)
    ModelWindows._check_agreement(found, [{"tokens": tokens[0]}] * 2)
    with pytest.raises(SubmissionError, match="ranks 0 and 1 chose different tokens"):
        ModelWindows._check_agreement(found, [{"tokens": each} for each in tokens])


def test_budget_is_that_of_the_worst_rank() -> None:
    def side(*errors: float) -> Any:
        checked = {n: Checked([torch.full((50,), each)]) for n, each in enumerate(errors)}
        return SimpleNamespace(
            checked=checked, phase="prefill", regime=Regime.EAGER, late_errors=[]
        )

    limits = judge.Ratios(1.3, 1.3)
    assert windows.check_budget(side(1.0, 1.2), side(1.0, 1.0), limits).median == pytest.approx(1.2)
    with pytest.raises(SubmissionError, match="prefill, eager, rank 1: the model's error"):
        windows.check_budget(side(1.0, 1.4), side(1.0, 1.0), limits)


def test_ranks_are_measured_in_eager_alone() -> None:
    assert extent(GPU, True, "llama_tp", 2) == Extent((Regime.EAGER,))


def test_collectives_are_for_modules_of_several_ranks() -> None:
    for name, ranks in (("llama_tp_mlp", 2), ("llama_mlp", 1)):
        architecture, task = find_task(name)
        assert architecture.ranks == ranks
        if ranks > 1:
            judge.check_rules({task.target_file: CANDIDATE}, task, ranks)
        else:
            with pytest.raises(Unsupported, match=r"torch.distributed"):
                judge.check_rules({task.target_file: CANDIDATE}, task, ranks)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (CANDIDATE.replace("all_reduce", "init_process_group"), "is not supported here"),
        (CANDIDATE + NATIVE, "takes no native code"),
    ],
)
def test_other_process_groups_and_native_code_are_refused(source: str, message: str) -> None:
    _, task = find_task("llama_tp_mlp")
    with pytest.raises((Rejected, Unsupported), match=message):
        judge.check_rules({task.target_file: source}, task, 2)


@pytest.mark.parametrize(
    ("gpus", "isolated", "message"),
    [
        (1, True, "llama_tp_mlp: it takes 2 GPUs, and the judge sees 1 here"),
        (2, False, "llama_tp_mlp: its ranks need namespaces for a network of their own"),
    ],
)
def test_machine_without_gpus_or_isolation_for_the_ranks_is_refused(
    gpus: int, isolated: bool, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judge, "gpu_count", lambda: gpus)
    monkeypatch.setattr(judge, "isolates_ranks", lambda: isolated)
    architecture, task = find_task("llama_tp_mlp")
    part = Part(task, {task.target_file: CANDIDATE})
    with pytest.raises(RequestError, match=message):
        judge.judge(architecture, [part], GPU, tmp_path, extent(GPU, False, "", 2))


def test_gpus_that_the_judge_sees_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    from evaluation import device_kind

    monkeypatch.setattr(device_kind, "gpu_vendor", lambda: "nvidia")
    for visible, count in (("0,1", 2), ("GPU-a", 1), ("", 0)):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert device_kind.gpu_count() == count
    monkeypatch.setattr(device_kind, "gpu_vendor", lambda: "")
    assert device_kind.gpu_count() == 0
