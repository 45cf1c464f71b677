"""UNTRUSTED: a live model whose launches are forwards, with a candidate's modules in it.

Candidate, baseline, decoy and free model are processes of this one program. They differ by `mode`:

- `library`: the library's own modules.
- `candidate`: every module of each task's class is the candidate's.
- `decoy`: the candidate is loaded and one module of each class is made and called; none is put in.
- `free`: every module of the classes returns a stored output at once, which gives the ceiling.

A part of a candidate is one file, which is loaded under a name of its own and replaces one class.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from evaluation.errors import SubmissionError
from evaluation.sandbox.channel import Message
from evaluation.sandboxed.build_torch import EXTENSIONS
from evaluation.sandboxed.kernels import built_extensions
from evaluation.sandboxed.kernels.python_file import load_module
from evaluation.sandboxed.kernels.torch import COMPILER
from evaluation.sandboxed.model import calls, models, split, swap
from evaluation.sandboxed.model.compiler_cache import ProcessCache
from evaluation.sandboxed.model.models import ModelData
from evaluation.sandboxed.model.phases import LOGIT_ROWS, MODES, Regime
from evaluation.types import Argument, BufferSet, Launch, Reason

MAX_RECOMPILES = 64
"""Recompilations of one function: each layer may need its own, and Dynamo's default is eight."""
PREPARE = "process_weights_after_loading"
"""A method of a candidate's module that is called once, before anything is timed."""


