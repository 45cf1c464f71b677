"""Templates of Triton sources: a few lines for each imported problem make an implementation.

The lines are Triton. An input is a value in float32 where its name is used, loaded from its `at`,
an index; integers and bools stay as they are. A line that assigns to an output stores it at the
output's `at`. `sizes` are computed by the host of the shapes. All accesses are masked, and indices
have 64 bits.

- `Flat`: one element for each `place` of `count`
- `Rows`: `SUM`, `MAX`, `MIN` and `FIRST` of elements (`row`, `col`) over all `col`, and results
- `Total`: `SUM` over all places by 256 programs, then results without dimensions
- `Scan`: inclusive sums or products along rows
- `Product`: a matrix product `total` of tiles, and what follows for each element `i`, `j`
"""

from __future__ import annotations

import re
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from evaluation.tasks.operator import Operator

HEAD = "import torch\nimport triton\nimport triton.language as tl\n"
HELPERS = {
    "sigmoid": """\
@triton.jit
def sigmoid(x):
    return 1 / (1 + tl.exp(-x))
""",
    "expm1": """\
@triton.jit
def expm1(x):
    near = x * (1 / 3628800) + 1 / 362880
    near = near * x + 1 / 40320
    near = near * x + 1 / 5040
    near = near * x + 1 / 720
    near = near * x + 1 / 120
    near = near * x + 1 / 24
    near = near * x + 1 / 6
    near = near * x + 0.5
    return tl.where(tl.abs(x) < 1, (near * x) * x + x, tl.exp(x) - 1)
""",
    "log1p": """\
@triton.jit
def log1p(x):
    more = 1 + x
    return tl.where(more == 1, x, tl.log(more) * (x / tl.where(more == 1, 1.0, more - 1)))
""",
    "tanh": """\
@triton.jit
def tanh(x):
    size = tl.abs(x)
    near = expm1(2 * tl.minimum(size, 0.5))
    found = tl.where(size < 0.5, near / (near + 2), 1 - 2 / (tl.exp(2 * size) + 1))
    return tl.where(x < 0, -found, found)
""",
    "smooth": """\
@triton.jit
def smooth(x):
    size = tl.abs(x)
    return tl.where(size < 1, 0.5 * size * size, size - 0.5)
""",
    "softplus": """\
@triton.jit
def softplus(x):
    return tl.maximum(x, 0.0) + log1p(tl.exp(-tl.abs(x)))
""",
}
USES = {"tanh": ("expm1",), "softplus": ("log1p",)}
INIT = {"SUM": "0.0", "MAX": 'float("-inf")', "MIN": 'float("inf")', "FIRST": "2147483647"}
COMBINED = {
    "SUM": "{all} + {one}",
    "MAX": "tl.maximum({all}, {one})",
    "MIN": "tl.minimum({all}, {one})",
    "FIRST": "tl.minimum({all}, {one})",
}
REDUCED = {"SUM": "tl.sum", "MAX": "tl.max", "MIN": "tl.min", "FIRST": "tl.min"}
_REDUCTION = re.compile(r"(\w+) = (SUM|MAX|MIN|FIRST)\((.*)\)")
_NAME = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True)
class Template(ABC):
    """Lines of an operator, with the index of each tensor and the sizes that the host computes."""

    lines: str
    at: Mapping[str, str] = field(default_factory=dict)
    sizes: Mapping[str, str] = field(default_factory=dict)

    @abstractmethod
    def source(self, operator: Operator) -> str:
        """Return the Triton source of an operator."""


@dataclass(frozen=True)
class _Arguments:
    """Arguments of an operator as code."""

    operator: Operator
    at: Mapping[str, str]
    default: str

    @property
    def entry(self) -> str:
        return ", ".join([*self.tensors, *self.scalars])

    @property
    def tensors(self) -> list[str]:
        return [a.name for a in self.operator.arguments if a.role != "scalar"]

    @property
    def scalars(self) -> list[str]:
        return [a.name for a in self.operator.scalars]

    @property
    def outputs(self) -> list[str]:
        return [a.name for a in self.operator.outputs]

    @property
    def whole(self) -> list[str]:
        return [a.name for a in self.operator.scalars if a.dtype == "int64"]

    def index(self, name: str) -> str:
        return self.at.get(name, self.default)

    def load(self, name: str, inside: str) -> str:
        argument = next(a for a in self.operator.arguments if a.name == name)
        wide = "" if argument.dtype in ("int64", "int32", "int8", "uint8", "bool") else WIDE
        masked = f", {inside}, 0" if inside else ""
        return f"{name} = tl.load({name}_ptr + ({self.index(name)}){masked}){wide}"

    def store(self, name: str, value: str, inside: str) -> str:
        masked = f", {inside}" if inside else ""
        return f"tl.store({name}_ptr + ({self.index(name)}), {value}{masked})"

    def used(self, text: str) -> list[str]:
        """Return the inputs whose values a text uses, and those that their indices use."""
        inputs = [a.name for a in self.operator.inputs]
        found: list[str] = []
        for name in inputs:
            if name in names(text):
                found += [n for n in self.used(self.at.get(name, "")) if n not in found]
                found += [name] if name not in found else []
        return found


