"""Fit of a tolerance: the smallest constants with which honest float32 arithmetic passes.

The reference itself is computed in float32 on small cases of every dtype and input family, once
with PyTorch's sums and once with those of one thread (see `InTurn`). The larger error is compared
with the size of its roundings (see `tasks.roundings`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from evaluation.code.languages import languages
from evaluation.device_kind import CPU, GPU
from evaluation.errors import TaskError, line_of
from evaluation.kinds.kernel.admission.task_checks import factor
from evaluation.shapes import WHOLE, dtype_of, shape_of
from evaluation.tasks.defaults import fixed_seeds
from evaluation.tasks.float64 import outputs_of
from evaluation.tasks.input_families import torch_dtype
from evaluation.tasks.operation_count import OperationCount
from evaluation.tasks.operator import Operator
from evaluation.tasks.reference import ExpectedOutput, Reference
from evaluation.tasks.spec import FITTED, fit_command, load_operator, reference_hash
from evaluation.tasks.tolerance import Tolerance
from evaluation.types import Case, Comparison

CALL = 1 << 14
"""Operations that take as long as a call of PyTorch does whose results are disturbed."""
C1 = {"float32": 4.0, "float16": 2.0, "bfloat16": 2.5}
"""Roundings of an output; the interpreter of Triton truncates to bfloat16, up to two of them."""
MARGIN, MIN_MARGIN = 4.0, 2.0
"""Allowed error of the roundings over the worst honest one, and its least where c2 is MAX_C2."""
MIN_C2, MAX_C2 = 2.0, 100.0
MIN_BFLOAT16 = 5.0
"""Least error of a bfloat16 computation in units of what is allowed in float32."""
MAX_ELEMENTS = 1 << 16
"""Size of the largest case that is fitted on, where there are smaller ones."""
MAX_CASES = 12
"""Cases of each dtype, of all sizes up to that."""
LARGE_ELEMENTS = 1 << 21
"""Size of one larger case, in whose long sums roundings add up that are nothing in small ones."""
LARGE_FAMILIES = ("nominal", "structured")
"""Families of that one: numbers at random, and few ones whose roundings are the same."""
MAX_OPERATIONS, MAX_LARGE_OPERATIONS = 4e8, 1.4e9
"""Operations of a dtype's small cases together and of the larger one, counted for each family.

A fit does each some ten times, with structured inputs thirty. Operators of this project stay below;
of a deep model, one small case can reach it.
"""
MAX_IN_TURN, MAX_PRODUCTS = 1 << 10, 1 << 22
"""Terms of a row that one thread adds up, where MARGIN leaves it sixteen times as many; and the
products of a matrix product up to which they are computed one by one.
"""
SEED = 1
STRUCTURED_SEEDS = (SEED, 2, 3)
"""Those of structured inputs, the few values of which round alike or not by where they begin."""


@dataclass(frozen=True)
class Worst:
    """The largest error found, in units of the size of the roundings, and where."""

    error: float = 0.0
    case: str = ""
    family: str = ""


@dataclass(frozen=True)
class Fit:
    """Fitted constants by dtype, where they come from, and the error of bfloat16 inputs."""

    tolerance: Mapping[str, Tolerance]
    worst: Mapping[str, Worst]
    bfloat16: float | None


class NoFit(TaskError):
    """Raised where inputs of some `families` leave no tolerance; the message names one of them."""

    def __init__(self, message: str, families: Iterable[str]) -> None:
        super().__init__(message)
        self.families = tuple(dict.fromkeys(families))


class InTurn(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A mode that adds up the terms of a float32 sum one after the other, as one thread does.

    It begins with what the reference adds to a sum or a product. PyTorch adds up parts of a sum,
    which rounds less, most of all where numbers repeat and round alike. A single sum of everything
    is no thread's.
    """

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result, name = func(*args, **(kwargs or {})), func.overloadpacket.__name__
        given = [x for x in args if torch.is_tensor(x)]
        if any(x.dtype is not torch.float32 for x in (result, *given) if torch.is_tensor(x)):
            return result
        if name in ("sum", "mean") and result.numel() > 1:
            terms = _terms_in_turn(*args[:2])
            if 0 < len(terms) <= MAX_IN_TURN:
                result = sum(terms).view(result.shape) / (len(terms) if name == "mean" else 1)
                result.terms = terms.view(-1, *result.shape) if name == "sum" else None
        elif name in ("mm", "bmm") and args[0].numel() * args[1].shape[-1] <= MAX_PRODUCTS:
            result.terms = (args[0][..., None] * args[1][..., None, :, :]).movedim(-2, 0)
        elif name in ("add", "sub") and len(given) > 1 and not kwargs:
            first, last = given
            if (terms := getattr(last, "terms", None)) is not None:
                return sum(terms if name == "add" else -terms, first)
            if (terms := getattr(first, "terms", None)) is not None:
                return sum(terms, last if name == "add" else -last)
        return result


