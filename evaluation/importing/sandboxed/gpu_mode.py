"""UNTRUSTED: problems of gpu-mode's form: a reference, an input generator, and cases of it.

The largest benchmark in which all inputs are drawn becomes a problem of KernelBench's form. Its
arguments are constants of the file. Outputs that stand in the data of the reference are made anew
for each call.
"""

from __future__ import annotations

import ast
import math
import re
import sys
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import yaml
from torch.overrides import TorchFunctionMode

from evaluation.importing.files import Files
from evaluation.importing.reference_part import (
    CHECK,
    GENERATOR,
    REFERENCE,
    check_uses_reference,
    reference_part,
)
from evaluation.importing.sandboxed.generator import Generator
from evaluation.importing.sandboxed.kernelbench import identifier
from evaluation.importing.sandboxed.observation import Unsupported
from evaluation.importing.sandboxed.problem_text import ProblemText

_FORMATS = re.compile(r"\btorch\.(float8_\w*fnuz|float4_\w+)")
"""Formats that no input of a task can have."""
MAX_CALLS = 5000
"""Calls of PyTorch in a generator: it runs for every size that is tried."""
_SETTINGS = (int, float, bool, str, type(None))
BLANK, FILLED = ("empty", "zeros"), ("ones", "full")
"""Functions that make a buffer, and that make an input which is not drawn."""
SEED = "seed"
Case = Mapping[str, object]


def sources(files: Files, name: str) -> Iterator[str]:
    """Yield the problem of one benchmark. Raises Unsupported."""
    part = reference_part(files.source)
    functions = {n.name: n for n in ast.parse(part).body if isinstance(n, ast.FunctionDef)}
    for wanted in (REFERENCE, GENERATOR):
        if wanted not in functions:
            raise Unsupported(f"has no function {wanted}()")
    if not check_uses_reference(files.source):
        raise Unsupported(f"{CHECK}() tests properties of the result, not its values")
    if found := _FORMATS.search(part):
        raise Unsupported(f"uses {found[0]}, which the judge cannot draw")
    description, cases = read_cases(files.cases)
    doc = description or ast.get_docstring(functions[REFERENCE]) or ""
    problems: dict[str, _Problem] = {}
    errors: list[Exception] = []
    for number, case in enumerate(cases, 1):
        try:
            given = arguments_of(functions[GENERATOR], case)
            problems[f"benchmark-{number}"] = _problem(part, functions[GENERATOR], given)
        except Exception as error:  # a problem's code raises anything
            errors.append(error)
    if not problems:
        raise errors[0]
    name, problem = min(problems.items(), key=lambda each: each[1].rank)
    others = {n: p.sizes for n, p in problems.items() if n != name and p.modes == problem.modes}
    yield problem.text(part, doc, others)


def read_cases(text: str) -> tuple[str, list[Case]]:
    """Return the description and the benchmarks of `task.yml`. Raises Unsupported."""
    try:
        found = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f": line {mark.line + 1}" if mark else ""
        raise Unsupported(f"task.yml is not valid YAML{where}") from None
    cases = found.get("benchmarks") if isinstance(found, dict) else None
    if not isinstance(cases, list) or not cases or not all(isinstance(c, dict) for c in cases):
        raise Unsupported("task.yml has no list of benchmarks")
    description = found.get("description")
    return description.strip() if isinstance(description, str) else "", cases


def arguments_of(function: ast.FunctionDef, case: Case) -> dict[str, object]:
    """Return the arguments of the generator in a case. Raises Unsupported."""
    given = function.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    positional = [*given.posonlyargs, *given.args]
    values = dict(zip([a.arg for a in positional[::-1]], given.defaults[::-1], strict=False))
    values |= {a.arg: v for a, v in zip(given.kwonlyargs, given.kw_defaults, strict=True) if v}
    found: dict[str, object] = {}
    for name in (a.arg for a in every):
        if name in case:
            found[name] = case[name]
        elif name in values:
            found[name] = ast.literal_eval(values[name])
        else:
            raise Unsupported(f"task.yml does not give {name}, which {GENERATOR}() takes")
        if not isinstance(found[name], _SETTINGS):
            raise Unsupported(f"{name} is a {type(found[name]).__name__} in task.yml")
    if unknown := [name for name in case if name not in found]:
        raise Unsupported(f"task.yml gives {unknown[0]}, which {GENERATOR}() does not take")
    return found


@dataclass
class _Making(TorchFunctionMode):
    """A mode that notes tensors whose elements are all equal, by the function that made them.

    Raises: Unsupported where there are too many calls.
    """

    made: list[tuple[torch.Tensor, str]] = field(default_factory=list)
    calls: int = 0

    def __post_init__(self) -> None:
        super().__init__()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls += 1
        if self.calls > MAX_CALLS:
            raise Unsupported(f"{GENERATOR}() makes more than {MAX_CALLS} calls of PyTorch")
        result = func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", "").removesuffix("_like")
        if name in (*BLANK, *FILLED) and torch.is_tensor(result):
            self.made.append((result, name))
        return result

    def maker_of(self, tensor: torch.Tensor) -> str:
        """Return the function that made a tensor; empty for one that was written to, or drawn."""
        if tensor._version:
            return ""
        return next((name for other, name in self.made if other is tensor), "")


@dataclass
class _Data:
    """The data of the reference, taken apart: inputs, output buffers and settings."""

    values: list[Any]
    inputs: dict[str, str] = field(default_factory=dict)
    """Expressions of the generator, by name."""
    fixed: list[str] = field(default_factory=list)
    """Inputs that are the same in every call."""
    settings: dict[str, str] = field(default_factory=dict)
    """Expressions of what is no tensor, and of shapes of buffers."""
    buffers: list[str] = field(default_factory=list)
    """Statements that make a buffer."""
    items: list[str] = field(default_factory=list)
    """Expressions of the data."""