WIDE = ".to(tl.float32)"


def names(text: str) -> set[str]:
    return set(_NAME.findall(text))


def _kernel(name: str, arguments: str, free: Iterable[str], constants: str, body: str) -> str:
    listed = ", ".join(f'"{each}"' for each in free)
    head = f"@triton.jit(do_not_specialize=[{listed}])\ndef {name}({arguments}, {constants}):\n"
    return head + textwrap.indent(body.strip("\n"), "    ") + "\n"


def _file(*parts: str) -> str:
    """Return a file of these functions, with the helpers that they use before them."""
    text = "\n\n".join(parts)
    used = [name for name in HELPERS if re.search(rf"(?<![.\w]){name}\(", text)]
    used += [inner for name in used for inner in USES.get(name, ()) if inner not in used]
    return "\n\n".join([HEAD, *(HELPERS[n] for n in HELPERS if n in used), *parts])


def _dedented(text: str) -> list[str]:
    return textwrap.dedent(text).strip("\n").splitlines()


def _with_loads(lines: Iterable[str], arguments: _Arguments, inside: str) -> Iterator[str]:
    """Yield lines, each input's load before the statement that uses it first."""
    statements: list[list[str]] = []
    for line in lines:
        if line.startswith(" "):
            statements[-1].append(line)
        else:
            statements.append([line])
    loaded: set[str] = set()
    for statement in statements:
        for name in arguments.used("\n".join(statement)):
            if name not in loaded:
                yield arguments.load(name, inside)
                loaded.add(name)
        yield from statement


@dataclass(frozen=True)
class Flat(Template):
    """One result for each of `count` places, the elements of the first output."""

    def source(self, operator: Operator) -> str:
        known = _Arguments(operator, self.at, "place")
        lines = list(_with_loads(_dedented(self.lines), known, "inside"))
        assigned = [n for n in known.outputs if any(x.startswith(f"{n} = ") for x in lines)]
        body = [
            "place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)",
            "inside = place < count",
            *lines,
            *(known.store(name, name, "inside") for name in assigned),
        ]
        sizes = ["count", *self.sizes]
        parameters = [*(f"{n}_ptr" for n in known.tensors), *sizes, *known.scalars]
        given = [*known.tensors, "count", *self.sizes.values(), *known.scalars]
        kernel = _kernel(
            "compute",
            ", ".join(parameters),
            [*sizes, *known.whole],
            "BLOCK: tl.constexpr",
            "\n".join(body),
        )
        entry = f"""\
def {operator.name}({known.entry}):
    count = {known.outputs[0]}.numel()
    blocks = (triton.cdiv(count, 1024),)
    compute[blocks]({", ".join(given)}, BLOCK=1024)
"""
        return _file(kernel, entry)


@dataclass(frozen=True)
class Rows(Template):
    """Reductions over the columns of a row, one after the other; a program has `together` rows."""

    rows: str = ""
    cols: str = ""
    together: int = 1

    def source(self, operator: Operator) -> str:
        known = _Arguments(operator, self.at, "row * cols + col")
        body = "\n".join(self._body(known))
        sizes = ["rows", "cols", *self.sizes]
        parameters = [*(f"{n}_ptr" for n in known.tensors), *sizes, *known.scalars]
        given = [*known.tensors, "rows", "cols", *self.sizes.values(), *known.scalars]
        kernel = _kernel(
            "compute",
            ", ".join(parameters),
            [*sizes, *known.whole],
            "ROWS: tl.constexpr, BLOCK: tl.constexpr",
            body,
        )
        first = known.tensors[0]
        entry = f"""\
def {operator.name}({known.entry}):
    rows, cols = {self.rows or f"{first}.shape[0]"}, {self.cols or f"{first}.shape[1]"}
    block = min(triton.next_power_of_2(cols), {2048 // self.together})
    blocks = (triton.cdiv(rows, {self.together}),)
    compute[blocks]({", ".join(given)}, ROWS={self.together}, BLOCK=block)
"""
        return _file(kernel, entry)

    def _body(self, known: _Arguments) -> Iterator[str]:
        yield "row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[None, :]"
        yield "lane = tl.arange(0, BLOCK)[:, None]"
        loaded: set[str] = set()
        for line in _dedented(self.lines):
            inner = [n for n in known.used(line) if "col" in names(known.index(n))]
            for name in known.used(line):
                if name not in inner and name not in loaded:
                    yield known.load(name, "row < rows")
                    loaded.add(name)
            name = line.partition(" = ")[0]
            if match := _REDUCTION.fullmatch(line):
                yield from _reduction(*match.groups(), inner, known)
            elif name in known.outputs and "col" in names(known.index(name)):
                yield from _columns([*_loads(inner, known), line, known.store(name, name, INSIDE)])
            else:
                yield line
                continue
        for name in known.outputs:
            if "col" not in names(known.index(name)):
                yield known.store(name, name, "row < rows")