def _terms_in_turn(x: torch.Tensor, dims: Sequence[int] | None = None) -> Any:
    """Return the terms of a sum over dimensions, by default all, along a first dimension."""
    over = sorted(d % x.dim() for d in dims or range(x.dim())) if x.dim() else []
    others = [d for d in range(x.dim()) if d not in over]
    return x.permute(*over, *others).reshape(-1, *(x.shape[d] for d in others))


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread meanwhile: on small tensors, threads would wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@one_thread()
def fit(folder: Path, least_bfloat16: float = MIN_BFLOAT16) -> Fit:
    """Fit the tolerance of an operator, with random numbers that are the same each time.

    Inputs in bfloat16 must make an error of `least_bfloat16` times what is allowed.

    Raises: NoFit where honest errors are too large in some families; TaskError where those of
    inputs in bfloat16 are too small, or where `reference.py` raises.
    """
    on_cpu, on_gpu = (load_operator(folder, languages(), kind, False) for kind in (CPU, GPU))
    known = dict.fromkeys((*on_cpu.domain.dtypes, *on_gpu.domain.dtypes))
    dtypes = [dtype for dtype in known if dtype not in WHOLE]
    if not on_cpu.has_roundings:
        return Fit({}, {}, None)
    try:
        with fixed_seeds(SEED):
            return _fitted(folder, on_cpu, dtypes, least_bfloat16)
    except TaskError:
        raise
    except Exception as error:
        path = folder / "reference.py"
        if not (found := line_of(error, path)):
            raise
        raise TaskError(f"{path}: {found}") from error


def constants(folder: Path, worst: Mapping[str, Worst]) -> dict[str, Tolerance]:
    """Return the constants for the largest honest errors of each dtype. Raises NoFit."""
    tolerance = {}
    for dtype, found in worst.items():
        if not MIN_MARGIN * found.error <= MAX_C2:
            raise NoFit(_too_large(folder, dtype, found), [found.family])
        c2 = min(MAX_C2, _rounded_up(MARGIN * found.error))
        tolerance[dtype] = Tolerance(C1[dtype], max(MIN_C2, c2))
    return tolerance


def _too_large(folder: Path, dtype: str, found: Worst) -> str:
    return (
        f"{folder / 'reference.py'}: in {dtype}, c2 would be {MIN_MARGIN * found.error:.3g}, above"
        f" {MAX_C2:g}: an honest result is {found.error:.3g} times the size of its roundings off,"
        f" in {found.case} with {found.family} inputs. Leave out that family by"
        " `input_families`, or define `magnitude` and `reduction`"
    )


