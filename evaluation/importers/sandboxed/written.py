"""UNTRUSTED: `task.toml` and `reference.py` of a problem of KernelBench's form."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from evaluation.importers.sandboxed.expressions import is_plain
from evaluation.importers.sandboxed.forms.kernelbench import Call, KernelBench, identifier
from evaluation.importers.sandboxed.generalise import General
from evaluation.importers.sandboxed.observation import Unsupported
from evaluation.importers.sandboxed.recording import INTEGERS, UNIFORM
from evaluation.importers.sandboxed.reference_source import reference_source, weight_description
from evaluation.tasks.operator import IEEE

DTYPES = {torch.float32: "float32", torch.int64: "int64", torch.int32: "int32", torch.bool: "bool"}
DTYPES |= {torch.int8: "int8", torch.uint8: "uint8", torch.int16: "int16"}
DTYPES |= {torch.float64: "float64", torch.float16: "float16", torch.bfloat16: "bfloat16"}
MAX_SIZE = 1 << 40
MAX_SECONDS_ON_CPU = 0.005
"""Time of a call on data: admission makes some thousand calls."""
_INFINITY = re.compile(r"float\(['\"]-?inf")
MAX_GPU_MB = 6144
"""Tensors of a published configuration; a larger one is halved until it fits."""


@dataclass
class Written:
    """A task in words that can still be changed: families and ranges follow from the fit."""

    title: str
    category: str
    level: int
    dtype: str
    families: tuple[str, ...]
    reference: str
    arguments: list[dict[str, object]]
    domain: dict[str, str]
    derived: dict[str, str]
    published: dict[str, object]
    gpu: dict[str, object]
    gpu_mb: int
    gpu_cases: dict[str, dict[str, object]]
    """Other published configurations, which are small enough for a GPU."""
    uniform: tuple[str, ...]
    """Inputs that the suite draws from [0, 1)."""
    gpu_domain: dict[str, str]
    """The domain on a GPU, where that on a CPU is smaller."""
    has_data: bool
    """True where the reference reads its inputs, and so runs on tensors with data only."""
    has_infinities: bool
    """True where the reference writes negative infinities."""
    case_mb: int = 24
    case: str = "published"
    """Name of the configuration that the problem was observed with."""
    input_families: tuple[str, ...] = ()
    precision: str = IEEE
    keeps_tensors: bool = False
    """True where the module has drawn tensors that are no parameters, which a call may change."""

    def toml(self) -> str:
        """Return `task.toml`."""
        lines = [f"title = {_text(self.title)}", f"category = {_text(self.category)}"]
        lines += [f"families = {_list(self.families)}", f"level = {self.level}"]
        if self.input_families:
            lines.append(f"input_families = {_list(self.input_families)}")
        if self.precision != IEEE:
            lines.append(f"precision = {_text(self.precision)}")
        lines += ["arguments = [", *(f"    {_table(a)}," for a in self.arguments), "]"]
        if self.derived:
            lines += ["", "[derived]"]
            lines += [f"{name} = {_text(text)}" for name, text in self.derived.items()]
        lines += ["", "[domain]", f"dtypes = {_list([self.dtype])}"]
        lines += [f"{name} = {text}" for name, text in self.domain.items()]
        lines += ["", "[models]", f"{self.case} = {_table(self.published)}"]
        lines += ["", "[limits]", f"case_mb = {self.case_mb}"]
        if self.gpu != self.published or self.gpu_cases:
            name = self.case if self.gpu == self.published else f"{self.case}-smaller"
            models = {name: self.gpu, **self.gpu_cases}
            lines += ["", "[gpu.models]", *(f"{n} = {_table(m)}" for n, m in models.items())]
        if self.gpu_domain:
            lines += ["", "[gpu.domain]", f"dtypes = {_list([self.dtype])}"]
            lines += [f"{name} = {text}" for name, text in self.gpu_domain.items()]
        memory = max(16384, 6 * self.gpu_mb)
        lines += ["", "[gpu.limits]", f"case_mb = {self.gpu_mb}", f"memory_mb = {memory}"]
        return "\n".join(lines) + "\n"


def write(problem: KernelBench, general: General, source: str, asked: dict[str, Any]) -> Written:
    """Return the task of a problem: title, level, category and suite are `asked` for.

    Raises: Unsupported.
    """
    call, heading = problem.published, str(asked["title"])
    symbols = list(general.ranges)
    derived = _derived(general, symbols)
    shapes = {n: _dimensions(s, derived) for n, s in general.shapes.items()}
    outputs = [_dimensions(s, derived) for s in general.outputs]
    scalars = {n: v for n, v in call.others.items() if isinstance(v, float)}
    needed = problem.constants.used_by("get_init_inputs", [*symbols, *general.tied])
    needed = list(dict.fromkeys(general.tied.get(name, name) for name in needed))
    found = {name: _recovered(name, general.shapes) for name in needed}
    missing = [name for name, text in found.items() if not text]
    if clash := (set(shapes) | set(scalars)) & {*symbols, *derived}:
        raise Unsupported(f"{sorted(clash)[0]} names both a size and an input")
    structured = [n for n, x in call.tensors.items() if call.recording.source_of(x) is None]
    dtype = _dtype_of_cases(call)
    arguments = _inputs(problem, general, shapes, structured, dtype)
    arguments += _outputs(call, outputs, {*shapes, *symbols, *derived}, dtype)
    arguments += [{"name": n, "role": "scalar", "dtype": "float32"} for n in scalars]
    arguments += [{"name": n, "role": "scalar", "dtype": "int64"} for n in missing]
    domain = {n: _range(general, n) for n in symbols}
    domain |= {n: f"{{ choices = [{v}, {v / 2}, {-2 * v}] }}" for n, v in scalars.items()}
    sizes: dict[str, object] = {n: problem.sizes[n] for n in symbols}
    published: dict[str, object] = {**sizes, **scalars}
    gpu, gpu_mb = _on_gpu(problem, general, sizes)
    gpu_domain: dict[str, str] = {}
    if problem.has_data:
        small = _quick(problem, general)
        published |= small
        gpu_domain = domain
        domain = domain | {n: _range(general, n, 4 * size) for n, size in small.items()}
    reference = reference_source(
        problem, general, source, heading, needed, found, [*scalars, *missing], structured
    )
    sources = {n: call.recording.source_of(x) or ("",) for n, x in call.tensors.items()}
    return Written(
        title=heading.partition("\n")[0],
        category=asked["category"],
        level=asked["level"],
        dtype=dtype,
        families=(asked["suite"],),
        reference=reference,
        arguments=arguments,
        domain=domain,
        derived={name: text for text, name in derived.items()},
        published=published,
        gpu={**gpu, **scalars},
        gpu_mb=gpu_mb,
        gpu_cases={n: {**c, **scalars} for n, c in _cases(problem, general, gpu, gpu_mb).items()},
        uniform=tuple(n for n, source in sources.items() if source[0] == UNIFORM),
        gpu_domain=gpu_domain,
        has_data=problem.has_data,
        has_infinities=problem.has_data and _INFINITY.search(source) is not None,
        case=asked.get("case", "published"),
        precision=asked["precision"] if dtype == "float32" else IEEE,
        keeps_tensors=bool(call.drawn),
    )


def _outputs(
    call: Call, shapes: Sequence[list[int | str]], taken: set[str], dtype: str
) -> list[dict[str, object]]:
    """Return the description of each output, by a name that is not taken."""
    names = ["out"] if len(shapes) == 1 else [f"out_{n}" for n in range(len(shapes))]
    return [
        {"name": n, "role": "output", **_dtype(y, dtype), "shape": s, **_compared(y)}
        for n, y, s in zip(
            (identifier(name, taken) for name in names), call.outputs, shapes, strict=True
        )
    ]


def _inputs(
    problem: KernelBench,
    general: General,
    shapes: Mapping[str, list[int | str]],
    structured: Collection[str],
    dtype: str,
) -> list[dict[str, object]]:
    """Return the description of each input; the problem itself draws the `structured` ones."""
    bounded = _bounds(problem, general)
    return [
        _argument(problem, n, shapes[n], bounded, dtype)
        | ({"structured": True} if n in structured else {})
        for n in shapes
    ]


def _derived(general: General, symbols: list[str]) -> dict[str, str]:
    """Return names for the dimensions that are neither a size nor a product of sizes."""
    names: dict[str, str] = {}
    for shape in (*general.shapes.values(), *general.outputs):
        for text in shape:
            if not is_plain(text) and text not in names:
                one = [s for s in symbols if s in text.replace("(", " ").split()]
                stem = f"out_{one[0]}" if len(one) == 1 else "out_size"
                name, number = stem, 2
                while name in names.values() or name in symbols or name in general.shapes:
                    name, number = f"{stem}_{number}", number + 1
                names[text] = name
    return names


def _dimensions(shape: tuple[str, ...], derived: Mapping[str, str]) -> list[int | str]:
    return [int(text) if text.isdigit() else derived.get(text, text) for text in shape]


def _recovered(symbol: str, shapes: Mapping[str, tuple[str, ...]]) -> str:
    """Return Python that reads a size off the shapes of the arguments; empty where none can."""
    for factor in ("", "*"):
        for name, shape in shapes.items():
            for at, text in enumerate(shape):
                if text == symbol:
                    return f"{name}.shape[{at}]"
                first, _, rest = text.partition("*")
                if factor and rest == symbol and first.isdigit():
                    return f"{name}.shape[{at}] // {first}"
    return ""


def _dtype_of_cases(call: Call) -> str:
    """Return the format of 16 bits that all floating-point inputs have, or else float32.

    An output of 16 bits decides where some inputs have its format.
    """
    given = _formats([*call.tensors.values(), *call.module.parameters()])
    made = _formats(call.outputs)
    for found in (made if made <= given else set(), given):
        if found in ({torch.float16}, {torch.bfloat16}):
            return DTYPES[found.pop()]
    return "float32"


def _formats(tensors: Iterable[torch.Tensor]) -> set[torch.dtype]:
    return {x.dtype for x in tensors if x.is_floating_point()}


def _dtype(tensor: torch.Tensor, of_cases: str) -> dict[str, object]:
    if tensor.dtype not in DTYPES:
        raise Unsupported(f"has a tensor of {tensor.dtype}")
    name = DTYPES[tensor.dtype]
    return {} if name == of_cases else {"dtype": name}


def _compared(output: torch.Tensor) -> dict[str, object]:
    """Return how an output is compared: a narrow integer may be rounded.

    One that is made of integers alone has no roundings, so that it must be equal.
    """
    return {"compare": "rounded"} if output.dtype in (torch.int8, torch.uint8) else {}


def _argument(
    problem: KernelBench,
    name: str,
    shape: list[int | str],
    bounded: Mapping[int, str],
    dtype: str,
) -> dict[str, object]:
    call = problem.published
    values: dict[str, object] = {}
    argument: dict[str, object] = {"name": name, "role": "input"}
    if name in problem.weights:
        path = problem.parameters[name]
        parameter = call.weights[path]
        argument |= {**_dtype(parameter, dtype), "parameter": path}
        values = weight_description(call, path, tuple(parameter.shape))
    else:
        tensor = call.tensors[name]
        argument |= _dtype(tensor, dtype)
        drawn = call.recording.source_of(tensor)
        if drawn and drawn[0] == INTEGERS:
            low, high = drawn[1]
            values = {"range": [low, bounded.get(high, high)]}
    return {**argument, "shape": shape, **values}


def _bounds(problem: KernelBench, general: General) -> dict[int, str]:
    """Return the sizes that bound drawn integers, such as a number of classes, by value."""
    found = {}
    if any(kind == INTEGERS for _, kind, _ in problem.published.recording.drawn):
        for name, r in general.ranges.items():
            value = problem.sizes[name] + (r.step if problem.sizes[name] < r.high else -r.step)
            call = problem.call(general.all_sizes(problem, {name: value}))
            if any(k == INTEGERS and b[1] == value for _, k, b in call.recording.drawn):
                found[problem.sizes[name]] = name
    return found


def _range(general: General, name: str, most: int = MAX_SIZE) -> str:
    r = general.ranges[name]
    high = max(min(r.high, most), r.low + r.step)
    if r.step == 1:
        return f"[{r.low}, {high}]"
    return f"{{ log_uniform = [{r.low}, {high}], multiple_of = {r.step} }}"


def _quick(problem: KernelBench, general: General) -> dict[str, int]:
    """Return the published sizes, halved until a call on a CPU takes a few milliseconds."""
    chosen = {name: problem.sizes[name] for name in general.ranges}
    best = _seconds(problem, general, chosen)
    while best > MAX_SECONDS_ON_CPU:
        tried = []
        for name, r in general.ranges.items():
            half = chosen[name] // 2 // r.step * r.step
            if half >= r.low:
                sizes = {**chosen, name: half}
                tried.append((_seconds(problem, general, sizes), sizes))
        least, smaller = min(tried, key=lambda each: each[0], default=(best, chosen))
        if least > 0.8 * best:  # no size has an effect
            break
        best, chosen = least, smaller
    return chosen


def _seconds(problem: KernelBench, general: General, sizes: Mapping[str, int]) -> float:
    started = time.process_time()
    problem.observe(general.all_sizes(problem, sizes))
    return time.process_time() - started


def _on_gpu(
    problem: KernelBench, general: General, sizes: Mapping[str, object]
) -> tuple[dict[str, object], int]:
    """Return the published sizes, halved until the tensors fit a GPU, and the MiB of a case."""
    chosen = {name: int(str(value)) for name, value in sizes.items()}
    while (found := _megabytes(problem, general, chosen)) > MAX_GPU_MB:
        halved = {
            n: chosen[n] // 2 // r.step * r.step
            for n, r in general.ranges.items()
            if chosen[n] // 2 // r.step * r.step >= r.low
        }
        if not halved:
            raise Unsupported(f"its tensors take {found} MiB")
        largest = max(halved, key=lambda n: halved[n])
        chosen[largest] = halved[largest]
    return dict(chosen), max(1024, 2 * found)


def _cases(
    problem: KernelBench, general: General, largest: Mapping[str, object], gpu_mb: int
) -> dict[str, dict[str, object]]:
    """Return the other published configurations that differ from the largest in sizes alone."""
    found: dict[str, dict[str, object]] = {}
    for name, case in problem.cases.items():
        sizes = {n: int(str(case[n])) for n in general.ranges if n in case}
        known = general.all_sizes(problem, sizes)
        if any(known.get(n, v) != v for n, v in case.items()):
            continue  # a size that cannot vary has another value
        inside = all(
            r.low <= known[n] <= r.high and known[n] % r.step == 0
            for n, r in general.ranges.items()
        )
        configuration: dict[str, object] = {n: known[n] for n in general.ranges}
        new = configuration not in (largest, *found.values())
        if inside and new and 2 * _megabytes(problem, general, sizes) <= gpu_mb:
            found[name] = configuration
    return found


def _megabytes(problem: KernelBench, general: General, sizes: Mapping[str, int]) -> int:
    found = problem.observe(general.all_sizes(problem, sizes))
    elements = sum(math.prod(s) for s in (*found.arguments.values(), *found.outputs))
    return math.ceil(elements * 8 / 2**20 / 2)


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _list(values: Iterable[object]) -> str:
    return f"[{', '.join(_value(v) for v in values)}]"


def _value(value: object) -> str:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, bool):
        return str(value).lower()
    return _list(value) if isinstance(value, list | tuple) else str(value)


def _table(values: Mapping[str, object]) -> str:
    return "{ " + ", ".join(f"{n} = {_value(v)}" for n, v in values.items()) + " }"
