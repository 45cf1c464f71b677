"""Wrong implementations made from a reference, compared in this process: none may pass.

Each is a function of the float64 inputs of a launch. One that float32 could not tell from the
reference is equivalent, and does not count. Any other that passes on all cases shows that the
cases or the tolerance test too little.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

import torch

from evaluation.kinds.kernel.admission.fit import one_thread, small_cases
from evaluation.shapes import dtype_of, tensor_bytes
from evaluation.tasks.float64 import lifted, outputs_of, widened
from evaluation.tasks.input_families import torch_dtype
from evaluation.tasks.operator import Operator
from evaluation.tasks.reference import ExpectedOutput, Reference
from evaluation.tasks.tolerance import Tolerance
from evaluation.tasks.toml_reader import read_text
from evaluation.types import Argument, Split, TaskCheck

TAILS = (1, 16, 32, 64, 128)
"""Elements left out at the end of a dimension."""
MAX_CASES = 6
"""Cases of each dtype on which mutants are compared."""
MIN_KILLED = 12
MAX_EDITS = 24
MIN_SHARE = 0.02
"""Share of the bytes of a seen case below which an input in bfloat16 saves at most 1 % of them."""
BARELY = Tolerance(1.0, 1.0)
"""Error below which float32 cannot tell two results."""
ADVICE = "add input families, widen the domain, or define `magnitude` and `reduction`"

Outputs = tuple[torch.Tensor, ...]
Mutant = Callable[["Launch"], Outputs]


@dataclass(frozen=True)
class Launch:
    """Inputs and scalars of one launch, right outputs, and those of the launch before."""

    reference: Callable[..., Any]
    given: Mapping[str, Any]
    exact: Outputs
    before: Outputs


@dataclass
class Outcome:
    """Results of one mutant: whether it was ever refused, and whether it ever differed."""

    killed: bool = False
    differs: bool = False
    applies: bool = False


@one_thread()
def check_mutants(operator: Operator) -> TaskCheck:
    """Compare all mutants of an operator on its small cases, until each has failed once."""
    alive = dict(mutants(operator))
    outcomes = {name: Outcome() for name in alive}
    for reference, inputs, before in _launches(operator):
        if not alive:
            break
        exact, given = operator.module().exact, {**widened(inputs), **reference.scalars}
        launch = Launch(exact, given, outputs_of(exact(**given)), before)
        bounds = reference.bounds(
            inputs, operator.tolerance.get(reference.case.dtype, BARELY), BARELY
        )
        for name in list(alive):
            outcome = outcomes[name]
            _compare(alive[name], launch, reference, bounds, outcome)
            if outcome.killed:
                del alive[name]
    killed = [name for name, outcome in outcomes.items() if outcome.killed]
    gain_nothing = {f"{a.name} in bfloat16" for a in _small_inputs(operator)}
    survived = [name for name in alive if outcomes[name].differs and name not in gain_nothing]
    text = f"{len(killed)} wrong implementations made from the reference fail"
    same = sum(not o.differs and not o.killed for o in outcomes.values())
    text += f", {same} are equivalent" if same else ""
    if survived:
        return TaskCheck("mutants", False, f"these pass: {'; '.join(survived)}; {ADVICE}")
    if len(killed) < MIN_KILLED:
        return TaskCheck("mutants", False, f"{text}; at least {MIN_KILLED} must: {ADVICE}")
    return TaskCheck("mutants", True, text)


def _small_inputs(operator: Operator) -> Iterator[Argument]:
    """Yield the inputs that have less than MIN_SHARE of the bytes of every seen case."""
    seen = [case for case in operator.cases if case.split is Split.SEEN]
    for argument in operator.inputs:
        shares = (tensor_bytes([argument], c) / tensor_bytes(operator.arguments, c) for c in seen)
        if max(shares) < MIN_SHARE:
            yield argument


def _launches(
    operator: Operator,
) -> Iterator[tuple[Reference, dict[str, torch.Tensor], Outputs]]:
    """Yield launches of small cases of every dtype and family, with other outputs of the case."""
    for dtype in operator.domain.dtypes:
        cases = small_cases(operator, dtype)
        step = max(1, len(cases) // MAX_CASES)
        for case in cases[::-1][::step][:MAX_CASES]:
            reference = Reference(operator, case)
            for number, family in enumerate(operator.input_families):
                inputs, others = (
                    reference.drawn(family, seed) for seed in (2 * number + 1, 2 * number + 2)
                )
                before = tuple(y.exact for y in reference.expected(others).values())
                yield reference, inputs, before


def _compare(
    mutant: Mutant,
    launch: Launch,
    reference: Reference,
    bounds: Mapping[str, tuple[ExpectedOutput, ...]],
    outcome: Outcome,
) -> None:
    try:
        found = mutant(launch)
    except Exception:  # an edit that cannot run is no implementation
        return
    if len(found) != len(launch.exact):
        return
    outcome.applies = True
    case, outputs = reference.case, reference.operator.outputs
    named = {a.name: y for a, y in zip(outputs, found, strict=True)}
    for argument, exact in zip(outputs, launch.exact, strict=True):
        got = named[argument.name]
        if got.shape != exact.shape:
            outcome.differs = outcome.killed = True
            return
    for argument in outputs:
        allowed, barely = bounds[argument.name]
        got = named[argument.name]
        if allowed.error_share is not None:
            rounded = {a.name: named[a.name].to(torch_dtype(dtype_of(a, case))) for a in outputs}
            wrong = differs = not allowed.error_share(rounded) <= 1
        else:
            wrong, differs = _is_off(got, allowed), _is_off(got, barely)
        outcome.killed |= wrong
        outcome.differs |= differs or wrong


def _is_off(got: torch.Tensor, expected: ExpectedOutput) -> bool:
    exact, got = expected.exact.double(), got.double()
    same = (got == exact) | (got.isnan() & exact.isnan())
    finite = got.isfinite() & exact.isfinite()
    bad = torch.where(finite, (got - exact).abs() > expected.allowed, ~same)
    return bool(bad.any())


# The mutants


def mutants(operator: Operator) -> Iterator[tuple[str, Mutant]]:
    """Yield all mutants by name."""
    yield "all outputs zero", partial(_mapped, torch.zeros_like)
    yield "all outputs one", partial(_mapped, torch.ones_like)
    yield "the first input as output", _copied
    yield "the outputs of the launch before", lambda launch: launch.before
    for axis in range(max(len(a.shape) for a in operator.outputs)):
        for tail in TAILS:
            name = f"the last {tail} of axis {axis} left out"
            yield name, partial(_mapped, partial(_without_tail, axis=axis, tail=tail))
        for name, change in (("shifted by one", _shifted), ("reversed", _reversed)):
            yield f"{name} along axis {axis}", partial(_mapped, partial(change, axis=axis))
        yield f"the first of axis {axis} for all", partial(_mapped, partial(_first, axis=axis))
    yield "the last element left out", partial(_mapped, _last_zero)
    if len(operator.outputs) > 1:  # such as a right forward pass with a gradient left out
        for number, argument in enumerate(operator.outputs):
            yield f"{argument.name} alone zero", partial(_one_zero, number)
    for argument in operator.inputs:
        for value in ("zero", "one", "mean"):
            yield f"{argument.name} replaced by {value}", partial(_replaced, argument.name, value)
        yield f"{argument.name} in bfloat16", partial(_coarse, argument.name)
    if not any(argument.shape for argument in operator.outputs):
        yield from _with_parts_of_inputs(operator)
    for scalar in operator.scalars:
        yield f"another {scalar.name}", partial(_other_scalar, scalar.name, scalar.dtype)
    yield from _edits(operator)


def _with_parts_of_inputs(operator: Operator) -> Iterator[tuple[str, Mutant]]:
    """Yield what outputs without dimensions have no part for: mistakes along axes of inputs."""
    changes: list[tuple[str, Callable[..., torch.Tensor]]] = [
        *((f"the last {tail} left out", partial(_without_tail, tail=tail)) for tail in TAILS),
        ("shifted by one", _shifted),
        ("reversed", _reversed),
    ]
    for argument in operator.inputs:
        for axis in range(len(argument.shape)):
            for name, change in changes:
                change_of_axis = partial(change, axis=axis)
                yield (
                    f"{argument.name}, axis {axis}: {name}",
                    partial(_with_input, argument.name, change_of_axis),
                )


def _with_input(
    name: str, change: Callable[[torch.Tensor], torch.Tensor], launch: Launch
) -> Outputs:
    return outputs_of(launch.reference(**{**launch.given, name: change(launch.given[name])}))


def _mapped(change: Callable[[torch.Tensor], torch.Tensor], launch: Launch) -> Outputs:
    return tuple(change(y) for y in launch.exact)


def _one_zero(number: int, launch: Launch) -> Outputs:
    return tuple(torch.zeros_like(y) if n == number else y for n, y in enumerate(launch.exact))


def _copied(launch: Launch) -> Outputs:
    first = next(v for v in launch.given.values() if torch.is_tensor(v)).flatten()
    return tuple(
        first.repeat(y.numel() // max(1, first.numel()) + 1)[: y.numel()].to(y.dtype).view(y.shape)
        for y in launch.exact
    )


def _without_tail(y: torch.Tensor, axis: int, tail: int) -> torch.Tensor:
    if axis >= y.dim() or y.shape[axis] < tail:
        return y
    y = y.clone()
    y.narrow(axis, y.shape[axis] - tail, tail).zero_()
    return y


def _shifted(y: torch.Tensor, axis: int) -> torch.Tensor:
    return y.roll(1, axis) if axis < y.dim() else y


def _reversed(y: torch.Tensor, axis: int) -> torch.Tensor:
    return y.flip(axis) if axis < y.dim() else y


def _first(y: torch.Tensor, axis: int) -> torch.Tensor:
    return y.narrow(axis, 0, 1).expand_as(y).clone() if axis < y.dim() else y


def _last_zero(y: torch.Tensor) -> torch.Tensor:
    y = y.clone(memory_format=torch.contiguous_format)
    y.view(-1)[-1:] = 0
    return y


def _replaced(name: str, value: str, launch: Launch) -> Outputs:
    x = launch.given[name]
    if value == "mean":
        if not x.is_floating_point():
            return launch.exact
        new = x.mean().expand_as(x).clone()
    else:
        new = torch.zeros_like(x) if value == "zero" else torch.ones_like(x)
    return outputs_of(launch.reference(**{**launch.given, name: new}))


def _coarse(name: str, launch: Launch) -> Outputs:
    x = launch.given[name]
    if not x.is_floating_point():
        return launch.exact
    return outputs_of(launch.reference(**{**launch.given, name: x.bfloat16().double()}))


def _other_scalar(name: str, dtype: str, launch: Launch) -> Outputs:
    value = launch.given[name]
    other = value + 1 if dtype == "int64" else value * 1.5 + (value == 0)
    return outputs_of(launch.reference(**{**launch.given, name: other}))


_SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
}


def _edits(operator: Operator) -> Iterator[tuple[str, Mutant]]:
    """Yield references with one edit of `reference`: an operator, or a number."""
    source = read_text(operator.folder / "reference.py")
    tree = ast.parse(source)
    places = _places(_body_of(tree))
    for number, (line, what) in enumerate(places[:MAX_EDITS]):
        edited = copy.deepcopy(tree)
        _edit(_body_of(edited), number)
        module = ModuleType("edited_reference")
        try:
            exec(
                compile(ast.fix_missing_locations(edited), "reference.py", "exec"), module.__dict__
            )
        except Exception:  # an edit that cannot be loaded
            continue
        reference = lifted(module.__dict__["reference"])
        yield f"line {line}: {what}", partial(_called, reference)


def _body_of(tree: ast.Module) -> list[ast.stmt]:
    """Return the statements of `reference`; none where it is no plain function."""
    functions = (node for node in tree.body if isinstance(node, ast.FunctionDef))
    return next((node.body for node in functions if node.name == "reference"), [])


def _called(reference: Callable[..., Any], launch: Launch) -> Outputs:
    return outputs_of(reference(**launch.given))


def _places(body: Sequence[ast.stmt]) -> list[tuple[int, str]]:
    """Return line and description of each edit of a body, in the order of `_edit`."""
    found = []
    for node in _nodes(body):
        if isinstance(node, ast.BinOp):
            swapped = _SWAPS[type(node.op)]
            found.append((node.lineno, f"{type(node.op).__name__} becomes {swapped.__name__}"))
        elif isinstance(node, ast.Compare):
            other = _SWAPS[type(node.ops[0])]
            found.append((node.lineno, f"{type(node.ops[0]).__name__} becomes {other.__name__}"))
        elif isinstance(node, ast.Constant):
            found.append((node.lineno, f"{node.value!r} becomes {_changed(node.value)!r}"))
    return found


def _edit(body: Sequence[ast.stmt], number: int) -> None:
    node = list(_nodes(body))[number]
    if isinstance(node, ast.BinOp):
        node.op = _SWAPS[type(node.op)]()  # type: ignore[assignment]
    elif isinstance(node, ast.Compare):
        node.ops = [_SWAPS[type(node.ops[0])]()]  # type: ignore[list-item]
    elif isinstance(node, ast.Constant):
        node.value = _changed(node.value)


def _nodes(body: Sequence[ast.stmt]) -> Iterator[ast.AST]:
    for statement in body:
        for node in ast.walk(statement):
            if (
                (isinstance(node, ast.BinOp) and type(node.op) in _SWAPS)
                or (isinstance(node, ast.Compare) and type(node.ops[0]) in _SWAPS)
                or (isinstance(node, ast.Constant) and type(node.value) in (int, float))
            ):
                yield node


def _changed(value: object) -> float:
    assert isinstance(value, int | float)
    return value + 1 if isinstance(value, int) else value * 1.5 or 0.5