class LiveModel:
    """A model on the judge's weights. It is a `Kernel`: `bind` returns launches of one phase."""

    def __init__(self, request: Message, weights: Mapping[str, torch.Tensor]) -> None:
        self.data = ModelData(**request["data"])
        self.device = request["device"]
        self.mode = request["mode"]
        assert self.mode in MODES, f"no mode {self.mode}"
        os.environ.update(COMPILER)
        code, headers = map(Path, request["kept_code"])
        self.compiler_cache = ProcessCache(code, headers, self.device)
        parts = request["parts"]
        libraries: list[type[nn.Module]] = [models.import_path(part["module"]) for part in parts]
        with swap.recorded(libraries) as made:
            self.model = models.build(self.data, self.device)
        self.model.load_state_dict(
            {name: value.to(self.device) for name, value in weights.items()},
            strict=True,
            assign=True,
        )
        self.model.requires_grad_(False)
        split.add_over_ranks(self.model, request["added"])
        self.swapped = 0
        self.decoys: dict[str, nn.Module] = {}
        """Modules of a decoy that are called, by the path of the library's."""
        for part, library in zip(parts, libraries, strict=True):
            if self.mode in ("candidate", "decoy"):
                self._load(Path(part["folder"]), part["entry"], library, made)
            elif self.mode == "free":
                for path in swap.places(self.model, library):
                    swap.replace(self.model, path, FreeModule(self.model.get_submodule(path)))
        self._compiled: dict[str, Callable[..., Any]] = {}
        self._decode: Decode | None = None
        if self.device == "cuda":
            torch.cuda.empty_cache()  # of weights that were replaced

    def _load(self, folder: Path, entry: str, library: type[nn.Module], made: swap.Calls) -> None:
        """Load a part of a candidate and put its modules in. Raises SubmissionError."""
        if (folder / EXTENSIONS).exists():
            built_extensions.replace_load_inline(folder)
        new = getattr(load_module(folder / f"{entry}.py"), swap.MODEL, None)
        if not (isinstance(new, type) and issubclass(new, nn.Module)):
            raise SubmissionError(
                Reason.MISSING_ENTRY,
                f"no torch.nn.Module `{swap.MODEL}` in {entry}.py; define one",
            )
        swap.check_interface(new, library)
        with torch.device(self.device):
            if self.mode == "decoy":
                path = swap.places(self.model, library)[0]
                self.decoys[path] = swap.rebuilt(self.model.get_submodule(path), made, new)
                fresh = [self.decoys[path]]
            else:
                paths = swap.swap(self.model, made, library, new)
                fresh = [self.model.get_submodule(path) for path in paths]
                self.swapped += len(fresh)
        for module in fresh:
            if callable(prepare := getattr(module, PREPARE, None)):
                prepare()

    def report(self) -> dict[str, Any]:
        """Return counts that are shown as reported: swaps, graphs, breaks and recompilations."""
        import torch._dynamo.utils as dynamo

        breaks = dynamo.counters["graph_break"]
        metrics = dynamo.get_compilation_metrics()
        return {
            "swapped": self.swapped,
            "graphs": int(dynamo.counters["stats"]["unique_graphs"]),
            "graph_breaks": sum(breaks.values()),
            "break_reasons": [str(reason)[:200] for reason in list(breaks)[:3]],
            "recompiles": sum(1 for metric in metrics if getattr(metric, "recompile_reason", None)),
        }

    def bind(self, arguments: Sequence[Argument], slots: Sequence[BufferSet]) -> Launch:
        """Return launches of the phase and regime that the judge's values name."""
        phase, regime = slots[0]["phase"], Regime(slots[0]["regime"])
        # For outputs that are compared in every bit: sums by atomic additions vary on a GPU.
        torch.use_deterministic_algorithms(bool(slots[0]["repeatable"]), warn_only=True)
        torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
        self._decode = None
        if phase == "module":
            return self._module_launch(slots, regime)
        if phase == "decode":
            self._decode = Decode(self.model, self.data, slots, self._step(regime))
            return self._decode.launch
        return self._forward_launch(slots, regime, phase)

    def check_capturable(self) -> None:
        """Refuse a decode whose cache moves. Raises SubmissionError.

        A replay uses the addresses of the capture, and each prompt fills a new cache.
        """
        if self._decode is not None and self.data.cache != "static":
            message = f"each prompt fills a new cache ({self.data.cache}), which no replay can see"
            raise SubmissionError(Reason.CALL_ERROR, message)

    def ready(self, slot: int) -> None:
        """Run the prefill of the decode that is bound."""
        assert self._decode is not None, "no decode is bound"
        self._decode.prefill(slot)

    def _forward_launch(self, slots: Sequence[BufferSet], regime: Regime, phase: str) -> Launch:
        names = slots[0]["inputs"]
        rows = LOGIT_ROWS if phase == "prefill" else 0
        options = {**self.data.options, **({"use_cache": False} if phase == "prefill" else {})}
        model = self.model

        def forward(**inputs: torch.Tensor) -> torch.Tensor:
            result = models.main_output(model(**inputs, **options))
            return result[:, -rows:] if rows else result

        function = self._in_regime(forward, regime, phase)

        @torch.inference_mode()
        def launch(first: int, count: int) -> None:
            for number in range(first, first + count):
                slot = slots[number % len(slots)]
                result = function(**{name: slot[name] for name in names})
                _fill(slot["output"], result)

        return launch

    def _step(self, regime: Regime) -> Callable[..., torch.Tensor]:
        """Return one step of a decode: the logits of the next token."""
        model, options = self.model, self.data.options
        cache_name = models.cache_argument(model)

        def step(token: torch.Tensor, cache: Any) -> torch.Tensor:
            result = model(input_ids=token, **{cache_name: cache}, use_cache=True, **options)
            return models.main_output(result)[:, -1]

        return self._in_regime(step, regime, "decode")

    def _module_launch(self, slots: Sequence[BufferSet], regime: Regime) -> Launch:
        path, tree = slots[0]["path"], slots[0]["tree"]
        module = self.decoys[path] if path in self.decoys else self.model.get_submodule(path)
        function = self._in_regime(module, regime, f"module {path}")
        arguments = [calls.decoded(tree, slot) for slot in slots]
        outputs = [[slot[name] for name in slots[0]["outputs"]] for slot in slots]

        @torch.inference_mode()
        def launch(first: int, count: int) -> None:
            for number in range(first, first + count):
                positional, named = arguments[number % len(slots)]
                found = list(calls.tensors(function(*positional, **named)))
                targets = outputs[number % len(slots)]
                if len(found) != len(targets):
                    raise SubmissionError(
                        Reason.WRONG_SHAPE,
                        f"returned {len(found)} tensors; the library's module {len(targets)}",
                    )
                for target, result in zip(targets, found, strict=True):
                    _fill(target, result)

        return launch

    def _in_regime(
        self, function: Callable[..., Any], regime: Regime, name: str
    ) -> Callable[..., Any]:
        if regime is not Regime.COMPILE:
            return function
        if name not in self._compiled:
            import torch._dynamo

            torch._dynamo.config.recompile_limit = MAX_RECOMPILES
            self.compiler_cache.fill()
            # At each step of a decode some caches have another shape, or count another position.
            # What has changed once is variable from then on; nothing else is.
            changes = None if name == "decode" else False
            self._compiled[name] = torch.compile(function, dynamic=changes)
        return self._compiled[name]


