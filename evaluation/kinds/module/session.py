"""Live session: the processes, the weights and the shared memory of one production verdict."""

from __future__ import annotations

import dataclasses
import gc
import secrets
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import torch
from torch import nn

from evaluation.bench.memory.cuda_ipc import DeviceMemory
from evaluation.bench.memory.host import HostMemory, HostRegion
from evaluation.bench.memory.layout import Layout, TensorSpec
from evaluation.bench.memory.poison import poison, unwritten
from evaluation.bench.memory.region import Region
from evaluation.bench.process.fork_server import ForkServer
from evaluation.bench.process.handle import ProcessHandle
from evaluation.bench.process.limits import ProcessLimits
from evaluation.bench.timing.clock import WindowClock
from evaluation.device_kind import GPU, candidate_cores
from evaluation.errors import SubmissionError
from evaluation.kinds.module.architectures import Architecture, ModuleTask
from evaluation.kinds.module.kept_code import KeptCode
from evaluation.sandbox import untrusted_files
from evaluation.sandboxed.model import models, split
from evaluation.sandboxed.model.models import ModelData
from evaluation.sandboxed.model.phases import LOGIT_ROWS, Regime
from evaluation.tasks.input_families import dtype_name
from evaluation.types import Argument, Reason

MEMORY_MB = {"cpu": 4096, "gpu": 65536}
REPLY_SECONDS = 300.0
"""Limit on one reply: `torch.compile` of a whole model takes minutes on a slow CPU."""
UNTRUSTED = ("candidate", "decoy")


@dataclasses.dataclass(frozen=True)
class Built:
    """A built candidate: its folder, and the name of its file without the suffix."""

    folder: Path
    entry: str


class PhaseMemory:
    """Shared memory of one phase: fresh inputs, and outputs that are poisoned before each launch.

    Rows lie in a random order, so that no strided view spans launches. It is no `BufferRing`, which
    draws its inputs from a pool and checks each output by a tolerance: neither goes for a model.
    """

    late = late_whole = True

    def __init__(
        self,
        memory: HostMemory | DeviceMemory,
        inputs: list[TensorSpec],
        outputs: list[TensorSpec],
        slots: int,
        values: Mapping[str, Any],
    ) -> None:
        phase = values["phase"]  # a module's memory is in use while its model's is
        self.inputs = memory.region(f"{phase} inputs", Layout.of(inputs, slots).shuffled())
        self.outputs = memory.region(f"{phase} outputs", Layout.of(outputs, slots).shuffled())
        self.slots = slots
        self.values = dict(values)
        self.secret = secrets.randbits(63)
        self._written: dict[int, dict[str, torch.Tensor]] = {}
        self.memory = memory

    @property
    def regions(self) -> tuple[Region, Region]:
        return self.inputs, self.outputs

    def arguments(self) -> list[Argument]:
        """Return the arguments that `bind` sends; a live model needs the outputs' names alone."""
        return [Argument(spec.name, "output", spec.dtype) for spec in self.outputs.layout.specs]

    def write(self, slot: int, inputs: Mapping[str, torch.Tensor]) -> None:
        """Write the inputs of a slot and poison its outputs."""
        views = self.inputs.slot(slot)
        for name, value in inputs.items():
            views[name].copy_(value)
        self._written[slot] = dict(inputs)
        for output in self.outputs.slot(slot).values():
            poison(output.view(-1), self.secret)
        if self.inputs.bytes.is_cuda:  # a launch of another process could come before
            torch.cuda.synchronize(self.inputs.bytes.device)

    def read(self, slot: int, where: str, launches: int = 0) -> dict[str, torch.Tensor]:
        """Return copies of the outputs of a slot, where they are.

        The first `launches` slots are searched for elements that were not written, too.

        Raises: SubmissionError for elements not written, guards or inputs changed.
        """
        for region in self.regions:
            if gap := region.overwritten():
                message = f"{where}: wrote outside its tensors, {gap}"
                raise SubmissionError(Reason.OUT_OF_BOUNDS, message)
        for number in {slot, *range(launches)}:
            views = self.inputs.slot(number)
            for name, value in self._written[number].items():
                given = value.to(views[name].device, views[name].dtype)
                if not torch.equal(views[name], given):
                    message = f"{where}: changed the input {name}"
                    raise SubmissionError(Reason.INPUT_MUTATED, message)
            for name, output in self.outputs.slot(number).items():
                if bool(unwritten(output, self.secret).any()):
                    raise SubmissionError(Reason.STALE_OUTPUT, f"{where}: {name} was not written")
        return {name: output.clone() for name, output in self.outputs.slot(slot).items()}

    def read_all(self, slot: int, where: str, launches: int = 0) -> list[dict[str, torch.Tensor]]:
        """Return the outputs of every rank, here of one. Raises as `read`."""
        return [self.read(slot, where, launches)]

    def close(self) -> None:
        for region in self.regions:
            region.close()


