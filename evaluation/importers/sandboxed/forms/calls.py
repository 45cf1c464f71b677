"""UNTRUSTED: problems of the calls form: a function, and a test that calls it on tensors.

The test runs here once, with a recorder in the place of the function. Calls with the same kinds of
arguments are a group, and the largest call of a group becomes a problem of KernelBench's form:
sizes are constants of its file, and arguments that are no tensors stand in the call.
"""

from __future__ import annotations

import inspect
import itertools
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from evaluation.importers.files import Files
from evaluation.importers.sandboxed.forms.kernelbench import identifier
from evaluation.importers.sandboxed.forms.problem_text import ProblemText
from evaluation.importers.sandboxed.forms.recorded_calls import (
    LISTS,
    SIZE_NAMES,
    Call,
    Tensors,
    recorded,
    written,
)
from evaluation.importers.sandboxed.observation import Unsupported
from evaluation.importers.separator import function_and_test

MAX_GROUPS = 4
"""Groups of calls that are tried, those with the most calls first."""
MAX_TIED = 6
"""Equal sizes of which every division is tried."""


def sources(files: Files, name: str) -> Iterator[str]:
    """Yield problems of KernelBench's form for the groups of calls. Raises Unsupported."""
    function, test = function_and_test(files.source)
    calls, called = recorded(function, test, name)
    groups: dict[str, list[Call]] = {}
    for call in calls:
        groups.setdefault(call.key, []).append(call)
    chosen = sorted(groups.values(), key=lambda g: (-len(g), -max(c.elements for c in g)))
    if not chosen:
        raise Unsupported(f"its test calls {name}() with no tensors")
    for group in chosen[:MAX_GROUPS]:
        yield _source(function, called, group)


def _source(function: str, found: Callable[..., Any], group: list[Call]) -> str:
    """Return the file of a problem. Raises Unsupported."""
    called, signature, text = found.__name__, inspect.signature(found), inspect.getdoc(found) or ""
    call = max(group, key=lambda c: c.elements)
    names: dict[tuple[str, int | None], str] = {}
    for t in call.tensors:
        wanted = t.parameter if t.at is None else f"{t.parameter}_{t.at}"
        names[t.parameter, t.at] = identifier(wanted, {*names.values(), called, "self"})
    order = [names[t.parameter, t.at] for t in call.tensors]
    sizes = _sizes(function, called, signature, call, order)
    tied = {
        n: _with_sizes(v, call, sizes, order) for n, v in call.others.items() if n in SIZE_NAMES
    }
    low = {t: min(_same(c, t).low for c in group) for t in call.tensors}
    high = {t: max(_same(c, t).high for c in group) for t in call.tensors}
    drawn = [
        _drawn(t, n, call, sizes, order, low[t], high[t])
        for t, n in zip(call.tensors, order, strict=True)
    ]
    constants = {
        symbol: size
        for t, n in zip(call.tensors, order, strict=True)
        for symbol, size in zip(sizes[n], t.shape, strict=True)
    }
    problem = ProblemText(
        part=function,
        origin="a call of the suite's test",
        doc=text,
        settings=list(tied),
        names=order,
        body=_body(called, signature, call, names, tied),
        constants=constants,
        cases={},
        inputs=["return [", *(f"    {line}," for line in drawn), "]"],
        init_inputs=[f"return [{', '.join(tied.values())}]"],
    )
    return str(problem)


def _same(call: Call, tensor: Tensors) -> Tensors:
    """Return the tensor of another call of the group in the same place."""
    return next(t for t in call.tensors if (t.parameter, t.at) == (tensor.parameter, tensor.at))


def _body(
    called: str,
    signature: inspect.Signature,
    call: Call,
    names: Mapping[tuple[str, int | None], str],
    tied: Mapping[str, str],
) -> list[str]:
    """Return the lines that call the function with copies of the tensors that it changes."""
    lines = [
        f"{n} = {n}.clone()" for (parameter, _), n in names.items() if parameter in call.changed
    ]
    arguments = []
    starred = False
    for parameter in reversed(list(signature.parameters.values())):
        name = parameter.name
        own = [n for (p, _), n in names.items() if p == name]
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            if own or call.others.get(name):
                raise Unsupported("takes arguments of any name")
            continue
        if own:
            value = f"[{', '.join(own)}]" if name in call.listed else own[0]
        elif name in tied:
            value = f"self.{name}"
        elif name in call.others:
            value = written(call.others[name])
        else:
            continue
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            arguments.append(f"*{value}")
            starred = True
        elif starred or parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
            arguments.append(value)
        else:
            arguments.append(f"{name}={value}")
    made = f"{called}({', '.join(reversed(arguments))})"
    if call.returned:
        return [*lines, f"return {made}"]
    changed = [n for (parameter, _), n in names.items() if parameter in call.changed]
    if not changed:
        raise Unsupported("returns nothing")
    return [*lines, made, f"return {', '.join(changed)}"]


