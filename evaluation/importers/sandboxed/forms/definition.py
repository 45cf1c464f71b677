"""UNTRUSTED: definitions of FlashInfer-Bench and SOL-ExecBench: axes, tensors and a reference.

The largest workload whose reference takes a moment becomes a problem of KernelBench's form. All
axes are constants of the file; those that the reference asserts do not vary. Offsets and indices
are drawn by rule, because the values of a data set are not there. Inputs that a workload calls
custom come from the definition's own function.
"""

from __future__ import annotations

import ast
import json
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from evaluation.importers.files import Files
from evaluation.importers.sandboxed.forms.kernelbench import KernelBench, identifier
from evaluation.importers.sandboxed.forms.own_inputs import OwnInputs
from evaluation.importers.sandboxed.forms.problem_text import ProblemText
from evaluation.importers.sandboxed.observation import Unsupported

DEVICES = ("meta", "cpu")
"""Devices on which a problem is observed, in order: a reference may read its inputs."""
RUN, ENTRY = "run", "custom_inputs_entrypoint"
SIZE = 128
"""Size of an axis that no workload gives."""
SCALAR = 0.125
"""Value of a number that no workload gives, such as the scale of a softmax."""
MAX_SECONDS = 0.05
_NAME = re.compile(r"[A-Za-z_]\w*")
_SUM = re.compile(r"(\w+) == (\w+) \+ (\d+)")
_TOTAL = re.compile(r"(\w+) == (\w+)\[-1\](?:\.item\(\))?")


def sources(files: Files, name: str) -> Iterator[str]:
    """Yield the problem of the largest workload that takes a moment. Raises Unsupported."""
    definition = _Definition(json.loads(files.source))
    lines = filter(None, map(str.strip, files.cases.splitlines()))
    workloads = [_workload(json.loads(line)) for line in lines] or [{"axes": {}, "inputs": {}}]
    known = {json.dumps(w["axes"], sort_keys=True): w for w in workloads}
    chosen = ""
    cases: dict[str, Any] = {}
    for workload in sorted(known.values(), key=lambda w: sum(w["axes"].values())):
        text = definition.text(workload, {})
        if chosen and _seconds(text) > MAX_SECONDS:
            break
        chosen, cases[f"workload-{len(cases) + 1}"] = text, workload
    *others, (_, largest) = cases.items()
    yield definition.text(largest, {n: definition.axes(w) for n, w in others})


