"""UNTRUSTED: checks of a written task by running it: truth, degenerate outputs, cost, tolerance."""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from evaluation.code.languages import languages
from evaluation.device_kind import CPU, GPU
from evaluation.errors import TaskError
from evaluation.importers.sandboxed.observation import Random, Unsupported
from evaluation.importers.sandboxed.written import Written
from evaluation.kinds.kernel.admission.fit import (
    MIN_BFLOAT16,
    NoFit,
    fit,
    small_cases,
    write,
)
from evaluation.kinds.kernel.admission.reference_check import changed, same_bits
from evaluation.shapes import FAMILIES, dtype_of, shape_of
from evaluation.tasks.input_families import torch_dtype
from evaluation.tasks.operation_count import counted_cost
from evaluation.tasks.operator import Operator
from evaluation.tasks.reference import Reference
from evaluation.tasks.source import CONSTANT
from evaluation.tasks.spec import load_operator
from evaluation.tasks.suite_call import KEEPS_STATE, start_over
from evaluation.types import Split

CASE_MB = (24, 12, 6, 3, 2, 1)
MORE_MB = (48, 96, 192, 384, 768)
"""Tried in order where the weights of a model leave no room for its smallest inputs."""
MAX_OPERATIONS = 4e8
"""Operations of the largest case on a CPU."""
HEADROOM = 8
"""Growth of results from the published case on a CPU to the largest one, such as of sums."""
MAX_FLOAT32 = torch.finfo(torch.float32).max / HEADROOM
STATE = f"\n\n{KEEPS_STATE} = True  # each call starts from what the constructor made\n"
_REFERENCE = re.compile(r"^def reference\(.*\):\n", re.MULTILINE)


