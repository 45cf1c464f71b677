"""Fit of an architecture's error limits: honest variants keep them, and mutants must not."""

from __future__ import annotations

import copy
import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

import torch
from torch import nn

from evaluation.kinds.module import budget
from evaluation.kinds.module.architectures import Architecture
from evaluation.kinds.module.limits import Ratios, fitted
from evaluation.sandboxed.model import models
from evaluation.sandboxed.model.models import ModelData

SEEDS = (11, 12, 13)
PROMPTS = 3
"""Prompts for each seed of weights. All rows of a forward count."""
WRONG_EPSILON = 0.1
MIN_ROW = 16
"""A shorter last dimension is that of a convolution's window."""
MAX_FP8 = 448.0
"""Largest value of float8_e4m3fn."""
ROUTED = ("num_experts_per_tok", "top_k", "num_experts_per_token", "top_k_experts")
"""Names of the number of experts of a token, in a module or in its configuration."""

REQUIRED = ("skipped layer", "int8 weights")
"""Mutants without which no limits are kept: nothing would show that they catch a cheaper model."""

Change = Callable[[nn.Module], nn.Module]


class NotApplicable(Exception):
    """Raised where a model has nothing that a variant could change."""


@dataclass(frozen=True)
class Fit:
    """The ratios of each variant and mutant, pooled over weights and prompts."""

    honest: Mapping[str, Ratios]
    mutants: Mapping[str, Ratios]

    @property
    def limits(self) -> Ratios:
        return fitted(self.honest)

    @property
    def missed(self) -> list[str]:
        """Return the mutants that keep the limits."""
        return [name for name, found in self.mutants.items() if found.within(self.limits)]

    @property
    def missing(self) -> list[str]:
        """Return the required mutants that the model has nothing for."""
        return [name for name in REQUIRED if name not in self.mutants]


@torch.inference_mode()
def fit(architecture: Architecture, kind: str, device: str) -> Fit:
    """Measure honest variants and mutants of an architecture at a size, on a device of PyTorch."""
    torch.backends.cudnn.allow_tf32 = False  # the exact model's float32 is IEEE float32
    size = architecture.sizes[kind]
    data = ModelData.of(architecture, size)
    errors: dict[str, list[torch.Tensor]] = {}
    for seed in SEEDS:
        model = models.build(data, device)
        models.draw_weights(model, seed)
        dtype = models.float_dtype(model)
        exact = copy.deepcopy(model).to(torch.float64 if dtype == torch.float32 else torch.float32)
        generator = torch.Generator(device).manual_seed(seed)
        prompts = [models.draw_inputs(size.inputs, dtype, generator) for _ in range(PROMPTS)]
        wanted = [_forward(exact, inputs, architecture, kind) for inputs in prompts]
        del exact
        for name, change in {"baseline": _same, **HONEST, **MUTANTS}.items():
            try:
                changed = change(_variant(name, model, data))
                found = [_forward(changed, inputs, architecture, kind) for inputs in prompts]
            except (NotApplicable, KeyError) as error:
                if isinstance(error, KeyError) and error.args != ("eager",):
                    raise  # not a library's table without eager attention
                continue
            rows = [budget.row_errors(got, want) for got, want in zip(found, wanted, strict=True)]
            errors.setdefault(name, []).extend(each.cpu() for each in rows)
    base = errors.pop("baseline")
    measured = {name: budget.ratios(rows, base) for name, rows in errors.items()}
    honest = {name: measured[name] for name in HONEST if name in measured}
    honest = honest or {"baseline": Ratios(1.0, 1.0)}
    return Fit(honest, {name: measured[name] for name in MUTANTS if name in measured})


def _variant(name: str, model: nn.Module, data: ModelData) -> nn.Module:
    """Return a copy of a model, with another attention implementation where the name asks."""
    if name != "eager attention":
        return copy.deepcopy(model)
    if data.library != "transformers" or not data.config:
        raise NotApplicable
    try:
        device = str(next(model.parameters()).device)
        other = models.build(dataclasses.replace(data, attention="eager"), device)
    except (ValueError, ImportError) as error:
        raise NotApplicable from error
    other.load_state_dict(model.state_dict())
    return other


def _forward(
    model: nn.Module, inputs: Mapping[str, torch.Tensor], architecture: Architecture, kind: str
) -> torch.Tensor:
    specs, device = architecture.sizes[kind].inputs, str(next(model.parameters()).device)
    given = models.cast(specs, inputs, models.float_dtype(model), device)
    return models.forward(model, given, architecture).float()


def _same(model: nn.Module) -> nn.Module:
    return model


def _modules(model: nn.Module, test: Callable[[nn.Module], bool]) -> Iterator[tuple[str, Any]]:
    found = [(name, module) for name, module in model.named_modules() if test(module)]
    if not found:
        raise NotApplicable
    yield from found


def is_norm(module: nn.Module) -> bool:
    return "norm" in type(module).__name__.lower() and not list(module.children())


def _fewer_roundings(model: nn.Module) -> nn.Module:
    """Compute norms in float32, rounded once at the end."""
    for _, module in _modules(model, is_norm):
        wide = copy.deepcopy(module).float()
        _wrap(module, functools.partial(_in_float, wide))
    return model


def _in_float(wide: nn.Module, forward: Any, *args: Any, **kwargs: Any) -> Any:
    dtype = next((a.dtype for a in args if isinstance(a, torch.Tensor)), None)
    named = {name: value.float() if _floats(value) else value for name, value in kwargs.items()}
    result = wide(*(a.float() if _floats(a) else a for a in args), **named)
    return result.to(dtype) if isinstance(result, torch.Tensor) else result