INSIDE = "inside"


def _loads(inputs: Iterable[str], known: _Arguments) -> list[str]:
    return [known.load(name, INSIDE) for name in inputs]


def _columns(lines: Iterable[str]) -> Iterator[str]:
    """Yield a loop over blocks of columns."""
    yield "for first in range(0, cols, BLOCK):"
    yield "    col = first + lane"
    yield "    inside = (col < cols) & (row < rows)"
    yield from (f"    {line}" for line in lines)


def _reduction(
    name: str, kind: str, value: str, inner: Iterable[str], known: _Arguments
) -> Iterator[str]:
    dtype = "tl.int32" if kind == "FIRST" else "tl.float32"
    value = f"tl.where({value}, col, {INIT[kind]})" if kind == "FIRST" else value
    one = f"tl.where(inside, {value}, {INIT[kind]})"
    yield f"all_{name} = tl.full((BLOCK, ROWS), {INIT[kind]}, {dtype})"
    combined = COMBINED[kind].format(all=f"all_{name}", one=one)
    yield from _columns([*_loads(inner, known), f"all_{name} = {combined}"])
    yield f"{name} = {REDUCED[kind]}(all_{name}, 0)[None, :]"


PARTS = 256


@dataclass(frozen=True)
class Total(Template):
    """Sums over all places in parts, and results of them; `lines` has one `SUM` for each."""

    def source(self, operator: Operator) -> str:
        known = _Arguments(operator, self.at, "place")
        lines = _dedented(self.lines)
        sums = [match for line in lines if (match := _REDUCTION.fullmatch(line))]
        rest = [line for line in lines if not _REDUCTION.fullmatch(line)]
        loads = [known.load(n, "inside") for n in known.used(" ".join(m[3] for m in sums))]
        body = ["lane = tl.arange(0, BLOCK)"]
        body += [f"all_{m[1]} = tl.zeros((BLOCK,), tl.float32)" for m in sums]
        body += ["start = tl.program_id(0).to(tl.int64) * BLOCK"]
        body += ["for first in range(start, count, PARTS * BLOCK):"]
        inner = ["place = first + lane", "inside = place < count", *loads]
        inner += [f"all_{m[1]} += tl.where(inside, {m[3]}, 0.0)" for m in sums]
        body += [f"    {line}" for line in inner]
        part = "parts_ptr + {} * PARTS + "
        for n, match in enumerate(sums):
            where = part.format(n) + "tl.program_id(0)"
            body.append(f"tl.store({where}, tl.sum(all_{match[1]}, 0))")
        ending = [
            f"{m[1]} = tl.sum(tl.load({part.format(n)}tl.arange(0, PARTS)), 0)"
            for n, m in enumerate(sums)
        ]
        ending += [*rest, *(f"tl.store({name}_ptr, {name})" for name in known.outputs)]
        sizes = ["count", *self.sizes]
        more = ", ".join([*sizes, *known.scalars])
        free = [*sizes, *known.whole]
        inputs = [a.name for a in operator.inputs]
        values = ", ".join(["count", *self.sizes.values(), *known.scalars])
        add = _kernel(
            "add",
            ", ".join([*(f"{n}_ptr" for n in inputs), "parts_ptr", more]),
            free,
            "PARTS: tl.constexpr, BLOCK: tl.constexpr",
            "\n".join(body),
        )
        finish = _kernel(
            "finish",
            ", ".join([*(f"{n}_ptr" for n in known.outputs), "parts_ptr", more]),
            free,
            "PARTS: tl.constexpr",
            "\n".join(ending),
        )
        entry = f"""\
def {operator.name}({known.entry}):
    count = {inputs[0]}.numel()
    parts = torch.empty({len(sums) * PARTS}, dtype=torch.float32, device={inputs[0]}.device)
    add[({PARTS},)]({", ".join(inputs)}, parts, {values}, PARTS={PARTS}, BLOCK=1024)
    finish[(1,)]({", ".join(known.outputs)}, parts, {values}, PARTS={PARTS})
"""
        return _file(add, finish, entry)