class RankMemory:
    """Memory of one phase for every rank: all get the same inputs, and each has its outputs."""

    def __init__(self, ranks: Sequence[PhaseMemory]) -> None:
        self._ranks = tuple(ranks)
        self.slots, self.values = ranks[0].slots, ranks[0].values

    @property
    def regions(self) -> tuple[Region, ...]:
        return tuple(region for rank in self._ranks for region in rank.regions)

    def arguments(self) -> list[Argument]:
        return self._ranks[0].arguments()

    def write(self, slot: int, inputs: Mapping[str, torch.Tensor]) -> None:
        """Write the inputs of a slot for every rank, before any of them goes on."""
        for rank in self._ranks:
            rank.write(slot, inputs)

    def read_all(self, slot: int, where: str, launches: int = 0) -> list[dict[str, torch.Tensor]]:
        """Return the outputs of every rank, as `PhaseMemory.read` does of one, on one device."""
        device, found = self._ranks[0].outputs.bytes.device, []
        for number, rank in enumerate(self._ranks):
            outputs = rank.read(slot, at_rank(where, number, len(self._ranks)), launches)
            found.append({name: output.to(device) for name, output in outputs.items()})
        return found

    def close(self) -> None:
        for rank in self._ranks:
            rank.close()


Memory = PhaseMemory | RankMemory


def at_rank(where: str, rank: int, ranks: int) -> str:
    """Return where something was found, with the rank if there are several."""
    return f"{where}, rank {rank}" if ranks > 1 else where


