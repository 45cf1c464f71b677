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
from dataclasses import dataclass

import torch
import yaml

from evaluation.importers.files import Files
from evaluation.importers.reference_part import (
    CHECK,
    GENERATOR,
    REFERENCE,
    check_uses_reference,
    reference_part,
)
from evaluation.importers.sandboxed.forms.generator import Generator
from evaluation.importers.sandboxed.forms.kernelbench import identifier
from evaluation.importers.sandboxed.forms.problem_text import ProblemText
from evaluation.importers.sandboxed.forms.reference_data import SETTINGS, Data
from evaluation.importers.sandboxed.observation import Unsupported

_FORMATS = re.compile(r"torch\.(float8_\w*fnuz|float4_\w+)")
"""Formats that no input of a task can have."""
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
    names = {ast.unparse(n) for n in ast.walk(ast.parse(part)) if isinstance(n, ast.Attribute)}
    if narrow := sorted(filter(_FORMATS.fullmatch, names)):
        raise Unsupported(f"uses {narrow[0]}, which the judge cannot draw")
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
        if not isinstance(found[name], SETTINGS):
            raise Unsupported(f"{name} is a {type(found[name]).__name__} in task.yml")
    if unknown := [name for name in case if name not in found]:
        raise Unsupported(f"task.yml gives {unknown[0]}, which {GENERATOR}() does not take")
    return found


@dataclass(frozen=True)
class _Problem:
    """One case of a problem, and the data that its generator makes."""

    constants: Case
    generator: Generator
    data: Data
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
    data = Data(generator, {**module.__dict__, **constants})
    called = f"{REFERENCE}({data.expression})"
    try:
        with torch.device("meta"):
            result = module.__dict__[REFERENCE](data.value)
    except NotImplementedError as error:
        reason = str(error).partition(", but")[0][:200]
        raise Unsupported(f"does not run on tensors without data: {reason}") from None
    items = data.value if generator.is_tuple else (data.value,)
    wide = [torch.is_tensor(x) and x.dtype == torch.float64 for x in (result, *items)]
    if wide[0] and not any(wide[1:]):
        called += ".float()"  # wider than any input, to be exact; the judge's truth is, too
    return _Problem(constants, generator, data, called)
