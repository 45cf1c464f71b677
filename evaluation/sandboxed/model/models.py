"""UNTRUSTED: live models: build one from its data, draw its weights, call it, and decode with it.

Runs in the judge too, and with weights that the judge made, in candidate and baseline processes.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from evaluation.sandboxed.model.calls import tensors
from evaluation.tasks.input_families import torch_dtype

if TYPE_CHECKING:
    from evaluation.kinds.module.architectures import Architecture, InputSpec, ModuleTask, Size

Inputs = Mapping[str, torch.Tensor]
MAX_STEPS = 1000
"""Steps in time of a diffusion."""
TUPLES = ("patch_size", "axes_dims_rope", "sample_size", "max_size", "axes_dims", "axes_lens",
          "all_patch_size", "all_f_patch_size")  # fmt: skip
"""Settings that a library compares with tuples."""
NORM_SPREAD = 0.1
"""Standard deviation of drawn weights of norms around 1, and of their biases around 0."""


@dataclasses.dataclass(frozen=True)
class ModelData:
    """All that builds a model. It crosses into untrusted processes as JSON."""

    library: str
    model: str
    config: str
    kind: str
    cache: str
    options: Mapping[str, Any]
    settings: Mapping[str, Any]
    dtype: str = "bfloat16"
    attention: str = ""
    """The library's attention implementation; empty for its default."""
    float32: Sequence[str] = ()
    """Parts of the names of parameters that stay in float32."""

    @classmethod
    def of(cls, architecture: Architecture, size: Size) -> ModelData:
        return cls(
            library=architecture.library,
            model=architecture.model,
            config=architecture.config,
            kind=architecture.kind,
            cache=architecture.cache,
            options=architecture.options,
            settings=size.settings,
            dtype=architecture.dtype,
            float32=architecture.float32,
        )


def import_path(path: str) -> Any:
    """Return an object by its dotted path."""
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def module_class(task: ModuleTask) -> type[nn.Module]:
    """Return the class that a task replaces."""
    found: type[nn.Module] = import_path(task.module)
    return found


def build(data: ModelData, device: str = "cpu") -> nn.Module:
    """Return a model in evaluation mode, with the weights of the library's initialisation."""
    cls = model_class(data)
    model: nn.Module
    with torch.device(device):
        if data.config:
            library = importlib.import_module(data.library)
            config = _find(library, data.config)(**_settings(data.settings))
            if data.attention:
                config._attn_implementation = data.attention
            model = cls(config)
        else:
            model = cls(**_settings(data.settings))
    if data.library != "torch_geometric":  # its sums over edges stay in float32
        _convert(model, torch_dtype(data.dtype), data.float32)
    return model.eval()


def _convert(model: nn.Module, dtype: torch.dtype, float32: Sequence[str]) -> None:
    """Convert all but rotary frequencies and the tensors that `float32` names, as a loader does."""
    named = (*model.named_parameters(), *model.named_buffers())
    kept = {id(t) for name, t in named if any(p in name for p in ("inv_freq", *float32))}
    convert: Any = model._apply  # a buffer whose data has another dtype does not compile
    convert(lambda t: t.to(dtype) if t.is_floating_point() and id(t) not in kept else t)


def model_class(data: ModelData) -> type[nn.Module]:
    """Return the class of a model."""
    found: type[nn.Module] = _find(importlib.import_module(data.library), data.model)
    return found


def _find(library: Any, name: str) -> Any:
    """Return a class by its name in the library, or by a dotted path below it."""
    if "." in name:
        return import_path(f"{library.__name__}.{name}")
    return getattr(library, name)


def _settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return constructor arguments; `{config = "Name", ...}` becomes a config object."""
    result: dict[str, Any] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping) and "class" in value:
            others = {key: inner for key, inner in value.items() if key != "class"}
            value = import_path(value["class"])(**_settings(others))
        elif isinstance(value, Mapping):
            value = dict(value)
        elif isinstance(value, list) and name in TUPLES:
            value = tuple(value)
        result[name] = value
    return result


def draw_weights(model: nn.Module, seed: int) -> None:
    """Draw weights of unit gain, so that each layer changes the result as one of a trained model.

    Matrices get a variance of 1 / fan-in, norms values around 1. Embeddings and the parameters of
    recurrences keep the scale of the library's initialisation.
    """
    device = next(model.parameters()).device
    generator = torch.Generator(device).manual_seed(seed)

    def normal(parameter: torch.Tensor, deviation: float, mean: float = 0.0) -> None:
        values = torch.randn(parameter.shape, generator=generator, device=device) * deviation + mean
        parameter.data.copy_(values.to(parameter.dtype))

    # Where attention does not scale scores, the norm of its queries must: around 1 it gives them a
    # deviation of the root of the head's size, and a rounding that moves softmax costs a layer.
    normed = [module for module in model.modules() if hasattr(module, "q_norm")]
    queries = {each.q_norm for each in normed if getattr(each, "scaling", None) == 1.0}
    for module in model.modules():
        embedding = isinstance(module, nn.Embedding | nn.EmbeddingBag)
        for name, parameter in module.named_parameters(recurse=False):
            if embedding or name in ("lookup_table",):
                normal(parameter, 0.02)
            elif isinstance(module, nn.Linear | nn.modules.conv._ConvNd):
                fan_in = parameter[0].numel() if parameter.dim() > 1 else 0
                normal(parameter, fan_in**-0.5 if fan_in else NORM_SPREAD)
            elif parameter.dim() >= 3 and "proj" in name:  # all experts in one tensor
                normal(parameter, parameter.shape[-1] ** -0.5)
            elif "Norm" in type(module).__name__ and parameter.dim() == 1:
                zero_centred = bool((parameter == 0).all()) or name == "bias"
                gain = parameter.numel() ** -0.5 if module in queries else 1.0
                normal(parameter, gain * NORM_SPREAD, 0.0 if zero_centred else gain)
            elif "Router" in type(module).__name__ and parameter.dim() == 2:
                normal(parameter, parameter.shape[-1] ** -0.5)
            elif parameter.dim() == 1 and bool((parameter == parameter[0]).all()):
                normal(parameter, NORM_SPREAD, float(parameter.data[0]))  # else all stay equal
    tie = getattr(model, "tie_weights", None)
    if callable(tie):
        tie()


def draw_inputs(
    specs: tuple[InputSpec, ...], dtype: torch.dtype, generator: torch.Generator
) -> dict[str, torch.Tensor]:
    """Return fresh inputs of one forward, on the generator's device."""
    return {spec.name: _draw(spec, dtype, generator) for spec in specs}