class LiveSession:
    """Runs one architecture with a candidate, and the same architecture without it.

    The weights are drawn for each session, so nothing about them can be known before.
    """

    def __init__(
        self,
        architecture: Architecture,
        tasks: Sequence[ModuleTask],
        kind: str,
        fork_server: ForkServer,
        cache: Path,
    ) -> None:
        self.architecture, self.tasks, self.kind = architecture, tuple(tasks), kind
        self.size = architecture.sizes[kind]
        self.cache = cache
        self.device = "cuda" if kind == GPU else "cpu"
        self.data = ModelData.of(architecture, self.size)
        self._fork_server = fork_server
        self._seed = secrets.randbits(62)
        self._stack = ExitStack()
        self._stack.callback(self._free_models)
        self.parallel = architecture.parallel
        self.memories = [
            DeviceMemory(rank) if kind == GPU else HostMemory()
            for rank in range(architecture.ranks)
        ]
        for memory in self.memories:
            self._stack.callback(memory.close)
        self._processes: dict[str, ProcessHandle] = {}
        self._folders: dict[str, Path] = {}
        self.built: dict[str, Built] = {}
        """The built candidate of each task, by its name."""
        self._kept_code = KeptCode.of(cache, architecture.hash, torch.__version__)
        self._kept_code.create()
        self.fork_imports()
        torch.set_num_threads(1)
        torch.backends.cudnn.allow_tf32 = False  # the exact model's float32 is IEEE float32
        self._make_models()

    def fork_imports(self) -> None:
        """Let the fork server import what every process of this session needs."""
        names = [self.architecture.library, models.model_class(self.data).__module__]
        names += [task.module.rpartition(".")[0] for task in self.tasks]
        self._fork_server.prepare("torch")  # before a library imports the compiler with defaults
        self._fork_server.import_modules(names)

    def _make_models(self) -> None:
        self.model: nn.Module = models.build(self.data, self.device)
        models.draw_weights(self.model, self._seed)
        self.dtype = models.float_dtype(self.model)
        state = self.model.state_dict()
        parallel, ranks = self.parallel, range(self.architecture.ranks)
        shards = [split.shard(state, parallel, n) for n in ranks] if parallel else [state]
        self.weights = [self._sealed(each) for each in shards]
        self._rank_models: list[nn.Module] = []
        if parallel:
            for each in shards:
                built = models.build(split.rank_data(self.data, parallel), self.device)
                built.load_state_dict(each)
                self._rank_models.append(built.requires_grad_(False))
        exact = "float64" if self.dtype == torch.float32 else "float32"
        self.reference = models.build(dataclasses.replace(self.data, dtype=exact), self.device)
        if self.architecture.library == "torch_geometric":
            self.reference.double()
        own = self.reference.state_dict()
        self.reference.load_state_dict({k: v.to(own[k].dtype) for k, v in state.items()})
        self.model.requires_grad_(False)
        self.reference.requires_grad_(False)

    def _sealed(self, state: Mapping[str, torch.Tensor]) -> HostRegion:
        """Return weights that no process can write, also where it copies them to its GPU."""
        specs = [TensorSpec.of(name, value) for name, value in state.items()]
        region = HostRegion(Layout.of(specs, 1), read_only=True)
        self._stack.callback(region.close)
        for name, view in region.slot(0).items():
            view.copy_(state[name])
        return region

    def library_modules(self, path: str) -> list[nn.Module]:
        """Return the library's module at a path, or those of all ranks, whose results are added."""
        whole = self.model.get_submodule(path)
        if self.parallel and any(split.row_parallel(whole, self.parallel.row)):
            return [model.get_submodule(path) for model in self._rank_models]
        return [whole]

    def new_memory(
        self,
        inputs: list[TensorSpec],
        outputs: list[TensorSpec],
        slots: int,
        values: Mapping[str, Any],
    ) -> Memory:
        """Return memory for launches, for each rank where there are several."""
        ranks = [PhaseMemory(each, inputs, outputs, slots, values) for each in self.memories]
        return RankMemory(ranks) if len(ranks) > 1 else ranks[0]

    def _free_models(self) -> None:
        """Free the models, as the next session needs the GPU's memory."""
        del self.model, self.reference
        self._rank_models = []
        if self.kind == GPU:
            gc.collect()
            torch.cuda.empty_cache()

    def process(self, mode: str) -> ProcessHandle:
        """Return the process of a mode (see `evaluation.sandboxed.model.live_model`), started."""
        if mode not in self._processes:
            trusted = mode not in UNTRUSTED
            scratch = self._stack.enter_context(untrusted_files.scratch())
            self._folders[mode] = scratch
            built = [self.built[task.name] for task in self.tasks if self.built]
            assert trusted or built, "no candidate is built"
            folders = [each.folder for each in built] or [scratch]
            ranks = self.architecture.ranks
            limits = ProcessLimits(
                folder=folders[0],
                scratch=scratch,
                memory_bytes=MEMORY_MB[self.kind] << 20,
                seconds=REPLY_SECONDS,
                threads=max(1, len(candidate_cores(ranks)) // ranks),
                trusted=trusted,
                compiles=True,
                kind=self.kind,
                readable=(*folders[1:], self._kept_code.code, self._kept_code.headers),
                ranks=ranks,
            )
            process = ProcessHandle(self._fork_server, limits, WindowClock())
            self._stack.enter_context(process)
            self._build(process, mode)
            self._processes[mode] = process
        return self._processes[mode]

    def _build(self, process: ProcessHandle, mode: str) -> None:
        shared = [region.share() for region in self.weights]
        parallel = self.parallel
        data = split.rank_data(self.data, parallel) if parallel else self.data
        message = {
            "do": "model",
            "data": dataclasses.asdict(data),
            "added": list(parallel.row) if parallel else [],
            "device": self.device,
            "mode": mode,
            "parts": [self._part(task) for task in self.tasks],
            "weights": shared[0][0],
            "kept_code": [str(self._kept_code.code), str(self._kept_code.headers)],
        }
        process.connect()
        process.request(message, [number for _, descriptors in shared for number in descriptors])

    def _part(self, task: ModuleTask) -> dict[str, str]:
        built = self.built.get(task.name)
        candidate = {"folder": str(built.folder), "entry": built.entry} if built else {}
        return {"module": task.module, **candidate}

    def restrict(self, tasks: Sequence[ModuleTask]) -> None:
        """Replace the modules of these tasks alone from now on, in new processes."""
        for mode in UNTRUSTED:
            self.end(mode)
        self.tasks = tuple(tasks)

    def keep_compiled(self) -> None:
        """Keep what the baseline has compiled, for other processes and later verdicts."""
        self._kept_code.keep(self._folders["library"])

    def end(self, mode: str) -> None:
        """End the process of a mode, if there is one."""
        if mode in self._processes:
            self._processes.pop(mode).kill_and_wait()

    def bind(
        self, mode: str, memory: Memory, regime: Regime, repeatable: bool = False
    ) -> ProcessHandle:
        """Bind the process of a mode to the memory of a phase.

        Where it is `repeatable`, equal inputs give equal bits, and sums take longer on a GPU.
        """
        process = self.process(mode)
        values = {**memory.values, "regime": regime.value, "repeatable": repeatable}
        process.bind(memory.arguments(), memory.regions, values)
        return process

    def phase_memory(self, phase: str, slots: int = 1) -> Memory:
        """Return memory for launches of a phase of the whole model, one in each slot."""
        drawn = self.draw(phase)
        inputs = [TensorSpec.of(name, value) for name, value in drawn.items()]
        if phase == "decode":
            steps, vocabulary = drawn["noise"].shape
            outputs = [
                TensorSpec("tokens", (steps,), "int64"),
                TensorSpec("logits", (steps, vocabulary), dtype_name(self.dtype)),
            ]
        else:
            with torch.inference_mode():
                shape = tuple(self.forward(self.model, drawn, phase).shape)
            outputs = [TensorSpec("output", shape, dtype_name(self._output_dtype))]
        names = [spec.name for spec in self.size.inputs]
        return self.new_memory(inputs, outputs, slots, {"phase": phase, "inputs": names})

    def new_generator(self) -> torch.Generator:
        """Return a generator with a secret seed, where the model is: a GPU draws in no time.

        On a CPU the seed has 32 bits, which some minutes find from what was drawn, and so all later
        draws of the same generator.
        """
        return torch.Generator(self.device).manual_seed(secrets.randbits(62))

    def draw(self, phase: str) -> dict[str, torch.Tensor]:
        """Return fresh secret inputs of a phase."""
        generator = self.new_generator()
        inputs = models.draw_inputs(self.size.inputs, self.dtype, generator)
        if phase == "decode":
            steps, vocabulary = self.size.steps, self.vocabulary
            where: dict[str, Any] = {"generator": generator, "device": self.device}
            inputs["first_token"] = torch.randint(vocabulary, (1,), **where)
            uniform = torch.rand(steps, vocabulary, **where)
            # Gumbel noise: the largest of logits + noise is a sample of their softmax.
            inputs["noise"] = -torch.log(-torch.log(uniform.clamp(1e-9, 1 - 1e-7)))
        return inputs

    @property
    def vocabulary(self) -> int:
        """The tokens that a causal model has logits for; prompts may have fewer of them."""
        config: Any = self.model.config
        return int(config.get_text_config().vocab_size)

    def forward(
        self, model: nn.Module, inputs: Mapping[str, torch.Tensor], phase: str
    ) -> torch.Tensor:
        """Return what a forward of the judge's own model returns in this phase."""
        given = models.cast(self.size.inputs, inputs, models.float_dtype(model), self.device)
        result = models.forward(model, given, self.data)
        self._output_dtype = result.dtype
        return result[:, -LOGIT_ROWS:] if phase == "prefill" else result

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        """End all processes, then free the memory that they share."""
        self._stack.close()
