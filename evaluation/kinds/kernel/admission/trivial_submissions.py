"""Trivial submissions: implementations without knowledge of the operator, which must fail."""

from __future__ import annotations

from evaluation.code.languages import languages
from evaluation.shapes import factors, symbols_of
from evaluation.tasks.operator import Example, Operator
from evaluation.types import Argument

NOTES = {
    "zeros": "every output is zero",
    "constant": "every output is one",
    "copy": "every output is a copy of the first input, repeated or cut to size",
    "stale": "no output is written",
}


def probes(operator: Operator, language: str) -> tuple[Example, ...]:
    """Return the trivial submissions for `operator`, written in `language`."""
    return tuple(
        Example(name, language, _written(operator, language, name), NOTES[name]) for name in NOTES
    )


def _written(operator: Operator, language: str, probe: str) -> str:
    form, first = languages()[language].texts.trivial, operator.inputs[0]
    sizes = symbols_of(operator.outputs)
    words = {
        "name": operator.name,
        "language": language,
        "parameters": ", ".join(a.name for a in operator.arguments),
        "input": first.name,
        "input_size": _c_size(first),
        "sizes": "".join(f"{size}, " for size in sizes),
        # By name only, or else a suite's arguments by position would be taken for them.
        "keywords": f"*, {', '.join(sizes)}" if sizes else "",
        # What a module's `__init__` asks for by name, `forward` is not given again.
        "others": ", ".join(
            a.name for a in operator.arguments if a.role != "output" and a.name not in sizes
        ),
    }
    each = ""
    for output in operator.outputs:
        of_output = {
            "output": output.name,
            "output_size": _c_size(output),
            "output_shape": "".join(f"{dimension}, " for dimension in output.shape),
            "output_dtype": _torch_dtype(operator, output),
        }
        value = form.values[probe].format(**words, **of_output)
        each += form.each.format(**words, **of_output, value=value)
    return form.source.format(**words, value=form.values[probe], each=each)


def _c_size(argument: Argument) -> str:
    """Return the elements of a tensor as a C expression."""
    names = [factor for dimension in argument.shape for factor in factors(dimension)]
    return " * ".join(name if name.isdigit() else f"args->{name}" for name in names) or "1"


def _torch_dtype(operator: Operator, output: Argument) -> str:
    """Return the dtype of an output as a PyTorch expression; the case's is that of an input."""
    if output.dtype != "dtype":
        return f"torch.{output.dtype}"
    return next(f"{a.name}.dtype" for a in operator.inputs if a.dtype == "dtype")
