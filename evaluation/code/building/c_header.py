"""Generated C headers, for languages behind a C interface.

A header declares one struct (tensors in calling order, then sizes in order of first use, then
scalars) and the entry point that takes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from evaluation.shapes import WHOLE
from evaluation.types import Argument

if TYPE_CHECKING:
    from evaluation.tasks.operator import Operator

_C_TYPES = {
    "float64": "double",
    "float32": "float",
    "int64": "int64_t",
    "int32": "int32_t",
    "int16": "int16_t",
    "int8": "int8_t",
    "uint8": "uint8_t",
    "bool": "bool",
    # Their bits: not every compiler has a type for them.
    "float8_e4m3fn": "uint8_t",
    "float8_e5m2": "uint8_t",
}


def element_type(operator: Operator) -> str:
    """Return the C type of the case's dtype: float, or that of an operator's whole numbers."""
    whole = next((dtype for dtype in operator.domain.dtypes if dtype in WHOLE), None)
    return _C_TYPES[whole] if whole else "float"


_HEADER = """\
/* The calling convention of {name}, generated from its task. */
#ifndef ARENA_{upper}_H
#define ARENA_{upper}_H

{types}

/* Tensors are contiguous, row-major and do not overlap; only outputs may be written. */
typedef struct {{
{fields}
}} {name}_args;

{entry}

#endif
"""


def c_header(operator: Operator, names: dict[str, str], types: str, entry: str) -> str:
    """Return the header of an operator.

    `names` are C types by dtype, beyond the plain ones. `types` is C code that defines them, and
    `entry` declares the entry point, with `{name}` for the operator's name.
    """
    c_types = {**_C_TYPES, **names}

    def tensor(argument: Argument) -> str:
        const = "const " if argument.role == "input" else ""
        shape = "".join(f"[{dimension}]" for dimension in argument.shape)
        return f"    {const}{c_types[argument.dtype]}* {argument.name};  /* {shape} */"

    fields = [tensor(argument) for argument in operator.arguments if argument.role != "scalar"]
    fields += [f"    int64_t {size};" for size in operator.sizes]
    fields += [f"    {c_types[argument.dtype]} {argument.name};" for argument in operator.scalars]
    return _HEADER.format(
        name=operator.name,
        upper=operator.name.upper(),
        types=types,
        fields="\n".join(fields),
        entry=entry.replace("{name}", operator.name),
    )
