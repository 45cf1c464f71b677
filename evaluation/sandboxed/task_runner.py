"""UNTRUSTED: the code of a task, loaded in a process of its own, and a handler for each request.

Tensors come and go in memory that the judge shares; it says where, and reads no object of this
process but numbers and the names of dtypes.
"""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from evaluation.bench.memory import cuda_runtime
from evaluation.bench.memory.layout import Layout
from evaluation.errors import TaskError
from evaluation.sandbox.channel import Channel, Message
from evaluation.sandboxed.requests import RequestHandler
from evaluation.tasks.defaults import load_reference
from evaluation.tasks.input_families import dtype_name
from evaluation.tasks.loaded_code import LoadedCode, LoadedLaunches, run_here
from evaluation.types import Argument, Case, Split


class TaskRunner(RequestHandler):
    """The state between requests: the loaded code, and the launches that it was given last."""

    def __init__(self, judge: Channel) -> None:
        super().__init__()
        run_here()
        self._judge = judge
        self._code: LoadedCode | None = None
        self._launches: LoadedLaunches | None = None

    def handle(self, request: Message, descriptors: list[int]) -> Message:
        reply = super().handle(request, descriptors)
        if self.probe is not None:
            with contextlib.suppress(RuntimeError):  # an error of an earlier kernel is in the reply
                torch.cuda.synchronize()
                cuda_runtime.free_unused()
        return reply

    @property
    def code(self) -> LoadedCode:
        assert self._code is not None, "asked before the task's code was loaded"
        return self._code

    def do_load_task(self, request: Message, descriptors: list[int]) -> None:
        self.path = Path(request["path"])
        arguments = tuple(
            Argument(**{**a, "shape": tuple(a["shape"]), "bounds": tuple(a["bounds"])})
            for a in request["arguments"]
        )
        with os.fdopen(descriptors.pop(0), encoding="utf-8") as file:
            module = load_reference(file.read(), self.path, arguments)
        self._code = LoadedCode(module, arguments)

    def do_draw(self, request: Message, descriptors: list[int]) -> None:
        case = _case(request)
        found = self._views(request["drawn"], descriptors)
        device = next(iter(found.values())).device
        for row, seed in enumerate(request["seeds"]):
            (drawn,) = self.code.draw(case, device, request["family"], [seed], request["weights"])
            self._give(drawn, {name: rows[row] for name, rows in found.items()})

    def do_weights(self, request: Message, descriptors: list[int]) -> None:
        """Report the number that is drawn once the weights are made."""
        found = self._views(request["drawn"], descriptors)
        device = next(iter(found.values())).device
        drawn, self.report = self.code.weights(_case(request), device, request["seed"])
        self._give(drawn, found)

    def _give(self, drawn: Mapping[str, torch.Tensor], found: Mapping[str, torch.Tensor]) -> None:
        """Write drawn inputs into the judge's memory."""
        for name, room in found.items():
            if drawn[name].shape != room.shape:
                raise TaskError(f"inputs: {name} must have the shape {list(room.shape)}")
            room.copy_(drawn[name])

    def do_outputs(self, request: Message, descriptors: list[int]) -> None:
        """Compute the outputs and the size of their roundings. Reports the dtypes of all.

        The judge has the outputs already where it leaves no room for them.
        """
        launches = self._given(request, descriptors)
        found = self._views(request["outputs"], descriptors)

        def written(exact: Sequence[torch.Tensor], sizes: Sequence[torch.Tensor]) -> list[str]:
            return _written([*(exact if request["exact"] else ()), *sizes], found)

        def enough(exact: Sequence[torch.Tensor], sizes: Sequence[torch.Tensor]) -> bool:
            """Ask the judge whether the sizes so far are enough."""
            self._judge.send({"ask": True, "report": written(exact, sizes)})
            return bool(self._judge.receive()[0]["enough"])

        asks = enough if request["asks"] else None
        self.report = written(*launches.outputs(request["roundings"], asks, request["cut"]))

    def do_error(self, request: Message, descriptors: list[int]) -> None:
        launches = self._given(request, descriptors)
        outputs = self._views(request["outputs"], descriptors)
        self.report = float(launches.error(request["comparison"], outputs))

    def do_number(self, request: Message, descriptors: list[int]) -> None:
        """Report what a function of a case returns: `reduction`, `cost`, `unit` or `suite_call`."""
        self.report = getattr(self.code, request["name"])(_case(request))

    def do_call(self, request: Message, descriptors: list[int]) -> None:
        """Call a function of the judge's own that uses the code of a task, such as its checks."""
        module, _, name = request["function"].rpartition(".")
        self.report = getattr(importlib.import_module(module), name)(**request["arguments"])

    def _given(self, request: Message, descriptors: list[int]) -> LoadedLaunches:
        """Return the launches of a request, which are those of the last one without inputs."""
        if "inputs" in request:
            inputs = self._views(request["inputs"], descriptors)
            self._launches = self.code.launches(_case(request), inputs, request["many"])
        assert self._launches is not None, "asked before there were inputs"
        return self._launches

    def _views(self, data: Message, descriptors: list[int]) -> dict[str, torch.Tensor]:
        """Return the tensors of a region of the judge's."""
        layout = Layout.from_json(data)
        return layout.views(self.open_region(data, layout.size, descriptors), 0)


def _case(request: Message) -> Case:
    """Return the case of a request, without its name and purpose."""
    return Case("case", Split.SAMPLED, "", request["dtype"], request["symbols"])


def _written(values: Sequence[torch.Tensor], found: Mapping[str, torch.Tensor]) -> list[str]:
    """Write outputs into the judge's memory, and return the dtype of each.

    Each has room for elements of eight bytes.
    """
    if len(values) != len(found):
        raise TaskError(f"returned {len(values)} outputs and sizes, not {len(found)}")
    dtypes = []
    for (name, room), value in zip(found.items(), values, strict=True):
        if value.shape != room.shape:
            wanted, got = list(room.shape), list(value.shape)
            raise TaskError(f"{name} must have the shape {wanted}, got {got}")
        space = room.flatten().view(torch.uint8)[: value.numel() * value.dtype.itemsize]
        space.view(value.dtype).copy_(value.flatten())
        dtypes.append(dtype_name(value.dtype))
    if any(room.is_cuda for room in found.values()):
        torch.cuda.synchronize()
    return dtypes
