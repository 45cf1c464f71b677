"""UNTRUSTED: problems of AgentKernelArena: task runners, and modules of PyTorch.

A runner's largest configuration that takes a moment becomes a problem of KernelBench's form. Sizes
are constants of the file. What the test computes to compare with is the reference.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import signal
import sys
import time
import types
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import torch

from evaluation.importers.files import Files
from evaluation.importers.placeless import loaded
from evaluation.importers.runner_part import is_runner, runner_part
from evaluation.importers.sandboxed.forms import named_module
from evaluation.importers.sandboxed.forms.generator import Generator
from evaluation.importers.sandboxed.forms.kernelbench import identifier
from evaluation.importers.sandboxed.forms.problem_text import ProblemText
from evaluation.importers.sandboxed.forms.reference_data import Data, TooManyCalls
from evaluation.importers.sandboxed.forms.runner_test import Parts, RunnerTest
from evaluation.importers.sandboxed.observation import Unsupported

DEVICES = ("meta", "cpu")
"""Devices on which a problem is observed, in order: a reference may read its inputs."""
MAX_SECONDS = 0.05
"""Time of a call on data: a problem is called some hundred times."""
MAX_SECONDS_TRIED = 2.0
MIN_HALVED, MAX_HALVINGS = 8, 6


def sources(files: Files, name: str) -> Iterator[str]:
    """Yield the problem of a runner, or that of a module. Raises Unsupported."""
    if not is_runner(files.source):
        yield from named_module.sources(files, name)
        return
    if "float8" in files.source:
        raise Unsupported("its kernel rounds to float8, and its test accepts what is near")
    part, test = runner_part(files.source), RunnerTest(files.source)
    every = [test.parts(each) for each in test.configurations()]
    errors: list[Exception] = []
    for device in DEVICES:
        try:
            problems = list(_problems(part, every, device))
        except Exception as error:  # a problem's code raises anything
            errors.append(error)
            continue
        problem = problems[-1]
        others = {
            f"configuration-{n}": p.sizes
            for n, p in enumerate(problems[:-1], 1)
            if p.modes == problem.modes
        }
        yield problem.text(_documentation(test), others)
        return
    raise errors[-1]


def _problems(part: str, every: list[Parts], device: str) -> Iterator[_Problem]:
    """Yield configurations of growing size, up to one whose reference takes too long.

    Where the first one does already, its numbers are halved until it does not.
    """
    found = []
    for parts in every:
        try:
            problem = timed(partial(_Problem, part, parts, device))
        except (TimeoutError, TooManyCalls):
            break
        if problem.seconds > MAX_SECONDS:
            break
        found.append(problem)
    if found:
        yield from sorted(found, key=lambda each: each.elements)
        return
    yield _smaller(part, every[0], device)


def _smaller(part: str, parts: Parts, device: str) -> _Problem:
    """Return a configuration with smaller numbers, whose reference takes a moment."""
    best: _Problem | None = None
    for _ in range(MAX_HALVINGS):
        numbers = [n for n, v in parts.constants.items() if type(v) is int and v >= MIN_HALVED]
        tried: list[tuple[float, Parts, _Problem]] = []
        for name in numbers:
            halved = copy.copy(parts)
            value = parts.constants[name]
            assert isinstance(value, int)
            halved.constants = {**parts.constants, name: value // 2}
            with contextlib.suppress(Exception):
                problem = timed(partial(_Problem, part, halved, device))
                tried.append((problem.seconds, halved, problem))
        if not tried:
            break
        _, parts, best = min(tried, key=lambda each: each[0])
        if best.seconds <= MAX_SECONDS:
            return best
    raise Unsupported("its reference takes too long, even on small tensors")


def timed(call: Callable[[], _Problem]) -> _Problem:
    """Return the result of a call. Raises TimeoutError after some seconds."""

    def stop(*given: object) -> None:
        raise TimeoutError(f"takes longer than {MAX_SECONDS_TRIED:g} s")

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, MAX_SECONDS_TRIED)
    try:
        return call()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _documentation(test: RunnerTest) -> str:
    """Return the longest docstring of a function named as a reference."""
    named = (f for n, f in test.functions.items() if "ref" in n)
    return max((ast.get_docstring(f) or "" for f in named), key=len, default="")


class _Problem:
    """One configuration, and a call of its reference. Raises Unsupported."""

    def __init__(self, part: str, parts: Parts, device: str) -> None:
        self.part, self.device = part, device
        module = sys.modules["problem"] = types.ModuleType("problem")
        exec(compile(part, "problem.py", "exec"), module.__dict__)
        names = dict(parts.renamed)
        for name in parts.constants:
            names[name] = identifier(name, {*module.__dict__, *names.values()})
        self.constants = {names[n]: v for n, v in parts.constants.items()}
        has_data = device != "meta"
        body = _function("reference", parts.reference, parts.expected)
        reference = Generator(body, names, has_data)
        self._body = reference.lines(map(ast.unparse, reference.returned))
        bound = {n for node in parts.inputs for n in loaded(node, stored=True)}
        free = _free(self._body, {names.get(n, n) for n in bound} | set(self.constants))
        if not free:
            raise Unsupported("what its test compares with depends on no input")
        back = {new: old for old, new in names.items()}
        given = _function("generate", parts.inputs, [back.get(n, n) for n in free])
        self._generator = Generator(given, names, has_data)
        namespace = {**module.__dict__, **self.constants}
        self._free = free
        self._data = Data(self._generator, namespace, device)
        for lines in self._generator.lines(self._data.settings.values()):
            if any(f"torch.rand{end}" in lines for end in ("(", "n(", "int(", "perm(")):
                raise Unsupported("a size is drawn")
        if not all(x.numel() for x in self._data.tensors.values()):
            raise Unsupported("an input is empty")
        self._changed = self._run(namespace)  # which also imports what it needs
        self._data = Data(self._generator, namespace, device)
        started = time.process_time()
        self._run(namespace)
        self.seconds = time.process_time() - started

    def _run(self, namespace: Mapping[str, object]) -> list[str]:
        """Call the reference, and return the inputs that it changes."""
        data, own = self._data, dict(namespace)
        given = [*data.tensors, *data.settings]
        lines = [*(x.replace("self.", "") for x in data.buffers), *self._assigned("")]
        text = "\n".join(f"    {line}" for line in [*lines, *self._body])
        exec(compile(f"def call({', '.join(given)}):\n{text}", "problem.py", "exec"), own)
        before = {n: x._version for n, x in data.tensors.items()}
        with torch.device(self.device), torch.no_grad():
            own["call"](**data.tensors, **data.values)  # type: ignore[operator]
        return [n for n, x in data.tensors.items() if x._version != before[n]]

    def _assigned(self, owner: str) -> list[str]:
        """Return the statements that give the reference's variables their values."""
        items = [item.replace("self.", owner) for item in self._data.items]
        return [f"{n} = {x}" for n, x in zip(self._free, items, strict=True) if n != x]

    @property
    def elements(self) -> int:
        return sum(x.numel() for x in self._data.tensors.values())

    @property
    def sizes(self) -> Mapping[str, object]:
        return {n: v for n, v in self.constants.items() if type(v) is int}

    @property
    def modes(self) -> Mapping[str, object]:
        return {n: v for n, v in self.constants.items() if type(v) is not int}

    def text(self, doc: str, cases: Mapping[str, Mapping[str, object]]) -> str:
        """Return the file of the problem, with other configurations."""
        data = self._data
        last = self._body[-1].removeprefix("return [").removesuffix("]")
        called = [*self._body[:-1], f"return {last}" if "," not in last else f"return ({last})"]
        copies = [f"{n} = {n}.clone()" for n in self._changed]
        lines = [*copies, *data.buffers, *self._assigned("self."), *called]
        first = next(iter(data.inputs))
        within = f"with torch.device({first}.device), torch.no_grad():"
        problem = ProblemText(
            part=self.part,
            origin="a configuration of the test",
            doc=doc,
            settings=list(data.settings),
            names=list(data.inputs),
            body=[within, *(f"    {line}" for line in lines)],
            constants=self.constants,
            cases=cases,
            inputs=self._generator.lines(data.inputs.values()),
            init_inputs=self._generator.lines(data.settings.values()),
        )
        return str(problem)


def _function(name: str, body: list[ast.stmt], returned: list[str]) -> ast.FunctionDef:
    """Return a function that returns some variables."""
    text = f"def {name}():\n    return ({', '.join(returned)},)"
    node = ast.parse(text).body[0]
    assert isinstance(node, ast.FunctionDef)
    node.body[:0] = body
    return ast.fix_missing_locations(node)


def _free(lines: list[str], bound: set[str]) -> list[str]:
    """Return those of the bound variables that lines load before they store them."""
    stored: set[str] = set()
    found: dict[str, None] = {}
    for node in ast.parse("\n".join(lines[:-1])).body + ast.parse(lines[-1][7:]).body:
        nodes = list(ast.walk(node))
        own = {n for c in nodes if isinstance(c, ast.comprehension | ast.For)
               for n in loaded(c.target, stored=True)}  # fmt: skip
        found |= dict.fromkeys(n for n in loaded(node) if n in bound - stored - own)
        if isinstance(node, ast.AugAssign):
            found |= dict.fromkeys(n for n in loaded(node, stored=True) if n in bound - stored)
        stored |= set(loaded(node, stored=True))
    return list(found)