def _fitted(folder: Path, on_cpu: Operator, dtypes: Sequence[str], least_bfloat16: float) -> Fit:
    worst = {dtype: _worst(on_cpu, dtype) for dtype in dtypes}
    tolerance = constants(folder, worst)
    bfloat16 = None
    random = all(a.compare == Comparison.DISTRIBUTION for a in on_cpu.outputs)
    floats = any(a.dtype in ("dtype", "float32") for a in on_cpu.inputs)
    if "float32" in tolerance and floats and not random:
        bfloat16 = _error_of_bfloat16(on_cpu, tolerance["float32"])
        if bfloat16 < least_bfloat16:
            raise TaskError(
                f"{folder / 'reference.py'}: the tolerance (c1 {C1['float32']:g}, c2"
                f" {tolerance['float32'].c2:g}) cannot tell inputs in bfloat16 from float32: they"
                f" are {bfloat16:.3g} times the allowed error off, at least {least_bfloat16:g} are"
                " needed. Change `range` or `scale` of the inputs so that the result depends on"
                " them, or define `magnitude` and `reduction`"
            )
    return Fit(tolerance, worst, bfloat16)


def text(fitted: Fit) -> str:
    """Return the constants of a fitted tolerance, and what it refuses, on one line."""
    if not fitted.tolerance:
        return "whole numbers, no tolerance"
    parts = [
        f"{dtype} c1 {constants.c1:g} c2 {constants.c2:g}"
        for dtype, constants in fitted.tolerance.items()
    ]
    found = ", ".join(parts)
    if fitted.bfloat16 is None:
        return found
    return (
        f"{found}. In float32, inputs rounded to bfloat16 must be refused, and are:"
        f" their error is {factor(fitted.bfloat16)} times the allowed one"
    )


def write(folder: Path, fitted: Fit) -> Path:
    """Write `fitted.toml`, and return its path."""
    path = folder / FITTED
    path.write_text(content(folder, fitted), encoding="utf-8")
    return path


def content(folder: Path, fitted: Fit) -> str:
    """Return the text of `fitted.toml`."""
    lines = [
        f"# Written by `{fit_command(folder.name)}`, which is to be run after each change of",
        "# reference.py.",
        f'reference = "{reference_hash(folder)}"',
    ]
    if fitted.tolerance:
        lines += ["", "[tolerance]"]
        for dtype, constants in fitted.tolerance.items():
            lines.append(f"{dtype} = {{ c1 = {constants.c1}, c2 = {constants.c2} }}")
        lines += ["", "# Largest honest error in units of the size of its roundings.", "[measured]"]
        for dtype, found in fitted.worst.items():
            place = f'case = "{found.case}", family = "{found.family}"'
            lines.append(f"{dtype} = {{ error = {found.error:.2g}, {place} }}")
        if fitted.bfloat16 is not None:
            shown = min(fitted.bfloat16, 1e9)
            lines.append(f"error_of_bfloat16 = {shown:.2g}  # of the allowed error in float32")
    return "\n".join(lines) + "\n"


def small_cases(operator: Operator, dtype: str) -> list[Case]:
    """Return the boundary and written cases of a dtype that are small, or the smallest one."""
    cases = _cases_by_size(operator, dtype)
    small = [case for case in cases if operator.elements(case) <= MAX_ELEMENTS] or cases[:1]
    step = len(small) / min(len(small), MAX_CASES)
    return [small[int(step * number)] for number in range(min(len(small), MAX_CASES))]


def _cases_by_size(operator: Operator, dtype: str) -> list[Case]:
    """Return the boundary and written cases of a dtype, the smallest first. Raises TaskError."""
    written = [case for case in operator.cases if case.dtype == dtype]
    cases = sorted([*operator.domain.boundaries((dtype,)), *written], key=operator.elements)
    if not cases:
        raise TaskError(f"{operator.folder}: no case has the dtype {dtype}; add one")
    return cases


