"""Processes for the code of tasks, isolated like those of candidates, and requests to them.

Such a process sees the text of `reference.py`, and sizes, a seed and inputs of the case that is
computed: no file of the task or of the judge, no name of a case, no later seed. Tensors come back
as bytes in memory that the judge lays out, and are copied from there. All else that it says is
numbers and names of dtypes, which are checked.
"""

from __future__ import annotations

import dataclasses
import math
import os
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from evaluation.bench.memory.cuda_ipc import DeviceMemory
from evaluation.bench.memory.cuda_runtime import DEVICE, free_unused
from evaluation.bench.memory.host import HostMemory
from evaluation.bench.memory.layout import Layout, TensorSpec
from evaluation.bench.process.fork_server import ForkServer
from evaluation.bench.process.handle import ProcessHandle
from evaluation.bench.process.limits import ProcessLimits
from evaluation.device_kind import CPU, GPU
from evaluation.errors import Broken, SubmissionError, TaskError
from evaluation.sandbox import untrusted_files
from evaluation.sandbox.channel import Message
from evaluation.shapes import ITEM_BYTES, dtype_of, shape_of
from evaluation.tasks.input_families import torch_dtype
from evaluation.tasks.operator import Operator
from evaluation.tasks.toml_reader import read_text
from evaluation.types import Argument, Case

if TYPE_CHECKING:
    from evaluation.tasks.task_code import Enough, Outputs, Tensors

MAX_SECONDS = 600.0
"""Limit on one reply."""
MAX_NUMBERS = 4096
"""Numbers of cases that are remembered."""
MAX_UNIT_CHARACTERS = 40
ROOM = "float64"
"""Dtype of the room for one output, of which none has larger elements."""


class _NoClock:
    """The clock of a process that is not timed."""

    def start(self) -> None: ...

    def stop(self) -> int:
        return 0


class TaskSandbox:
    """A process in the sandbox that runs the code of tasks.

    It is suspended except while it handles a request. A request that fails ends it.
    """

    def __init__(
        self,
        fork_server: ForkServer,
        kind: str,
        seconds: float,
        readable: Sequence[Path] = (),
    ) -> None:
        """Start it. Raises Broken where that fails."""
        fork_server.import_modules(["evaluation.sandboxed.task_runner"])
        self._stack = ExitStack()
        scratch = self._stack.enter_context(untrusted_files.scratch())
        limits = ProcessLimits(
            folder=scratch,
            scratch=scratch,
            memory_bytes=max_memory_bytes(),
            seconds=seconds,
            threads=1,
            kind=kind,
            readable=tuple(readable),
            task_code=True,
        )
        self._handle = self._stack.enter_context(ProcessHandle(fork_server, limits, _NoClock()))
        self.ended = self._asked = False
        try:
            self._handle.connect()
        except BaseException:
            self.close()
            raise

    def request(
        self,
        message: Message,
        descriptors: Sequence[int] = (),
        answer: Callable[[Message], Message] | None = None,
    ) -> Any:
        """Send a request, and return what it reports, which is not checked.

        Raises: SubmissionError.
        """
        if self.ended:
            raise Broken("the process of the task's code has ended")
        assert not self._asked, "asked while it waits for an answer"
        try:
            self._asked = True
            self._handle.request(message, descriptors, answer=answer)
            self._asked = False
        except BaseException:
            self.close()
            raise
        return self._handle.reported

    def close(self) -> None:
        self.ended = True
        self._stack.close()