@dataclass(frozen=True)
class _Problem:
    """One case of a problem, and the data that its generator makes."""

    constants: Case
    generator: Generator
    data: _Data
    called: str
    """The call of the reference, with what its result needs."""

    @property
    def sizes(self) -> Case:
        """Return the arguments that can be sizes, which a seed is not."""
        return {n: v for n, v in self.constants.items() if type(v) is int and SEED not in n}

    @property
    def modes(self) -> Case:
        """Return the other arguments, without seeds."""
        return {n: v for n, v in self.constants.items() if type(v) is not int}

    @property
    def rank(self) -> tuple[int, int]:
        """Return the order of cases: first those whose inputs are all drawn, then the largest."""
        sizes = [v for v in self.sizes.values() if isinstance(v, int)]
        return len(self.data.fixed), -math.prod(max(size, 1) for size in sizes)

    def text(self, part: str, doc: str, cases: Mapping[str, Case]) -> str:
        """Return the file of the problem, with other cases of it."""
        problem = ProblemText(
            part=part,
            origin=f"{GENERATOR}() and a benchmark of task.yml",
            doc=doc,
            settings=list(self.data.settings),
            names=list(self.data.inputs),
            body=[*self.data.buffers, "with torch.no_grad():", f"    return {self.called}"],
            constants=self.constants,
            cases=cases,
            inputs=self.generator.lines(self.data.inputs.values()),
            init_inputs=self.generator.lines(self.data.settings.values()),
        )
        return str(problem)


def _problem(part: str, function: ast.FunctionDef, given: Mapping[str, object]) -> _Problem:
    """Return the problem of a case, after a run on tensors without data. Raises Unsupported."""
    module = sys.modules["problem"] = types.ModuleType("problem")
    exec(compile(part, "problem.py", "exec"), module.__dict__)
    names: dict[str, str] = {}
    for name in given:
        names[name] = identifier(name, {*module.__dict__, *names.values()})
    constants = {names[name]: value for name, value in given.items()}
    generator = Generator(function, names)
    data = _data(generator, module, constants)
    items = f"({''.join(f'{item}, ' for item in data.items)})"
    called = f"{REFERENCE}({items if generator.is_tuple else data.items[0]})"
    values = tuple(data.values) if generator.is_tuple else data.values[0]
    try:
        with torch.device("meta"):
            result = module.__dict__[REFERENCE](values)
    except NotImplementedError as error:
        reason = str(error).partition(", but")[0][:200]
        raise Unsupported(f"does not run on tensors without data: {reason}") from None
    wide = [torch.is_tensor(x) and x.dtype == torch.float64 for x in (result, *data.values)]
    if wide[0] and not any(wide[1:]):
        called += ".float()"  # the reference is wider than what it is given, and so is the truth
    return _Problem(constants, generator, data, called)


def _data(generator: Generator, module: types.ModuleType, constants: Case) -> _Data:
    """Return the data that the generator makes, from a run on tensors without data."""
    lines = generator.lines(map(ast.unparse, generator.returned))
    text = "def returned():\n" + "".join(f"    {line}\n" for line in lines)
    namespace = {**module.__dict__, **constants}
    exec(compile(text, "problem.py", "exec"), namespace)
    with torch.device("meta"), _Making() as making:
        found = _Data(namespace["returned"]())
    waiting: list[tuple[str, str, torch.Tensor]] = []
    for number, (node, value) in enumerate(zip(generator.returned, found.values, strict=True)):
        expression, stem = ast.unparse(node), _stem(node)
        taken = {*namespace, *found.inputs, *found.settings, "self"} - {stem}
        other = f"input_{number}" if generator.is_tuple else "data"
        name = identifier(stem or other, {*taken, *constants})
        if torch.is_tensor(value):
            maker = making.maker_of(value)
            if maker in BLANK:
                waiting.append((name, expression, value))
            else:
                found.inputs[name] = expression
                found.fixed += [name] if maker else []
            found.items.append(name)
        elif isinstance(value, dict) and value and all(map(torch.is_tensor, value.values())):
            pairs = []
            for key in value:
                each = identifier(str(key), {*taken, *constants, *found.inputs, name})
                found.inputs[each] = f"{expression}[{key!r}]"
                pairs.append(f"{key!r}: {each}")
            found.items.append(f"{{{', '.join(pairs)}}}")
        elif _is_setting(value):
            found.settings[name] = expression
            found.items.append(f"self.{name}")
        else:
            raise Unsupported(f"its data has a {type(value).__name__}, which is no tensor")
    if not found.inputs:
        raise Unsupported("no part of its data is drawn")
    first = next(iter(found.inputs))
    for name, expression, value in waiting:
        found.settings[f"{name}_shape"] = f"tuple({expression}.shape)"
        options = f"dtype={value.dtype}, device={first}.device"
        maker = making.maker_of(value)
        found.buffers.append(f"{name} = torch.{maker}(self.{name}_shape, {options})")
    return found


def _stem(node: ast.expr) -> str:
    """Return the name of a variable, also in `x.contiguous()`; empty for others."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        node = node.func.value
    return node.id if isinstance(node, ast.Name) and node.id != "torch" else ""


def _is_setting(value: object) -> bool:
    if isinstance(value, dict):
        return all(map(_is_setting, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_is_setting, value))
    return isinstance(value, _SETTINGS)