class Decode:
    """Decoding of a causal model, one sequence of tokens for each slot.

    The next token is the largest of logits plus the judge's noise, so no step can begin before the
    one before it has ended.
    """

    def __init__(
        self,
        model: nn.Module,
        data: ModelData,
        slots: Sequence[BufferSet],
        step: Callable[..., torch.Tensor],
    ) -> None:
        self._model, self._data, self._slots, self._step = model, data, slots, step
        slot = slots[0]
        self._length = slot["input_ids"].shape[1] + slot["noise"].shape[0]
        self._cache: Any = None
        self._names = slot["inputs"]

    @torch.inference_mode()
    def prefill(self, number: int) -> None:
        """Fill the cache with the prompt of a slot."""
        slot = self._slots[number]
        static = self._data.cache == "static"
        if static and self._cache is not None:
            self._cache.reset()
        else:
            self._cache = models.new_cache(self._model, self._data, self._length)
        inputs = {name: slot[name] for name in self._names}
        self._cache = models.prefill(self._model, self._data, inputs, self._cache)

    @torch.inference_mode()
    def launch(self, first: int, count: int) -> None:
        """Decode the slots from `first` on. Only the first one was prefilled by `ready`."""
        for number in range(first, first + count):
            slot = self._slots[number]
            token = slot["first_token"].view(1, 1)
            for index in range(slot["noise"].shape[0]):
                logits = self._step(token.clone(), self._cache)[0]
                slot["logits"][index].copy_(logits)
                token = (logits.float() + slot["noise"][index]).argmax().view(1, 1)
                slot["tokens"][index].copy_(token[0, 0])


class FreeModule(nn.Module):
    """A module that takes no time: it returns the output that it first computed for a shape."""

    def __init__(self, original: nn.Module) -> None:
        super().__init__()
        self.original = original
        self.stored: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the original: some models read those of their modules."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("original"), name)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        key = str([tuple(value.shape) for value in calls.tensors((args, kwargs))])
        if key not in self.stored:
            result = self.original(*args, **kwargs)
            self.stored[key] = calls.mapped(result, lambda tensor: tensor.clone())
        return self.stored[key]


def _fill(target: torch.Tensor, result: Any) -> None:
    """Copy a result to the judge's memory. Raises SubmissionError for another shape or dtype."""
    if not isinstance(result, torch.Tensor):
        raise SubmissionError(Reason.WRONG_SHAPE, f"returned {type(result).__name__}, no tensor")
    if result.shape != target.shape:
        got, want = tuple(result.shape), tuple(target.shape)
        raise SubmissionError(Reason.WRONG_SHAPE, f"returned a shape of {got}, not {want}")
    if result.dtype != target.dtype:
        message = f"returned {result.dtype}, not {target.dtype}"
        raise SubmissionError(Reason.WRONG_DTYPE, message)
    target.copy_(result)
