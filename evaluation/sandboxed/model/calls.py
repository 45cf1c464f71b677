"""UNTRUSTED: arguments and results of a module: nested values as JSON, with tensors apart."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from evaluation.tasks.input_families import dtype_name


class Unsupported(Exception):
    """Raised for a value that has no JSON form, such as a cache."""


def encoded(value: Any, found: list[torch.Tensor]) -> Any:
    """Return a value as JSON, with its tensors appended to `found`. Raises Unsupported."""
    if isinstance(value, torch.Tensor):
        found.append(value)
        return {"tensor": len(found) - 1}
    if value is None or isinstance(value, bool | int | float | str):
        return {"value": value}
    if isinstance(value, torch.Size):
        return {"tuple": [{"value": int(item)} for item in value]}
    if type(value) in (list, tuple):
        return {type(value).__name__: [encoded(item, found) for item in value]}
    if type(value) is dict and all(isinstance(key, str) for key in value):
        return {"dict": {key: encoded(item, found) for key, item in value.items()}}
    if isinstance(value, torch.dtype):
        return {"dtype": dtype_name(value)}
    raise Unsupported(type(value).__name__)


def decoded(tree: Any, slot: Mapping[str, Any]) -> Any:
    """Return the value of a JSON form, with tensors `input0`, `input1`, ... of a slot."""
    ((kind, content),) = tree.items()
    if kind == "tensor":
        return slot[f"input{content}"]
    if kind == "value":
        return content
    if kind == "dtype":
        return getattr(torch, content)
    if kind == "dict":
        return {key: decoded(item, slot) for key, item in content.items()}
    items = [decoded(item, slot) for item in content]
    return tuple(items) if kind == "tuple" else items


def with_dtype(tree: Any, own: str, other: str) -> Any:
    """Return a JSON form whose arguments that name the dtype `own` name another."""
    ((kind, content),) = tree.items()
    if kind == "dtype":
        return {kind: other if content == own else content}
    if kind == "dict":
        return {kind: {key: with_dtype(item, own, other) for key, item in content.items()}}
    if kind in ("list", "tuple"):
        return {kind: [with_dtype(item, own, other) for item in content]}
    return tree


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors of arguments or of a result, in order."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from tensors(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from tensors(item)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from tensors(getattr(value, field.name))


def mapped(value: Any, function: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Return a value with `function` applied to each tensor."""
    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, Mapping):
        return type(value)({key: mapped(item, function) for key, item in value.items()})  # type: ignore[call-arg]
    if type(value) in (list, tuple):
        return type(value)(mapped(item, function) for item in value)
    return value