def _sizes(
    function: str, called: str, signature: inspect.Signature, call: Call, order: list[str]
) -> dict[str, list[str]]:
    """Return a name for each dimension; those that must be equal share one.

    Of the ways to divide the dimensions of one size, the finest with which the function runs on
    tensors without data is taken.
    """
    value = {
        (n, at): size
        for t, n in zip(call.tensors, order, strict=True)
        for at, size in enumerate(t.shape)
    }
    group_of = {place: size * 1000 for place, size in value.items()}
    runs = _runner(function, called, signature, call, order, value)
    for size in sorted({v for v in value.values() if v > 1}):
        equal = [place for place in value if value[place] == size]
        if len(equal) < 2:
            continue
        for division in _divisions(len(equal)):
            tried = {
                **group_of,
                **{p: size * 1000 + d for p, d in zip(equal, division, strict=True)},
            }
            sizes = {
                g: g // 1000 * (1 if g // 1000 != size else 2 + g % 1000) for g in tried.values()
            }
            if runs(tried, sizes):
                group_of = tried
                break
    found: dict[int, str] = {}
    for n, at in value:
        found.setdefault(group_of[n, at], f"{n.rstrip('_')}_{at}")
    return {
        n: [found[group_of[n, at]] for at in range(len(t.shape))]
        for t, n in zip(call.tensors, order, strict=True)
    }


def _runner(
    function: str,
    called: str,
    signature: inspect.Signature,
    call: Call,
    order: list[str],
    value: Mapping[tuple[str, int], int],
) -> Callable[[Mapping[tuple[str, int], int], Mapping[int, int]], bool]:
    """Return the test whether a function runs on tensors without data, of other sizes."""
    module = types.ModuleType("problem")
    exec(compile(function, "problem.py", "exec"), module.__dict__)

    def runs(chosen: Mapping[tuple[str, int], int], sizes: Mapping[int, int]) -> bool:
        arguments: dict[str, Any] = {}
        for t, n in zip(call.tensors, order, strict=True):
            shape = [sizes[chosen[n, at]] for at in range(len(t.shape))]
            x = torch.empty(shape, dtype=t.dtype, device="meta")
            if t.at is None:
                arguments[t.parameter] = x
            else:
                arguments.setdefault(t.parameter, []).append(x)
        others = dict(call.others)
        for name in SIZE_NAMES:
            if name in others:
                others[name] = _changed(others[name], value, chosen, sizes)
        bound = inspect.BoundArguments(signature, {})
        known = {**arguments, **others}
        bound.arguments.update({n: known[n] for n in signature.parameters if n in known})
        try:
            module.__dict__[called](*bound.args, **bound.kwargs)
        except Exception:
            return False
        return True

    return runs


def _divisions(count: int) -> Iterator[tuple[int, ...]]:
    """Yield the ways to divide `count` things, as numbers of their parts, the finest first."""
    if count > MAX_TIED:
        yield (0,) * count
        return
    every = [
        labels
        for labels in itertools.product(range(count), repeat=count)
        if all(label <= max(labels[:at], default=-1) + 1 for at, label in enumerate(labels))
    ]
    yield from sorted(every, key=lambda labels: -max(labels))


def _changed(
    given: Any,
    value: Mapping[tuple[str, int], int],
    chosen: Mapping[tuple[str, int], int],
    sizes: Mapping[int, int],
) -> Any:
    """Return an argument that names sizes, for other sizes; the last equal dimension counts."""
    if isinstance(given, LISTS):
        return tuple(_changed(v, value, chosen, sizes) for v in given)
    equal = [place for place, size in value.items() if size == given]
    first = equal[0][0] if equal else ""
    own = [place for place in equal if place[0] == first]
    return sizes[chosen[own[-1]]] if own else given


def _with_sizes(given: Any, call: Call, sizes: Mapping[str, list[str]], order: list[str]) -> str:
    """Return an argument that names sizes, as Python with their names."""
    if isinstance(given, LISTS):
        return f"({''.join(_with_sizes(v, call, sizes, order) + ', ' for v in given)})"
    for t, n in zip(call.tensors, order, strict=True):
        if type(given) is int and given > 1 and given in t.shape:
            return sizes[n][len(t.shape) - 1 - t.shape[::-1].index(given)]
    return written(given)


def _drawn(
    tensor: Tensors,
    name: str,
    call: Call,
    sizes: Mapping[str, list[str]],
    order: list[str],
    low: float,
    high: float,
) -> str:
    """Return the call that draws an input like those of the test."""
    shape = f"({''.join(f'{symbol}, ' for symbol in sizes[name])})"
    dtype = tensor.dtype
    if dtype == torch.bool:
        return f"torch.randint(0, 2, {shape}, dtype=torch.bool)"
    if not dtype.is_floating_point:
        top = _bound(tensor, call, sizes, order, int(high)) or str(int(high) + 1)
        return f"torch.randint({min(0, int(low))}, {top}, {shape}, dtype={dtype})"
    kind = "rand" if low >= 0 or max(-low, high) <= 1 else "randn"
    extra = "" if dtype == torch.float32 else f", dtype={dtype}"
    return f"torch.{kind}({shape}{extra})"


def _bound(
    tensor: Tensors, call: Call, sizes: Mapping[str, list[str]], order: list[str], high: int
) -> str:
    """Return the name of the size that bounds an index; empty for integers that are none."""
    others = [
        (t, n) for t, n in zip(call.tensors, order, strict=True)
        if t is not tensor and t.dtype.is_floating_point
    ]  # fmt: skip
    if not others or tensor.low < 0:
        return ""
    dim = call.others.get("dim")
    if type(dim) is int:
        t, n = others[0]
        return sizes[n][dim] if -len(t.shape) <= dim < len(t.shape) and high < t.shape[dim] else ""
    for words, at in (("target", 1), ("label", 1), ("ind", 0), ("input", 0)):
        if words in tensor.parameter.lower():
            for t, n in others:
                if len(t.shape) > at and high < t.shape[at]:
                    return sizes[n][at]
    return ""
