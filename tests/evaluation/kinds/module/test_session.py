"""Requests of a live session to its processes, its memory and its models, without a verdict."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from evaluation.bench.memory.host import HostMemory
from evaluation.bench.memory.layout import Layout, TensorSpec
from evaluation.bench.memory.region import Region
from evaluation.device_kind import CPU
from evaluation.errors import SubmissionError
from evaluation.kinds.module import tape
from evaluation.kinds.module.architectures import find_task
from evaluation.kinds.module.session import LiveSession, PhaseMemory
from evaluation.kinds.module.workload import TapedCall
from tests.conftest import skip_or_fail


class Recorder:
    """Stands in for a fork server or a process, and keeps what is asked of it."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Any]] = []

    def prepare(self, name: str) -> None:
        self.asked.append(("prepare", name))

    def import_modules(self, names: tuple[str, ...]) -> None:
        self.asked.append(("import", names))

    def connect(self) -> None:
        self.asked.append(("connect", None))

    def request(self, message: dict[str, Any], descriptors: list[int]) -> None:
        self.asked.append((message["do"], message))


def session_of(name: str, cache: Path, fork_server: Any) -> LiveSession:
    architecture, task = find_task(name)
    if why := architecture.missing():
        skip_or_fail(why)
    return LiveSession(architecture, [task], CPU, fork_server, cache)


@pytest.fixture
def session(cache: Path) -> Iterator[LiveSession]:
    with session_of("gemma3_rms_norm", cache, Recorder()) as made:
        yield made


def test_process_opens_the_gpus_memory_before_it_builds_a_model(
    session: LiveSession,
) -> None:
    process: Any = Recorder()
    session._build(process, "library")
    assert [what for what, _ in process.asked] == ["connect", "model"]


def test_fork_server_imports_the_models_module_as_well_as_the_tasks(cache: Path) -> None:
    fork_server = Recorder()
    with session_of("dit_layer_norm", cache, fork_server):
        imported = dict(fork_server.asked)["import"]
    assert "diffusers.models.transformers.dit_transformer_2d" in imported
    assert "diffusers" in imported


@pytest.mark.parametrize(
    ("name", "most"), [("lightning_attention_experts", 2), ("llama_rotary_embedding", 1000)]
)
def test_integer_is_drawn_below_the_bound_that_a_module_has_without_an_error(
    name: str, most: int, cache: Path
) -> None:
    with session_of(name, cache, Recorder()) as session:
        phase = session.architecture.phases[0]
        call = tape.record(session, session.tasks[0], phase).calls[0]
        integer = next(n for n, value in call.slot.items() if value.dtype == torch.int64)
        pool = TapedCall(session, [call] * 8).pool(torch.Generator().manual_seed(1))
        pool.begin(64)
        drawn = torch.empty(64, call.slot[integer].numel(), dtype=torch.int64)
        pool.write(integer, pool.draw(integer, 64), drawn)
    assert int(drawn.min()) >= 0 and most // 4 <= int(drawn.max()) < most


def test_draw_of_a_session_reveals_no_later_draw(cache: Path) -> None:
    with session_of("gemma3_rms_norm", cache, Recorder()) as session:
        one, other = (session.new_generator().initial_seed() for _ in range(2))
        assert one != other


def test_models_are_freed_with_the_session(cache: Path) -> None:
    with session_of("gemma3_rms_norm", cache, Recorder()) as session:
        assert session.model and session.reference
    assert not hasattr(session, "model") and not hasattr(session, "reference")


def test_decode_has_logits_of_every_token_of_the_model(cache: Path) -> None:
    """A prompt may use fewer tokens than the model knows, as those on a GPU do."""
    architecture, task = find_task("gemma3_rms_norm")
    if why := architecture.missing():
        skip_or_fail(why)
    size = architecture.sizes[CPU]
    inputs = tuple(dataclasses.replace(spec, below=100) for spec in size.inputs)
    sizes = {CPU: dataclasses.replace(size, inputs=inputs)}
    architecture = dataclasses.replace(architecture, sizes=sizes)
    fork_server: Any = Recorder()
    with LiveSession(architecture, [task], CPU, fork_server, cache) as session:
        memory = session.phase_memory("decode")
        drawn = session.draw("decode")
        logits = session.forward(session.model, drawn, "prefill")
        assert memory.outputs.slot(0)["logits"].shape == (size.steps, logits.shape[-1])
        assert drawn["noise"].shape == (size.steps, logits.shape[-1])
        assert int(drawn["input_ids"].max()) < 100 < logits.shape[-1]
        memory.close()


def test_memory_of_a_module_is_not_that_of_its_model() -> None:
    """A GPU's memory is shared by role, and the decoy's module is bound while its model is."""
    roles = []

    class Memory(HostMemory):
        def region(self, role: str, layout: Layout) -> Region:
            roles.append(role)
            return super().region(role, layout)

    spec = TensorSpec("x", (4,), "float32")
    for phase in ("module", "prefill"):
        PhaseMemory(Memory(), [spec], [spec], 1, {"phase": phase}).close()
    assert len(set(roles)) == len(roles) == 4


def test_every_launch_of_a_window_is_searched_for_what_it_did_not_write() -> None:
    spec = TensorSpec("x", (4,), "float32")
    memory = PhaseMemory(HostMemory(), [spec], [spec], 3, {"phase": "forward"})
    for slot in range(3):
        memory.write(slot, {"x": torch.full((4,), float(slot))})
    for slot in range(2):
        memory.outputs.slot(slot)["x"].fill_(slot)
    assert memory.read(1, "here", 2)["x"].tolist() == [1.0] * 4
    with pytest.raises(SubmissionError, match="x was not written"):
        memory.read(1, "here", 3)
    memory.outputs.slot(2)["x"].fill_(2)
    memory.inputs.slot(2)["x"][0] = 7
    with pytest.raises(SubmissionError, match="changed the input x"):
        memory.read(1, "here", 3)
    memory.close()