class Checker:
    """A written task in a folder, which is changed until its checks pass."""

    def __init__(self, written: Written, folder: Path) -> None:
        self.written, self.folder = written, folder
        self.flags: list[str] = []
        self._why_infinite = "the result is not finite"

    def run(self) -> None:
        """Write the folder's files. Raises Unsupported with the reason of a refusal."""
        self._write()
        self._size()
        self._copy_changed_inputs()
        if self.written.keeps_tensors:
            self._note_state()
        self._families()
        self._fit()

    def _copy_changed_inputs(self) -> None:
        """Have the reference copy the inputs that it changes, such as running statistics.

        No answer may change an input, so what the problem writes there is not compared.
        """
        reference = next(self._references())
        inputs = self._nominal(reference, 1)
        given = {n: x.clone() for n, x in inputs.items()}
        scalars = {a.name: reference.case[a.name] for a in reference.operator.scalars}
        try:
            reference.operator.module().reference(**given, **scalars)
        except Exception:  # a problem's code raises anything; `_families` finds out why
            return
        if written_to := changed(inputs, given):
            copies = "".join(f"    {name} = {name}.clone()\n" for name in written_to)
            written = self.written
            written.reference = _REFERENCE.sub(rf"\g<0>{copies}", written.reference, count=1)
            self.flags.append(f"changes to {', '.join(written_to)} are not compared")
            self._write()

    def _note_state(self) -> None:
        """Note that a call changes tensors of the module: the reference starts from the first ones.

        Raises: Unsupported where anything else that is kept changes what the next call returns.
        """
        reference = next(self._references())
        code: Any = reference.operator.module()
        given = {**self._nominal(reference, 1), **reference.scalars, **code.CONSTANTS}
        positional, named = code.constructor(reference.case)

        def repeats(prepare: Callable[[torch.nn.Module], None]) -> bool:
            module = code.Model(*positional, **named).eval()
            prepare(module)
            calls = (module(*(given[name] for name in code.CALL)) for _ in range(2))
            one, other = (tuple(tree_leaves(result)) for result in calls)
            return _equal(one, other)

        with torch.no_grad():
            if repeats(lambda module: None):
                return
            if not repeats(start_over):
                raise Unsupported("keeps state: a second call with the same inputs differs")
        self.written.reference += STATE
        self.flags.append("each call starts from the state that the constructor makes")
        self._write()

    def _write(self) -> None:
        """Write the task's files, which must be valid. Raises Unsupported."""
        try:
            compile(self.written.reference, "reference.py", "exec")
            tomllib.loads(self.written.toml())
        except (SyntaxError, ValueError) as error:
            raise Unsupported(f"its task would not be valid: {error}") from error
        self.folder.mkdir(exist_ok=True)
        (self.folder / "task.toml").write_text(self.written.toml(), encoding="utf-8")
        (self.folder / "reference.py").write_text(self.written.reference, encoding="utf-8")

    def _operator(self, kind: str = CPU) -> Operator:
        try:
            return load_operator(self.folder, languages(), kind)
        except TaskError as error:
            raise Unsupported(str(error).replace(f"{self.folder}/", "")) from error

    def _size(self) -> None:
        """Choose the largest tensors of a case whose operations a CPU does in a moment."""
        for megabytes in (CASE_MB[0], *MORE_MB):
            try:
                operator = self._with_cases_of(megabytes)
                break
            except Unsupported as error:
                reason = f"cannot be made small enough for a CPU: {error}"
        else:
            raise Unsupported(reason)
        smaller = () if self.written.has_data or megabytes != CASE_MB[0] else CASE_MB[1:]
        for fewer in smaller:
            if _operations(operator) <= MAX_OPERATIONS:
                break
            try:
                operator = self._with_cases_of(fewer)
            except Unsupported:
                break
            megabytes = fewer
        self._with_cases_of(megabytes, GPU)

    def _with_cases_of(self, megabytes: int, kind: str = CPU) -> Operator:
        self.written.case_mb = megabytes
        self._write()
        return self._operator(kind)

    def _families(self) -> None:
        """Keep the input families for which the truth is finite."""
        if "nominal" in (left := self._infinite()) and self.written.uniform:
            self._draw_as_published("normal inputs have no finite result")
            left = self._infinite()
        left += [family for family in FAMILIES[1:] if not self._fits_in_float16(family)]
        if "nominal" in left:
            raise Unsupported(self._why_infinite)
        self._keep([name for name in FAMILIES if name not in left])
        self._refuse_random()
        self._degenerate()

    def _infinite(self) -> list[str]:
        return [family for family in FAMILIES if not self._is_finite(family)]

    def _is_finite(self, family: str) -> bool:
        """Return whether results are finite; a reference may also raise an error.

        It does where a matrix is singular, or a number is outside the domain of a function.
        """
        try:
            outputs = self._exact(family, 1)
        except Exception as error:  # a problem's code raises anything
            if family == FAMILIES[0]:
                self._why_infinite = f"{type(error).__name__}: {error}"
            return False
        return all(
            bool(((y.abs() < MAX_FLOAT32) | self._is_infinity(y)).all())
            for y in outputs
            if y.is_floating_point()
        )

    def _is_infinity(self, y: torch.Tensor) -> torch.Tensor:
        """Return which elements are negative infinities that the reference writes."""
        return (
            y.isneginf() if self.written.has_infinities else torch.zeros_like(y, dtype=torch.bool)
        )

    def _fits_in_float16(self, family: str) -> bool:
        """Return whether results of the published case are far from the end of float16."""
        *_, published = self._references()
        dtypes = [dtype_of(a, published.case) for a in published.operator.outputs]
        if "float16" not in dtypes:
            return True
        outputs = self._outputs(published, published.drawn(family, 1))
        return all(
            bool((y.abs() < torch.finfo(torch.float16).max / HEADROOM).all())
            for y, dtype in zip(outputs, dtypes, strict=True)
            if dtype == "float16"
        )

    def _exact(self, family: str, seed: int, **changed: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return the outputs in float64 for inputs of a family."""
        reference = next(self._references())
        inputs = {**reference.drawn(family, seed), **changed}
        return self._outputs(reference, inputs)

    @staticmethod
    def _outputs(reference: Reference, inputs: dict[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
        wide = {n: x.double() if x.is_floating_point() else x for n, x in inputs.items()}
        scalars = {a.name: reference.case[a.name] for a in reference.operator.scalars}
        result = reference.operator.module().exact(**wide, **scalars)
        return result if isinstance(result, tuple) else (result,)

    def _draw_as_published(self, why: str) -> None:
        """Draw the inputs that the suite draws from [0, 1) from there."""
        for argument in self.written.arguments:
            if argument["name"] in self.written.uniform:
                argument["range"] = [0.0, 1.0]
        self.written.uniform = ()
        self.flags.append(f"inputs from [0, 1) only: {why}")
        self._write()

    def _keep(self, families: list[str]) -> None:
        self.written.input_families = () if len(families) == len(FAMILIES) else tuple(families)
        self._write()

    def _refuse_random(self) -> None:
        """Raise Random where two calls differ, in the smallest case or the largest of small ones.

        A recurrent network may forget a random state in many steps, and not in few.
        """
        *small, _ = self._references()
        for reference in (small[0], small[-1]):
            inputs = self._nominal(reference, 1)
            one, other = (self._outputs(reference, inputs) for _ in range(2))
            if not all(map(same_bits, one, other)):
                raise Random("random: two calls with the same inputs differ")

    def _degenerate(self) -> None:
        """Name inputs that change no output; outputs may be CONSTANT, as a suite defines them."""
        idle: set[str] | None = None
        for reference in self._references():
            first, second = self._nominal(reference, 1), self._nominal(reference, 2)
            outputs = self._outputs(reference, first)
            if _equal(outputs, self._outputs(reference, second)):
                continue
            found = {
                name
                for name in (first if idle is None else idle)
                if not torch.equal(first[name], second[name])
                and self._gives(outputs, reference, {**first, name: second[name]})
            }
            if not (idle := found):
                return
        if idle is None:
            self.flags.append(CONSTANT)
            return
        self.flags += [f"{name} has no effect" for name in sorted(idle)]

    def _gives(
        self,
        outputs: tuple[torch.Tensor, ...],
        reference: Reference,
        inputs: dict[str, torch.Tensor],
    ) -> bool:
        """Return whether some inputs give these outputs; indices of another draw may give none."""
        try:
            return _equal(outputs, self._outputs(reference, inputs))
        except Exception:  # a problem's code raises anything
            return False

    def _references(self) -> Iterator[Reference]:
        """Yield small cases, the largest of them first, then the published one."""
        operator = self._operator()
        for case in reversed(small_cases(operator, operator.domain.dtypes[0])):
            yield Reference(operator, case)
        yield Reference(operator, next(c for c in operator.cases if c.split is Split.SEEN))

    @staticmethod
    def _nominal(reference: Reference, seed: int) -> dict[str, torch.Tensor]:
        return reference.drawn(FAMILIES[0], seed)

    def _fit(self) -> None:
        """Fit the tolerance, without the families in which it cannot be fitted.

        Inputs are drawn as the suite draws them where others leave no tolerance. A problem whose
        float32 rounds as much as inputs in bfloat16 do is fitted nevertheless: deep networks
        amplify roundings so, and their suites accept it.

        Raises: Unsupported.
        """
        families = list(self.written.input_families or FAMILIES)
        reason, is_coarse = self._fitted(families)
        if CONSTANT in self.flags:  # inputs in bfloat16 make no difference
            is_coarse = False
        elif self.written.uniform and (reason or is_coarse):
            self._draw_as_published("normal inputs have no tolerance")
            self._keep(families)
            self._fit()
            return
        if reason:
            raise Unsupported(f"no tolerance: {reason}")
        if is_coarse:
            self.flags.append("inputs in bfloat16 are right, too: float32 itself rounds as much")

    def _fitted(self, families: Sequence[str]) -> tuple[str, bool]:
        """Fit the tolerance and write it; return why there is none, and whether it is coarse.

        It is fitted again without the families at fault, unless the first one is.
        """
        try:
            fitted = fit(self.folder, least_bfloat16=0.0)
        except NoFit as error:
            if FAMILIES[0] not in error.families:
                self._keep(left := [name for name in families if name not in error.families])
                return self._fitted(left)
            return self._reason(error), False
        except TaskError as error:
            return self._reason(error), False
        write(self.folder, fitted)
        return "", fitted.bfloat16 is not None and fitted.bfloat16 < MIN_BFLOAT16

    def _reason(self, error: TaskError) -> str:
        return str(error).replace(f"{self.folder}/", "").partition(": ")[2]

    def fingerprint(self) -> str:
        """Return a hash of the traced operations, which equal computations share.

        For a reference that reads its inputs, it is the hash of its text.
        """
        if self.written.has_data:
            return hashlib.sha256(self.written.reference.encode()).hexdigest()[:16]
        operator = self._operator(GPU)
        case = operator.cases[0]
        given: dict[str, Any] = {a.name: case[a.name] for a in operator.scalars}
        for a in operator.inputs:
            shape, dtype = shape_of(a, case), torch_dtype(dtype_of(a, case))
            given[a.name] = torch.empty(shape, dtype=dtype, device="meta")
        with _Trace() as trace:
            operator.module().reference(**given)
        ranks = sorted(str(len(a.shape)) for a in operator.inputs)
        text = " ".join([*trace.calls, "|", *ranks])
        return hashlib.sha256(text.encode()).hexdigest()[:16]


class _Trace(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A mode that notes each operation with the ranks of its tensors."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: list[str] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if not func.is_view and func.overloadpacket.__name__ not in ("detach", "clone", "empty"):
            ranks = [str(x.dim()) for x in tree_leaves((args, kwargs)) if torch.is_tensor(x)]
            self.calls.append(f"{func.overloadpacket.__name__}({','.join(ranks)})")
        return func(*args, **(kwargs or {}))


def _equal(one: tuple[torch.Tensor, ...], other: tuple[torch.Tensor, ...]) -> bool:
    return all(torch.equal(x.nan_to_num(), y.nan_to_num()) for x, y in zip(one, other, strict=True))


def _operations(operator: Operator) -> float:
    """Return the operations of the first seen case."""
    seen = next(case for case in operator.cases if case.split is Split.SEEN)
    _, count = counted_cost(operator.module().reference, operator.arguments, seen)
    return count
