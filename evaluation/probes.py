"""Answers that know nothing of the operator, for every task to refuse, written in a language."""

from __future__ import annotations

from evaluation.domain import factors
from evaluation.operators import Example, Operator
from evaluation.starter import parameters
from evaluation.types import Argument

NOTES = {
    "zeros": "every output is zero",
    "constant": "every output is one",
    "copy": "every output is a copy of the first input, repeated or cut to size",
    "stale": "no output is written",
}

_CPP = {
    "zeros": "0.0f",
    "constant": "1.0f",
    "copy": "args->{source}[i % ({source_size})]",
}

_TRITON = {
    "zeros": "tl.zeros((BLOCK,), tl.float32)",
    "constant": "tl.full((BLOCK,), 1.0, tl.float32)",
    "copy": "tl.load(source + places % size, mask)",
    "stale": "tl.load(out + places, mask)",
}

_TRITON_SOURCE = """\
import triton
import triton.language as tl


@triton.jit
def fill(source, out, size, elements, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = places < elements
    tl.store(out + places, {value}, mask)


def {name}({parameters}):
    for output in ({outputs},):
        grid = (triton.cdiv(output.numel(), 1024),)
        fill[grid]({source}, output, {source}.numel(), output.numel(), BLOCK=1024)
"""


def probes(operator: Operator, language: str) -> tuple[Example, ...]:
    """The probes of `operator`, written in `language`: one that tracks lead to."""
    write = {"cpp": _cpp, "triton": _triton}[language]
    return tuple(Example(name, language, write(operator, name), NOTES[name]) for name in NOTES)


def _cpp(operator: Operator, probe: str) -> str:
    source = operator.inputs[0]
    loops = ""
    if probe in _CPP:
        value = _CPP[probe].format(source=source.name, source_size=_c_size(source))
        loops = "".join(
            f"    for (int64_t i = 0; i < {_c_size(output)}; ++i) "
            f"args->{output.name}[i] = {value};\n"
            for output in operator.outputs
        )
    name = operator.name
    entry = f'extern "C" int {name}([[maybe_unused]] const {name}_args* args)'
    return f'#include "{name}.h"\n\n{entry} {{\n{loops}    return 0;\n}}\n'


def _c_size(argument: Argument) -> str:
    """The elements of a tensor as a C expression."""
    names = [factor for dimension in argument.shape for factor in factors(dimension)]
    return " * ".join(name if name.isdigit() else f"args->{name}" for name in names)


def _triton(operator: Operator, probe: str) -> str:
    return _TRITON_SOURCE.format(
        name=operator.name,
        parameters=parameters(operator, "triton"),
        outputs=", ".join(output.name for output in operator.outputs),
        source=operator.inputs[0].name,
        value=_TRITON[probe],
    )
