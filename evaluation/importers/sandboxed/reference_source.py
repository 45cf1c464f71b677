"""UNTRUSTED: the source of `reference.py` of a problem of KernelBench's form."""

from __future__ import annotations

import ast
import inspect
import math
import re
from collections.abc import Iterable, Mapping

import torch

from evaluation.importers.sandboxed.drawing import drawn_source
from evaluation.importers.sandboxed.expressions import is_plain
from evaluation.importers.sandboxed.forms.kernelbench import Call, KernelBench
from evaluation.importers.sandboxed.generalise import General
from evaluation.importers.sandboxed.observation import Unsupported

MAX_FAN_IN = 256
"""Terms of a sum beyond which weights are not made smaller: small cases have fewer of them."""
REFERENCE = '''\
"""{heading}
"""{joined}
{source}


# Written by the importer.

import functools
{imports}

{init}


CALL = {call_names}
CONSTANTS = {call_constants}


def constructor(case):
    """Return the arguments of the module's constructor in a case, by position and by name."""
    return {constructor}


@functools.cache
def module({parameters}):
    """Return the module of the problem, as a function of its tensors."""
    with {device}:
        found = Model({call})
    for part in found.modules():
        if isinstance(part, torch.nn.modules.dropout._DropoutNd):
            part.p = 0.0
        if isinstance(part, torch.nn.modules.batchnorm._NormBase):
            part.track_running_stats = False
            part.running_mean = part.running_var = part.num_batches_tracked = None
{drawn}    return found{moved}


def reference({arguments}):
    found = module({values})
{body}
'''


def reference_source(
    problem: KernelBench,
    general: General,
    source: str,
    heading: str,
    needed: list[str],
    found: Mapping[str, str],
    scalars: list[str],
    structured: list[str],
) -> str:
    call = problem.published
    constants = problem.constants
    tied = [n for n in general.tied if general.tied[n] in needed]
    lines = [f"{n} = {general.tied[n]}" for n in tied]
    lines += constants.body("get_init_inputs", [*needed, *tied])
    init = _function("init_inputs", needed, lines)
    added = constants.added(list(general.ranges))
    has_buffers = any(path not in call.drawn for path, _ in call.module.named_buffers()) or any(
        torch.is_tensor(v) for part in call.module.modules() for v in vars(part).values()
    )
    first = next(iter(general.shapes))
    values = [found[n] or n for n in needed]
    parameters = list(needed)
    if has_buffers:
        floats = [n for n, x in call.tensors.items() if x.is_floating_point()] or [first]
        values += [f"{floats[0]}.device", f"{floats[0]}.dtype"]
        parameters += ["device", "dtype"]
    own = [n for n in call.names if n in call.tensors or isinstance(call.others[n], float)]
    given = ", ".join(n if n in own else repr(call.others[n]) for n in call.names)
    sizes = ", ".join(f'case["{n}"]' for n in needed)
    body, is_flat = _body(problem, given)
    text = REFERENCE.format(
        heading=_docstring(heading, call),
        joined=_joined(source),
        source=source.strip("\n"),
        imports="\nfrom torch.func import functional_call\n" if problem.parameters else "",
        init="\n".join([*added, "", "", init]) if added else "\n" + init,
        parameters=", ".join(parameters),
        call_names=call.names,
        call_constants={n: call.others[n] for n in call.names if n not in own},
        constructor=_constructor(call, sizes),
        device=_device(problem, has_buffers),
        call=_init_call(call, ", ".join(needed)),
        drawn="".join(map(_registered, call.drawn)),
        moved=_moved(problem, has_buffers),
        arguments=", ".join([*general.shapes, *scalars]),
        values=", ".join(values),
        body=body,
    )
    if is_flat:
        text += FLAT
    if structured:
        text += _inputs(problem, general)
    if problem.has_data:
        text += _cost(problem, general)
    return text


def _body(problem: KernelBench, given: str) -> tuple[str, bool]:
    """Return the lines that call the module with `given`, and whether they need `flat`."""
    call = problem.published
    lines, run = [], f"found({given})"
    if problem.parameters:
        weights = (f'        "{path}": {n},' for n, path in problem.parameters.items())
        lines = ["    state = {", *weights, "    }"]
        run = f"functional_call(found, state, ({given},))"
    is_flat = len(call.outputs) != 1 or not torch.is_tensor(call.result)
    if is_flat:
        run = f"flat({run})" if len(call.outputs) != 1 else f"flat({run})[0]"
    return "\n".join([*lines, f"    return {run}"]), is_flat


def _joined(source: str) -> str:
    """Return what stands between the heading and the problem.

    An import of `__future__` can follow one docstring alone, so that of the problem becomes a part
    of the heading.
    """
    body = ast.parse(source).body
    future = any(isinstance(n, ast.ImportFrom) and n.module == "__future__" for n in body)
    starts_with_text = source.lstrip("\n")[:1] in "\"'rRuU"
    own = ast.get_docstring(ast.parse(source)) is not None and starts_with_text
    return " \\" if future and own else "\n"


def _cost(problem: KernelBench, general: General) -> str:
    """Return `cost`, which counts one operation for each element."""
    call = problem.published
    weights = call.weights
    tensors = {**call.tensors, **{n: weights[p] for n, p in problem.parameters.items()}}
    shapes = [*general.shapes.values(), *general.outputs]
    kinds = [*(tensors[n].dtype for n in general.shapes), *(y.dtype for y in call.outputs)]
    names = general.ranges
    counts = [" * ".join(f"({_in_case(text, names)})" for text in s) or "1" for s in shapes]
    number = " + ".join(f"{count} * {k.itemsize}" for count, k in zip(counts, kinds, strict=True))
    lines = [
        '    """Return the bytes of all tensors, and one operation for each of their elements."""'
    ]
    lines += [f"    return {number}, {' + '.join(counts)}"]
    return "\n".join(["", "", "def cost(case):", *lines]) + "\n"