def _floats(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _split_sums(model: nn.Module) -> nn.Module:
    """Add up each matrix product in two halves, as a kernel with split K does."""
    for _, module in _modules(model, _splits):
        _wrap(module, _split)
    return model


def _splits(module: nn.Module) -> bool:
    """Return whether a module is a linear layer, of PyTorch or a library, that can be split."""
    weight = getattr(module, "weight", None)
    if type(module).__name__ != "Linear" or not isinstance(weight, torch.Tensor):
        return False
    return weight.shape[1] % 2 == 0


def _split(forward: Any, x: torch.Tensor) -> torch.Tensor:
    linear = forward.__self__
    half = linear.weight.shape[1] // 2
    left = nn.functional.linear(x[..., :half], linear.weight[:, :half]).float()
    right = nn.functional.linear(x[..., half:], linear.weight[:, half:]).float()
    bias = 0 if linear.bias is None else linear.bias.float()
    return (left + right + bias).to(x.dtype)


def _wrap(module: nn.Module, function: Any) -> None:
    original = module.forward
    module.forward = lambda *args, **kwargs: function(original, *args, **kwargs)


def layers_of(model: nn.Module) -> tuple[str, nn.ModuleList]:
    """Return the largest list of layers that holds no such list itself. Raises NotApplicable.

    Stages of a pyramid change the shape, and the layers of one stage do not.
    """
    lists = {name: module for name, module in model.named_modules() if _repeats(module)}
    inner = [
        (name, module)
        for name, module in lists.items()
        if not any(other.startswith(f"{name}.") for other in lists)
    ]
    if not inner:
        raise NotApplicable
    return max(inner, key=lambda item: sum(p.numel() for p in item[1].parameters()))


def _repeats(module: nn.Module) -> TypeGuard[nn.ModuleList]:
    """Return whether a module is a list of layers of one class, with weights."""
    return (
        isinstance(module, nn.ModuleList)
        and len(module) > 1
        and len({type(layer) for layer in module}) == 1
        and any(True for _ in module[-1].parameters())
    )


def skip_layer(model: nn.Module) -> nn.Module:
    """Leave out the middle layer: its output is its first input.

    Where another part of a model reads what a layer caches, the output of the last one is unused.
    """
    _, layers = layers_of(model)
    layer = layers[(len(layers) - 1) // 2]

    def pass_on(forward: Any, *args: Any, **kwargs: Any) -> Any:
        result = forward(*args, **kwargs)
        first = args[0] if args else next(iter(kwargs.values()))
        if isinstance(result, tuple):
            same = [i for i, r in enumerate(result) if _floats(r) and r.shape == first.shape]
            if not same:
                raise NotApplicable
            return tuple(first if i == same[-1] else r for i, r in enumerate(result))
        if not _floats(result) or result.shape != first.shape:
            raise NotApplicable
        return first

    _wrap(layer, pass_on)
    return model


def drop_expert(model: nn.Module) -> nn.Module:
    """Route each token to one expert less."""
    changed = False
    owners = [owner for m in model.modules() for owner in (m, getattr(m, "config", None))]
    for owner in {id(each): each for each in owners}.values():  # modules share a configuration
        for name in ROUTED:
            value = getattr(owner, name, None)
            if isinstance(value, int) and not isinstance(value, bool) and value > 1:
                setattr(owner, name, value - 1)
                changed = True
    if not changed:
        raise NotApplicable
    return model


def int8_weights(model: nn.Module) -> nn.Module:
    """Round every matrix to int8, with one scale for each row."""
    for parameter in _matrices(model):
        scale = _row_maxima(parameter.data) / 127
        parameter.data = ((parameter.data.float() / scale).round() * scale).to(parameter.dtype)
    return model


def fp8_weights(model: nn.Module) -> nn.Module:
    """Round every matrix to float8_e4m3fn, with one scale for each row."""
    for parameter in _matrices(model):
        scale = _row_maxima(parameter.data) / MAX_FP8
        rounded = (parameter.data.float() / scale).to(torch.float8_e4m3fn).float()
        parameter.data = (rounded * scale).to(parameter.dtype)
    return model


def _row_maxima(matrix: torch.Tensor) -> torch.Tensor:
    """Return the largest size of each row, or of each output channel of a convolution."""
    own = tuple(range(1, matrix.dim())) if matrix.shape[-1] < MIN_ROW else (-1,)
    return matrix.float().abs().amax(own, keepdim=True).clamp(min=1e-12)


def _matrices(model: nn.Module) -> list[nn.Parameter]:
    found = [p for p in model.parameters() if p.dim() >= 2 and p.is_floating_point()]
    if not found:
        raise NotApplicable
    return found


def wrong_epsilon(model: nn.Module) -> nn.Module:
    """Use a far larger epsilon in every norm."""
    changed = False
    for module in model.modules():
        for name in ("eps", "variance_epsilon"):
            value = getattr(module, name, None)
            if isinstance(value, float) and 0 < value < 1e-2:
                setattr(module, name, WRONG_EPSILON)
                changed = True
    if not changed:
        raise NotApplicable
    return model


HONEST: dict[str, Change] = {
    "eager attention": _same,
    "norms with fewer roundings": _fewer_roundings,
    "sums in two halves": _split_sums,
}
MUTANTS: dict[str, Change] = {
    "skipped layer": skip_layer,
    "dropped expert": drop_expert,
    "int8 weights": int8_weights,
    "fp8 weights": fp8_weights,
    "wrong epsilon": wrong_epsilon,
}