def _workload(line: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the axes and inputs of a line, which may have them in a field of their own."""
    found = line.get("workload", line)
    return {"axes": found.get("axes") or {}, "inputs": found.get("inputs") or {}}


def case_name(files: Files) -> str:
    """Return the name of the case whose sizes the problem was observed with."""
    return "published" if files.cases.strip() else "chosen"


def flags(files: Files) -> list[str]:
    """Return what a reader of the task must know of its cases."""
    if case_name(files) == "published":
        return []
    return ["no workload was found: the sizes of the case `chosen` are the importer's"]


def _seconds(text: str) -> float:
    """Return the time of a call; that of one without data is nothing."""
    try:
        KernelBench(text)
        return 0.0
    except Exception:  # a reference that reads its inputs
        started = time.process_time()
        KernelBench(text, "cpu")
        return time.process_time() - started


class _Definition:
    """A definition of a kernel. Raises Unsupported."""

    def __init__(self, found: Mapping[str, Any]) -> None:
        self._found = found
        self._reference = str(found["reference"])
        functions = {
            n.name: n for n in ast.parse(self._reference).body if isinstance(n, ast.FunctionDef)
        }
        if RUN not in functions:
            raise Unsupported(f"its reference has no function {RUN}()")
        taken = [a.arg for a in functions[RUN].args.args]
        if unknown := [name for name in taken if name not in found["inputs"]]:
            raise Unsupported(f"{RUN}() takes {unknown[0]}, which is no input")
        self._inputs = {name: found["inputs"][name] for name in taken}
        entry = functions.get(str(found.get(ENTRY) or ""))
        self._own = OwnInputs(entry, found["axes"]) if entry else None
        constraints = [str(text).strip() for text in found.get("constraints") or ()]
        sums = [m.groups() for t in constraints if (m := _SUM.fullmatch(t))]
        self._totals = {m[2]: m[1] for t in constraints if (m := _TOTAL.fullmatch(t))}
        self._follow = {total: f"{part} + {more}" for total, part, more in sums}
        self._follow |= {
            name: _expression(name, axis, found["axes"])
            for name, axis in found["axes"].items()
            if axis.get("type") == "expr"
        }

    def axes(self, workload: Mapping[str, Any]) -> dict[str, object]:
        """Return the sizes of all axes for a workload, without those that follow from others."""
        return {
            name: axis.get("value") or workload["axes"].get(name, SIZE)
            for name, axis in self._found["axes"].items()
            if name not in self._follow
        }

    def text(self, workload: Mapping[str, Any], cases: Mapping[str, Mapping[str, object]]) -> str:
        """Return the file of the problem for a workload, with the axes of other ones."""
        axes = self.axes(workload)
        names: dict[str, str] = {}
        for name in self._inputs:
            names[name] = identifier(name, {*axes, *names.values(), "self", RUN})
        given = [self._drawn(name, workload["inputs"].get(name, {}), axes) for name in self._inputs]
        outputs = list(self._found["outputs"])
        problem = ProblemText(
            part=self._reference,
            origin="a workload of the definition",
            doc=str(self._found.get("description") or ""),
            settings=[],
            names=list(names.values()),
            body=[
                f"result = {RUN}({', '.join(names.values())})",
                "if isinstance(result, dict):",
                f"    return tuple(result[name] for name in {outputs!r})",
                "return result",
            ],
            constants=axes,
            cases=cases,
            inputs=[
                *(f"{name} = {text}" for name, text in self._ordered()),
                *(self._own.lines(given) if self._own else [f"return [{', '.join(given)}]"]),
            ],
            init_inputs=["return []"],
        )
        return str(problem)

    def _ordered(self) -> list[tuple[str, str]]:
        """Return the axes that follow from others, each after those that it uses."""
        found: list[tuple[str, str]] = []
        left = dict(self._follow)
        while left:
            ready = [n for n, text in left.items() if not left.keys() & set(_NAME.findall(text))]
            if not ready:
                raise Unsupported(f"the axis {next(iter(left))} follows from itself")
            found += [(name, left.pop(name)) for name in ready]
        return found

    def _drawn(self, name: str, source: Mapping[str, Any], axes: Mapping[str, object]) -> str:
        """Return the expression of an input. Raises Unsupported."""
        if (kind := source.get("type")) == "custom":
            if not self._own:
                raise Unsupported(f"no function of the definition makes {name}")
            return self._own.expression(name)
        tensor = self._inputs[name]
        dtype = getattr(torch, tensor["dtype"], None)
        if not isinstance(dtype, torch.dtype):
            raise Unsupported(f"{name} has the format {tensor['dtype']}")
        if not tensor["shape"]:
            value = source.get("value", SCALAR if dtype.is_floating_point else None)
            if value is None:
                raise Unsupported(f"no workload gives {name}")
            return repr(value)
        shape = f"({', '.join(map(str, tensor['shape']))},)"
        if dtype.is_floating_point:
            return f"torch.randn({shape}, dtype={dtype})"
        if kind == "random" and dtype is torch.bool:
            return f"torch.rand({shape}) < 0.5"
        if name.endswith("indptr"):
            return self._offsets(name, tensor["shape"][0], dtype)
        bounds = [axis for axis in axes if axis == "num_pages"]
        if name.endswith("indices") and bounds:
            return f"torch.randint(0, {bounds[0]}, {shape}, dtype={dtype})"
        if "last_page_len" in name and "page_size" in axes:
            return f"torch.randint(1, page_size + 1, {shape}, dtype={dtype})"
        raise Unsupported(f"no rule says how {name} of {tensor['dtype']} is drawn")

    def _offsets(self, name: str, length: str, dtype: torch.dtype) -> str:
        """Return increasing offsets from 0 to the axis that a constraint names."""
        if name not in self._totals:
            raise Unsupported(f"no constraint gives the last value of {name}")
        total = self._totals[name]
        inner = f"torch.randint(0, {total} + 1, ({length} - 2,)).sort().values"
        return f"torch.cat([torch.zeros(1), {inner}, torch.full((1,), {total})]).to({dtype})"


_OPERATIONS = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod)


def _expression(name: str, axis: Mapping[str, Any], axes: Mapping[str, Any]) -> str:
    """Return the expression of an axis that follows from others. Raises Unsupported."""
    text = str(axis.get("expression", axis.get("expr", axis.get("value", ""))))
    try:
        tree = ast.parse(text, mode="eval")
    except SyntaxError:
        raise Unsupported(f"the axis {name} is no expression: {text[:80]}") from None
    for node in ast.walk(tree.body):
        plain = isinstance(node, ast.Constant) and type(node.value) is int
        known = isinstance(node, ast.Name) and node.id in axes
        binary = isinstance(node, ast.BinOp | ast.operator | ast.expr_context)
        if not (plain or known or binary) or (
            isinstance(node, ast.BinOp) and not isinstance(node.op, _OPERATIONS)
        ):
            raise Unsupported(f"the axis {name} is more than sums and products: {text[:80]}")
    return ast.unparse(tree)