def _in_case(text: str, names: Iterable[str]) -> str:
    """Return an expression with sizes of a case in the place of their names."""
    for name in names:
        text = re.sub(rf"(?<![\w\"]){name}(?!\w)", f'case["{name}"]', text)
    return text


def _device(problem: KernelBench, has_buffers: bool) -> str:
    """Return the device on which the module is made."""
    if has_buffers and not problem.made_on_cpu:
        return "torch.device(device)"
    return f'torch.device("{"cpu" if problem.made_on_cpu else problem.device}")'


def _moved(problem: KernelBench, has_buffers: bool) -> str:
    """Return the call that moves the module to its device and its format."""
    if problem.made_on_cpu:
        return ".to(device, dtype)" if has_buffers else f'.to("{problem.device}")'
    return ".to(dtype)" if has_buffers else ""


def _registered(path: str) -> str:
    """Return lines that make a tensor which the constructor drew a buffer, so that it is given."""
    owner, _, name = path.rpartition(".")
    part = f'found.get_submodule("{owner}")'
    return "".join(
        f"    {line}\n"
        for line in (f"part = {part}", f"value = part.{name}", f"del part.{name}",
                     f'part.register_buffer("{name}", value)')
    )  # fmt: skip


FLAT = '''

def flat(result):
    """Return the tensors of a result in order."""
    if torch.is_tensor(result):
        return (result,)
    return tuple(y for each in result for y in flat(each))
'''


def _init_call(call: Call, sizes: str) -> str:
    if not call.init_named:
        return f"*init_inputs({sizes})" if call.init else ""
    return f"*init_inputs({sizes})[0], **init_inputs({sizes})[1]"


def _constructor(call: Call, sizes: str) -> str:
    found = f"init_inputs({sizes})"
    return f"tuple({found})" if call.init_named else f"list({found}), {{}}"


def _function(name: str, parameters: Iterable[str], lines: list[str]) -> str:
    return "\n".join([f"def {name}({', '.join(parameters)}):", *(f"    {x}" for x in lines)])


def _docstring(heading: str, call: Call) -> str:
    # `inspect.getdoc` would return that of `torch.nn.Module` for a class without one.
    doc = inspect.cleandoc(vars(type(call.module)).get("__doc__") or "")
    doc = doc.replace("\\", "/").replace('"""', "'''").strip()
    more = "What the module `Model` below computes, in training mode as the suite runs it."
    if call.weights:
        more += (
            "\nA function gets its parameters as arguments. `ModelNew(*get_init_inputs())` owns"
            "\nthem, as in the suite: it is constructed after the same secret seed as `Model`, and"
            "\nthose of the same name and shape are copied to it. They are new in each verdict."
        )
    if any(isinstance(p, torch.nn.modules.dropout._DropoutNd) for p in call.module.modules()):
        more += "\nIts dropout is off."
    return "\n\n".join(part for part in (heading, doc, more) if part)


def _inputs(problem: KernelBench, general: General) -> str:
    """Return `inputs`, which runs the suite's generator with the judge's random numbers."""
    constants, call = problem.constants, problem.published
    symbols = constants.used_by("get_inputs", [*general.ranges, *general.tied])
    own = list(dict.fromkeys(general.tied.get(name, name) for name in symbols))
    tied = [n for n in general.tied if general.tied[n] in own]
    lines = [f"{n} = {general.tied[n]}" for n in tied]
    lines += drawn_source(constants.body("get_inputs", [*own, *tied]))
    generator = _function("get_drawn", ["draw", *own], lines)
    sizes = ", ".join(f'case["{n}"]' for n in own)
    rows = [f"    found = dict(zip({list(call.names)}, given))"]
    for name, path in problem.parameters.items():
        shape = ", ".join(_python_size(t) for t in general.shapes[name])
        words = weight_description(call, path, tuple(call.weights[path].shape))
        drawn = f"draw.normal(({shape},), {words.get('scale', 1.0)})"
        if "range" in words:
            drawn = f"draw.uniform(({shape},), 0.5, 1.5)"
        rows.append(f'    found["{name}"] = {drawn}')
    keep = "    return {n: x for n, x in found.items() if torch.is_tensor(x)}"
    body = ["", "", generator, "", "", "def inputs(case, draw):"]
    body += ["    with torch.device(draw.device):", f"        given = get_drawn(draw, {sizes})"]
    return "\n".join([*body, *rows, keep]) + "\n"


def _python_size(text: str) -> str:
    parts = text.split("*") if is_plain(text) else []
    if not parts:
        raise Unsupported("structured inputs beside weights of derived sizes")
    return " * ".join(p if p.isdigit() else f'case["{p}"]' for p in parts)


def weight_description(call: Call, path: str, shape: tuple[int, ...]) -> dict[str, object]:
    """Return how a weight is drawn: so that the sums that it weighs stay near one."""
    if path in call.drawn:
        return {}
    owner, _, own = path.rpartition(".")
    module = call.module.get_submodule(owner)
    if len(shape) == 1 and own == "weight" and "Norm" in type(module).__name__:
        return {"range": [0.5, 1.5]}
    if len(shape) < 2:
        return {"scale": 0.1} if "bias" in own else {}
    terms = math.prod(shape[1:])
    if isinstance(module, torch.nn.modules.conv._ConvTransposeNd):
        terms = shape[0] * math.prod(shape[2:]) // module.groups
    if terms < 4 or min(sorted(shape)[-2:]) == 1:
        return {}
    return {"scale": float(f"{1 / math.sqrt(min(terms, MAX_FAN_IN)):.3g}")}
