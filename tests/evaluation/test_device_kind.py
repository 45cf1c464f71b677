"""Device kinds: detection of a GPU, and fallbacks of GPU languages without one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from evaluation import device_kind
from evaluation.bench.devices import detect
from evaluation.code.languages import languages
from evaluation.errors import Broken
from evaluation.kinds.kernel.load import load_task

TASKS = Path(__file__).resolve().parents[2] / "tasks"
Machine = Callable[..., None]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    """Function that sets the device files, and PyTorch's build: `cuda`, `hip` or neither."""

    def arrange(*nodes: str, built_for: str = "") -> None:
        for name in nodes:
            (tmp_path / name).touch()
        monkeypatch.setattr(
            device_kind, "_torch_is_built_for", lambda toolkit: toolkit == built_for
        )
        device_kind.gpu_vendor.cache_clear()

    monkeypatch.delenv("ARENA_GPU", raising=False)
    monkeypatch.setattr(device_kind, "DEVICES", tmp_path)
    yield arrange
    device_kind.gpu_vendor.cache_clear()


@pytest.mark.parametrize(
    ("nodes", "built_for", "vendor"),
    [
        ((), "cuda", ""),
        (("nvidiactl", "nvidia-uvm"), "cuda", ""),
        (("nvidia0", "nvidiactl"), "cuda", "nvidia"),
        (("nvidia12",), "cuda", "nvidia"),
        (("nvidia0",), "", ""),
        (("nvidia0",), "hip", ""),
        (("kfd",), "hip", "amd"),
        (("kfd",), "cuda", ""),
        (("kfd", "nvidia0"), "cuda", "nvidia"),
    ],
)
def test_gpu_vendor_needs_device_file_and_matching_pytorch(
    machine: Machine, nodes: tuple[str, ...], built_for: str, vendor: str
) -> None:
    machine(*nodes, built_for=built_for)
    assert device_kind.gpu_vendor() == vendor


def test_gpu_is_ignored_with_arena_gpu_none(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARENA_GPU", "none")
    machine("nvidia0", built_for="cuda")
    assert device_kind.gpu_vendor() == ""
    assert device_kind.kind_of(("gpu", "cpu")) == "cpu"


def test_pytorch_build_is_read_from_its_version_file() -> None:
    import torch

    assert device_kind._torch_is_built_for("cuda") == (torch.version.cuda is not None)
    assert device_kind._torch_is_built_for("hip") == (torch.version.hip is not None)


def test_kind_of_language_is_the_first_available(machine: Machine) -> None:
    machine("nvidia0", built_for="cuda")
    assert device_kind.kind_of(("gpu", "cpu")) == "gpu"
    assert device_kind.kind_of(("cpu",)) == "cpu"


@pytest.mark.parametrize(
    ("node", "built_for"), [("null", ""), ("nvidia0", ""), ("kfd", "hip")],
    ids=["no GPU", "a GPU and PyTorch for CPUs", "an AMD GPU"],
)  # fmt: skip
def test_without_judged_gpu_triton_is_interpreted_and_others_compiled(
    machine: Machine, node: str, built_for: str
) -> None:
    machine(node, built_for=built_for)
    assert load_task(TASKS, "softmax", "torch-to-triton").kind == "cpu"
    assert load_task(TASKS, "softmax", "torch-to-cuda").kind == "gpu"
    assert "interpreter" in languages()["triton"].judged_here()
    assert languages()["triton"].runs_here() == ""
    for language in ("cuda", "hip"):
        assert "compiled, not run" in languages()[language].runs_here()


def test_with_judged_gpu_all_gpu_languages_are_timed(machine: Machine) -> None:
    machine("nvidia0", built_for="cuda")
    for language in ("cuda", "hip", "triton", "torch"):
        assert languages()[language].judged_here() == ""


def test_missing_device_raises_broken_with_advice(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(detect, "_devices", lambda folder, kind: ())
    with pytest.raises(Broken, match=r"no gpu that can be judged on; .*ARENA_GPU=none"):
        detect.device_for("gpu", tmp_path)
    with pytest.raises(Broken, match=r"no cpu that can be judged on$"):
        detect.device_for("cpu", tmp_path)