def max_memory_bytes() -> int:
    """Return the memory that the code of a task may use: three quarters of the machine's."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4 * 3


class TaskProcess:
    """The code of one task, in a process of its own (see `TaskCode`)."""

    def __init__(
        self,
        fork_server: ForkServer,
        operator: Operator,
        text: str,
        kind: str,
        seconds: float = MAX_SECONDS,
    ) -> None:
        """Start a process, and load the text of a `reference.py` there.

        Each of its replies may take `seconds`. Raises: TaskError where it cannot be loaded.
        """
        self.operator = operator
        self._path, self._named = operator.folder / "reference.py", f"{operator.name}/reference.py"
        self._lock = threading.RLock()
        self._memory = DeviceMemory() if kind == GPU else HostMemory()
        self._numbers: dict[tuple[object, ...], Any] = {}
        self._given: RemoteLaunches | None = None
        """The launches whose inputs the process has."""
        self._sandbox = TaskSandbox(fork_server, kind, seconds)
        message: Message = {
            "do": "load_task",
            "path": self._named,
            "arguments": [dataclasses.asdict(argument) for argument in operator.arguments],
        }
        with tempfile.TemporaryFile() as file:
            file.write(text.encode())
            file.seek(0)
            try:
                self._sandbox.request(message, [file.fileno()])
            except SubmissionError as error:
                self.close()
                raise self._failed(error.message, "cannot be loaded: ") from error
            except BaseException:
                self.close()
                raise

    @property
    def ended(self) -> bool:
        return self._sandbox.ended

    def draw(
        self,
        case: Case,
        device: torch.device,
        family: str,
        seeds: Sequence[int],
        weights: bool = True,
    ) -> list[dict[str, torch.Tensor]]:
        specs = [
            TensorSpec(a.name, (len(seeds), *shape_of(a, case)), dtype_of(a, case))
            for a in (self.operator.inputs if weights else self.operator.activations)
        ]
        message = {"do": "draw", "family": family, "seeds": list(seeds), "weights": weights}
        copies, _ = self._drawn(case, message, specs)
        return [{name: t[row] for name, t in copies.items()} for row in range(len(seeds))]

    def weights(
        self, case: Case, device: torch.device, seed: int
    ) -> tuple[dict[str, torch.Tensor], int]:
        specs = [
            TensorSpec(a.name, shape_of(a, case), dtype_of(a, case)) for a in self.operator.weights
        ]
        copies, next_draw = self._drawn(case, {"do": "weights", "seed": seed}, specs)
        if type(next_draw) is not int:
            raise self._failed("Model: must leave PyTorch's generator a number to draw")
        return copies, next_draw

    def _drawn(
        self, case: Case, message: Message, specs: Sequence[TensorSpec]
    ) -> tuple[dict[str, torch.Tensor], Any]:
        """Return what a request draws into memory of the judge's, and what it reports."""
        with self._lock:
            drawn, described, descriptors = self._shared("drawn", specs)
            report = self._request({**message, **_of(case), "drawn": described}, descriptors)
            return {name: tensor.clone() for name, tensor in drawn.items()}, report

    def suite_call(self, case: Case) -> dict[str, Any] | None:
        match self._number("suite_call", case):
            case None:
                return None
            case {
                "arguments": str(arguments),
                "inputs": list(inputs),
                "constants": dict(constants),
                "keeps_state": bool(keeps_state),
            } if all(isinstance(name, str) for name in inputs):
                call = {"arguments": arguments, "inputs": inputs, "constants": constants}
                return {**call, "keeps_state": keeps_state}
        raise self._failed("CALL: must name the inputs of the suite's module")

    def launches(self, case: Case, inputs: Tensors, many: bool = False) -> RemoteLaunches:
        return RemoteLaunches(self, case, inputs, many)

    def reduction(self, case: Case) -> float:
        return self._positive("reduction", self._number("reduction", case))

    def cost(self, case: Case) -> tuple[float, float]:
        found = self._number("cost", case)
        if not isinstance(found, list) or len(found) != 2:
            raise self._failed("cost: must return two numbers: bytes moved and operations")
        moved, operations = found
        return self._positive("cost", moved), self._positive("cost", operations)

    def unit(self, case: Case) -> str:
        return str(self._number("unit", case))[:MAX_UNIT_CHARACTERS]

    def _number(self, name: str, case: Case) -> Any:
        key = (name, case.dtype, *case.symbols.items())
        with self._lock:
            if key not in self._numbers:
                if len(self._numbers) >= MAX_NUMBERS:
                    self._numbers.clear()
                self._numbers[key] = self._request({"do": "number", "name": name, **_of(case)})
            return self._numbers[key]

    def _positive(self, function: str, value: Any) -> float:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not 0 <= value < math.inf:
            raise self._failed(f"{function}: {str(value)[:40]} is not a number that can be")
        found: float = value
        return found

    # Launches

    def outputs(
        self, launches: RemoteLaunches, roundings: float, enough: Enough | None, cut: float
    ) -> tuple[Outputs, Outputs]:
        """Return the exact outputs of launches, and the sizes of their roundings."""
        case, known, count = launches.case, launches.exact, len(self.operator.outputs)
        specs = [
            TensorSpec(f"{role} of {a.name}", (*launches.count, *shape_of(a, case)), ROOM)
            for role in (("size",) if known else ("exact", "size"))
            for a in self.operator.outputs
        ]
        message: Message = {"do": "outputs", "exact": not known, "roundings": roundings}
        message |= {"asks": enough is not None, "cut": cut}

        def read(dtypes: Any) -> tuple[Outputs, Outputs]:
            values = self._read(dtypes, found)
            return known or values[:count], values[-count:]

        def answer(question: Message) -> Message:
            assert enough is not None, "asked what it was not to ask"
            return {"enough": enough(*read(question.get("report")))}

        with self._lock:
            found, room, descriptors = self._shared("outputs", specs)
            asked = answer if enough else None
            exact, sizes = read(self._ask_about(launches, message, room, descriptors, asked))
            launches.exact = known or tuple(value.clone() for value in exact)
            return launches.exact, tuple(value.clone() for value in sizes)

    def error(self, launches: RemoteLaunches, comparison: str, outputs: Tensors) -> float:
        """Return the error of outputs that are not compared by value."""
        message = {"do": "error", "comparison": comparison}
        with self._lock:
            shared = self._filled("given", outputs, self.operator.outputs)
            found = self._ask_about(launches, message, *shared)
        if not isinstance(found, float):
            raise self._failed(f"{comparison}: an error is a number, not {str(found)[:40]}")
        return found

    def _ask_about(
        self,
        launches: RemoteLaunches,
        message: Message,
        outputs: Message,
        descriptors: Sequence[int],
        answer: Callable[[Message], Message] | None = None,
    ) -> Any:
        """Send a request about launches, with their inputs unless the process has them."""
        message = {**message, "outputs": outputs}
        if self._given is not launches:
            self._given = None
            inputs, own = self._filled("inputs", launches.inputs, self.operator.inputs)
            message |= {**_of(launches.case), "many": launches.many, "inputs": inputs}
            descriptors = [*own, *descriptors]
        found = self._request(message, descriptors, answer)
        self._given = launches
        return found

    def _read(self, dtypes: Any, found: Tensors) -> Outputs:
        """Return views of written outputs, of the dtypes that the process names."""
        names = dtypes if isinstance(dtypes, list) else []
        if len(names) != len(found):
            raise self._failed(f"names {len(names)} outputs, not {len(found)}")
        return tuple(map(self._typed, names, found.values()))

    def _typed(self, name: Any, room: torch.Tensor) -> torch.Tensor:
        if not isinstance(name, str) or name not in ITEM_BYTES:
            raise self._failed(f"returned {str(name)[:40]}, which is no dtype of a tensor here")
        dtype = torch_dtype(name)
        space = room.flatten().view(torch.uint8)[: room.numel() * dtype.itemsize]
        return space.view(dtype).view(room.shape)

    # Messages and memory

    def _filled(
        self, role: str, tensors: Tensors, arguments: Sequence[Argument]
    ) -> tuple[Message, list[int]]:
        """Copy tensors to memory of this role, and return its description and descriptors."""
        specs = [TensorSpec.of(a.name, tensors[a.name]) for a in arguments]
        views, described, descriptors = self._shared(role, specs)
        for name, view in views.items():
            view.copy_(tensors[name])
        return described, descriptors

    def _shared(
        self, role: str, specs: Sequence[TensorSpec]
    ) -> tuple[dict[str, torch.Tensor], Message, list[int]]:
        """Return memory of this role for tensors, with its description and descriptors."""
        region = self._memory.region(role, Layout.of(specs, 1))
        described, descriptors = region.share()
        return region.slot(0), described, descriptors

    def _request(
        self,
        message: Message,
        descriptors: Sequence[int] = (),
        answer: Callable[[Message], Message] | None = None,
    ) -> Any:
        if self._memory.device == DEVICE:
            torch.cuda.synchronize()  # its inputs are written
            free_unused()  # for its process to use
        try:
            return self._sandbox.request(message, descriptors, answer)
        except SubmissionError as error:
            raise self._failed(error.message) from error

    def _failed(self, message: str, what: str = "") -> TaskError:
        self._sandbox.close()
        return TaskError(f"{self._path}: {what}{message.removeprefix(f'{self._named}: ')}")

    def close(self) -> None:
        """End the process, then free the memory that it shares."""
        with self._lock:
            self._sandbox.close()
            self._memory.close()