def computed(reference: Reference, inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the outputs of the reference in float32, rounded to their dtypes."""
    operator, case = reference.operator, reference.case
    given = {
        name: x.float() if x.dtype.is_floating_point and x.dtype.itemsize > 1 else x
        for name, x in inputs.items()
    }
    outputs = outputs_of(operator.module().reference(**given, **reference.scalars))
    return {
        a.name: y.to(torch_dtype(dtype_of(a, case)))
        for a, y in zip(operator.outputs, outputs, strict=True)
    }


def trials(
    operator: Operator, dtype: str
) -> Iterator[tuple[Reference, str, dict[str, torch.Tensor]]]:
    """Yield the small cases of a dtype with inputs of each family, from fixed seeds.

    The largest case up to `LARGE_ELEMENTS` follows, with those of `LARGE_FAMILIES`. Cases with too
    many operations are left out, but never the small one with the fewest.
    """
    small, families = small_cases(operator, dtype), operator.input_families
    kept = _within_operations(operator, small, MAX_OPERATIONS / len(families))
    chosen: list[tuple[Case, Sequence[str]]] = [(case, families) for case in kept]
    cases = [c for c in _cases_by_size(operator, dtype) if operator.elements(c) <= LARGE_ELEMENTS]
    if cases and cases[-1] not in small:
        large = [f for f in families if f in LARGE_FAMILIES]
        if _operations(operator, cases[-1]) * len(large) <= MAX_LARGE_OPERATIONS:
            chosen.append((cases[-1], large))
    for case, named in chosen:
        reference = Reference(operator, case)
        for family in named:
            for seed in STRUCTURED_SEEDS if family == "structured" else (SEED,):
                yield reference, family, reference.drawn(family, seed)


def _within_operations(operator: Operator, cases: Sequence[Case], most: float) -> list[Case]:
    """Return as many cases as there are operations for, those with the fewest first chosen."""
    operations = [_operations(operator, case) for case in cases]
    kept: set[int] = set()
    for number in sorted(range(len(cases)), key=operations.__getitem__):
        most -= operations[number]
        if most < 0 and kept:
            break
        kept.add(number)
    return [cases[number] for number in sorted(kept)]


class _Work(OperationCount):  # type: ignore[no-untyped-call]
    """A mode that counts at least CALL operations for each call, and ends a reference of many."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        before = self.operations
        result = super().__torch_dispatch__(func, types, args, kwargs)
        self.operations = max(self.operations, before + CALL)
        if self.operations > MAX_LARGE_OPERATIONS:
            raise _TooMany
        return result


class _TooMany(Exception):
    """Raised to end a reference."""


def _operations(operator: Operator, case: Case) -> float:
    """Return the operations of a reference on a case, infinite above MAX_LARGE_OPERATIONS."""
    given = {a.name: case[a.name] for a in operator.scalars}
    for a in operator.inputs:
        given[a.name] = torch.empty(
            shape_of(a, case), dtype=torch_dtype(dtype_of(a, case)), device="meta"
        )
    try:
        with _Work() as work:
            operator.module().reference(**given)
    except _TooMany:
        return math.inf
    except Exception:  # the reference is the author's
        return _stated_operations(operator, case)
    return float(work.operations)


def _stated_operations(operator: Operator, case: Case) -> float:
    """Return the operations that a reference states, which needs data; none for a wrong one."""
    try:
        return float(operator.module().cost(case)[1])
    except Exception:  # which running it finds out
        return 0.0


def _worst(operator: Operator, dtype: str) -> Worst:
    """Return the largest honest error in a dtype. Raises NoFit with all families at fault."""
    worst, overflow = Worst(), ""
    at_fault: list[str] = []
    for reference, family, inputs in trials(operator, dtype):
        error, of = _honest_error(reference, inputs, C1[dtype])
        if math.isnan(error):
            overflow = overflow or (
                f"{operator.folder / 'reference.py'}: {of} overflows in {dtype}, in"
                f" {reference.case.name} with {family} inputs: float32 and float64 differ in"
                " what is finite. Leave out that family by `input_families`, or set `range` or"
                " `scale` of the inputs"
            )
        elif error > worst.error:
            worst = Worst(error, reference.case.name, family)
        if not MIN_MARGIN * error <= MAX_C2:
            at_fault.append(family)
    if overflow:
        raise NoFit(overflow, at_fault)
    if at_fault:
        raise NoFit(_too_large(operator.folder, dtype, worst), at_fault)
    return worst


def _honest_error(
    reference: Reference, inputs: Mapping[str, torch.Tensor], c1: float
) -> tuple[float, str]:
    """Return the c2 that the reference in float32 needs, and the output that does.

    It is NaN where an output is not finite and should be.
    """
    worst, of = 0.0, ""
    try:
        bounds = reference.bounds(inputs, Tolerance(c1, 0.0), Tolerance(c1, 1.0))
        each, module = [computed(reference, inputs)], reference.operator.module()
        if module.exact is not module.reference:  # with a `magnitude` it may not run in a mode
            with InTurn():  # type: ignore[no-untyped-call]
                each.append(computed(reference, inputs))
    except OverflowError:  # of a reference in Python's own numbers
        return math.nan, "a number"
    for outputs, name, got in ((found, *pair) for found in each for pair in found.items()):
        least, most = bounds[name]
        if most.error_share:
            error = _needed_share(reference, name, outputs, most)
        elif got.is_floating_point():
            error = _needed(got, least, most)
        elif bool(((got.double() - most.exact.double()).abs() > most.allowed).any()):
            error = math.inf
        else:
            continue
        if math.isnan(error):
            return error, name
        if error > worst:
            worst, of = error, name
    return worst, of


def _needed_share(
    reference: Reference, name: str, outputs: Mapping[str, torch.Tensor], expected: ExpectedOutput
) -> float:
    """Return the c2 that a property needs; 0 for a random output that is accepted."""
    assert expected.error_share is not None
    share = expected.error_share(outputs)
    output = next(a for a in reference.operator.outputs if a.name == name)
    if output.compare == Comparison.PROPERTY:
        return share
    return 0.0 if share <= 1 else math.inf


def _needed(got: torch.Tensor, least: ExpectedOutput, most: ExpectedOutput) -> float:
    """Return the c2 that an output needs; NaN where it is not finite and should be."""
    finite = torch.isfinite(least.rounded.double())
    if bool((finite != torch.isfinite(got.double())).any()):
        return math.nan
    error = torch.where(finite, (got.double() - least.exact).abs() - least.allowed, 0.0)
    size = most.allowed - least.allowed
    needed = torch.where(error > 0, error / size, 0.0)
    return float(needed.nan_to_num(0.0, posinf=math.inf).max()) if needed.numel() else 0.0


def _error_of_bfloat16(operator: Operator, tolerance: Tolerance) -> float:
    """Return the largest error with inputs rounded to bfloat16, in units of the allowed one."""
    largest = 0.0
    for reference, family, inputs in trials(operator, "float32"):
        if family != operator.input_families[0]:
            continue
        coarse = {
            name: x.bfloat16().float() if x.dtype is torch.float32 else x
            for name, x in inputs.items()
        }
        expected = reference.bounds(inputs, tolerance)
        outputs = computed(reference, coarse)
        for name, got in outputs.items():
            (output,) = expected[name]
            if output.error_share:
                largest = max(largest, min(output.error_share(outputs), 1e9))
                continue
            if not got.is_floating_point():
                if not torch.equal(got, output.rounded):
                    return math.inf
                continue
            share = ((got.double() - output.exact).abs() / output.allowed).nan_to_num(0.0)
            largest = max(largest, float(share.max()) if share.numel() else 0.0)
    return largest


def _rounded_up(value: float) -> float:
    """Return a number of two significant digits, rounded up."""
    if not 0 < value < math.inf:
        return value
    digits = 1 - math.floor(math.log10(value))
    return float(math.ceil(value * 10.0**digits) / 10.0**digits)