def _draw(spec: InputSpec, dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    own = torch_dtype(spec.dtype) if spec.dtype else None
    if spec.values:
        fixed = torch.tensor(spec.values, dtype=own, device=generator.device)
        fixed = _near(fixed, generator) if fixed.numel() == 1 else fixed
        return fixed.to(dtype) if fixed.is_floating_point() and not own else fixed
    if spec.below:
        values = torch.randint(spec.below, spec.shape, generator=generator, device=generator.device)
        return values.to(own) if own else values
    drawn = torch.randn(spec.shape, generator=generator, device=generator.device)
    return drawn.to(own or dtype)


def _near(fixed: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Return a number to be used like a fixed one: a step in time, or a scale."""
    if not fixed.is_floating_point():
        drawn = torch.randint(MAX_STEPS, fixed.shape, generator=generator, device=fixed.device)
        return drawn.to(fixed.dtype)
    share = torch.rand(fixed.shape, generator=generator, device=fixed.device) + 0.5
    return fixed * share.to(fixed.dtype)


def call(model: nn.Module, inputs: Inputs, options: Mapping[str, Any], **more: Any) -> Any:
    """Call a model with named inputs."""
    return model(**inputs, **options, **more)


def float_dtype(model: nn.Module) -> torch.dtype:
    """Return the dtype of the first floating matrix of a model, else of its first parameter."""
    return min(filter(torch.is_floating_point, model.parameters()), key=lambda p: p.dim() < 2).dtype


def cast(
    specs: tuple[InputSpec, ...], inputs: Inputs, dtype: torch.dtype, device: str = "cpu"
) -> dict[str, torch.Tensor]:
    """Return inputs on a device, the floating ones in a dtype unless their specs name another."""
    found = {}
    for spec in specs:
        value = inputs[spec.name]
        is_cast = value.is_floating_point() and not spec.dtype
        found[spec.name] = value.to(device, dtype if is_cast else value.dtype)
    return found


def forward(model: nn.Module, inputs: Inputs, described: Architecture | ModelData) -> torch.Tensor:
    """Return the main output of one forward, without a cache."""
    more = {"use_cache": False} if described.kind == "causal" else {}
    return main_output(call(model, inputs, described.options, **more))


def main_output(result: Any) -> torch.Tensor:
    """Return the tensor that a forward is for: logits, the sample, or the first of its floats."""
    logits = getattr(result, "logits", None)
    if isinstance(logits, torch.Tensor):
        return logits
    found = next((x for x in tensors(result) if x.is_floating_point()), None)
    if found is None:
        raise TypeError(f"a forward returned no floating tensor, but {type(result).__name__}")
    return found


def new_cache(model: nn.Module, data: ModelData, length: int) -> Any:
    """Return an empty cache of a causal model for at most `length` tokens."""
    library = importlib.import_module(data.library)
    if data.cache == "static":
        return library.StaticCache(config=model.config, max_cache_len=length)
    if data.cache == "dynamic":
        return library.DynamicCache(config=model.config)
    return None


def prefill(model: nn.Module, data: ModelData, inputs: Inputs, cache: Any) -> Any:
    """Run a prompt into a cache and return it; into the model's own where `cache` is None."""
    name = cache_argument(model)
    given = {} if cache is None else {name: cache}
    result = call(model, inputs, data.options, use_cache=True, **given)
    return getattr(result, name) if cache is None else cache


def step(model: nn.Module, data: ModelData, token: torch.Tensor, cache: Any) -> Any:
    """Return the result of one cached step on a token of shape [1, 1]."""
    given = {cache_argument(model): cache}
    return call(model, {"input_ids": token}, data.options, use_cache=True, **given)


def cache_argument(model: nn.Module) -> str:
    """Return the name under which a model takes and returns its cache."""
    names = inspect.signature(model.forward).parameters
    return "cache_params" if "cache_params" in names else "past_key_values"