class RemoteLaunches:
    """Launches whose outputs another process computes (see `Launches`)."""

    def __init__(self, process: TaskProcess, case: Case, inputs: Tensors, many: bool) -> None:
        self._process = process
        self.case, self.inputs, self.many = case, inputs, many
        self.exact: Outputs = ()
        """The outputs in float64, once they are known."""

    @property
    def count(self) -> tuple[int, ...]:
        """The first dimension of its tensors; empty for one launch."""
        if not self.many:
            return ()
        return self.inputs[self._process.operator.activations[0].name].shape[:1]

    def outputs(
        self, roundings: float = 1.0, enough: Enough | None = None, cut: float = 0.0
    ) -> tuple[Outputs, Outputs]:
        return self._process.outputs(self, roundings, enough, cut)

    def error(self, comparison: str, outputs: Tensors) -> float:
        return self._process.error(self, comparison, outputs)


def _of(case: Case) -> Mapping[str, Any]:
    """Return what the process learns of a case."""
    return {"dtype": case.dtype, "symbols": dict(case.symbols)}


class TaskProcesses:
    """The processes of the task that is judged, one for each device kind that its code needs.

    They stay for the next verdict on the same task: on a GPU, a first launch takes a second.
    """

    def __init__(self, fork_server: ForkServer) -> None:
        self._fork_server = fork_server
        self._lock = threading.RLock()
        self._task: tuple[object, ...] = ()
        self._running: dict[str, TaskProcess] = {}

    def code(self, operator: Operator, device: torch.device | None = None) -> TaskProcess:
        """Return the code of a task for tensors on a device; without one, for numbers."""
        text = read_text(operator.folder / "reference.py")
        task = operator.folder, text, operator.arguments
        with self._lock:
            if self._task != task:
                self.close()
                self._task = task
            kind = "" if device is None else CPU if device.type == "cpu" else GPU
            kind = kind or next(iter(self._running), CPU)
            process = self._running.get(kind)
            if process is None or process.ended:
                if process:
                    process.close()
                process = TaskProcess(self._fork_server, operator, text, kind)
                self._running[kind] = process
            return process

    def close(self) -> None:
        """End them."""
        with self._lock:
            for process in self._running.values():
                process.close()
            self._running.clear()