@dataclass(frozen=True)
class Scan(Template):
    """Inclusive sums (`SUM`) or products (`PRODUCT`) along rows; the line names the output."""

    def source(self, operator: Operator) -> str:
        known = _Arguments(operator, self.at, "row * cols + col")
        match = re.fullmatch(r"(\w+) = (SUM|PRODUCT)\((.*)\)", self.lines.strip())
        assert match, self.lines
        out, kind, value = match.groups()
        scan, neutral, joined = {
            "SUM": ("tl.cumsum", "0.0", "+"),
            "PRODUCT": ("tl.cumprod", "1.0", "*"),
        }[kind]
        inner = [
            "col = first + lane",
            "inside = col < cols",
            *_loads(known.used(value), known),
            f"found = {scan}(tl.where(inside, {value}, {neutral}), 0) {joined} before",
            known.store(out, "found", "inside"),
            "before = tl.sum(tl.where(lane == BLOCK - 1, found, 0.0), 0)",
        ]
        body = ["row = tl.program_id(0).to(tl.int64)", "lane = tl.arange(0, BLOCK)"]
        body += [f"before = tl.full((), {neutral}, tl.float32)"]
        body += ["for first in range(0, cols, BLOCK):", *(f"    {line}" for line in inner)]
        kernel = _kernel(
            "compute",
            ", ".join([*(f"{n}_ptr" for n in known.tensors), "cols"]),
            ["cols"],
            "BLOCK: tl.constexpr",
            "\n".join(body),
        )
        first = known.tensors[0]
        entry = f"""\
def {operator.name}({known.entry}):
    rows, cols = {first}.shape
    block = min(triton.next_power_of_2(cols), 1024)
    compute[(rows,)]({", ".join(known.tensors)}, cols, BLOCK=block)
"""
        return _file(kernel, entry)


@dataclass(frozen=True)
class Product(Template):
    """`total`, the product of tiles of `a` (`i`, `l`) and `b` (`l`, `j`) for a batch entry `z`."""

    a: str = "a"
    b: str = "b"
    m: str = "a.shape[-2]"
    n: str = "b.shape[-1]"
    k: str = "a.shape[-1]"
    batch: str = "1"

    def source(self, operator: Operator) -> str:
        at = {self.a: "(z * m + i) * k + l", self.b: "(z * k + l) * n + j", **self.at}
        known = _Arguments(operator, at, "(z * m + i) * n + j")
        out = known.outputs[0]
        lines = _with_loads(_dedented(self.lines), known, "within")
        body = [
            "i = tl.program_id(0).to(tl.int64) * SIDE + tl.arange(0, SIDE)[:, None]",
            "j = tl.program_id(1).to(tl.int64) * SIDE + tl.arange(0, SIDE)[None, :]",
            "z = tl.program_id(2).to(tl.int64)",
            "total = tl.zeros((SIDE, SIDE), tl.float32)",
            "for first in range(0, k, DEEP):",
            "    l = first + tl.arange(0, DEEP)[None, :]",
            f"    left = tl.load({self.a}_ptr + ({at[self.a]}), (i < m) & (l < k), 0)",
            "    l = first + tl.arange(0, DEEP)[:, None]",
            f"    right = tl.load({self.b}_ptr + ({at[self.b]}), (l < k) & (j < n), 0)",
            '    total = tl.dot(left, right, total, input_precision="ieee")',
            "within = (i < m) & (j < n)",
            *lines,
            known.store(out, out, "within"),
        ]
        sizes = ["m", "n", "k", *self.sizes]
        kernel = _kernel(
            "multiply",
            ", ".join([*(f"{n}_ptr" for n in known.tensors), *sizes, *known.scalars]),
            [*sizes, *known.whole],
            "SIDE: tl.constexpr, DEEP: tl.constexpr",
            "\n".join(body),
        )
        given = [*known.tensors, "m", "n", "k", *self.sizes.values(), *known.scalars]
        entry = f"""\
def {operator.name}({known.entry}):
    m, n, k = {self.m}, {self.n}, {self.k}
    blocks = (triton.cdiv(m, 64), triton.cdiv(n, 64), {self.batch})
    multiply[blocks]({", ".join(given)}, SIDE=64, DEEP=32)
"""
        return _file(kernel, entry)


def linear(lines: str, at: Mapping[str, str], weight: str = "weight") -> Product:
    """Return a product of `x` and a `weight` with one row for each output, and what follows."""
    sizes = {"m": "x.shape[0]", "n": f"{weight}.shape[0]", "k": "x.shape[1]"}
    return Product(lines, {weight: "j * k + l", **at}, a="x", b=weight, **sizes)
