"""Files of gpu-mode's form: a reference and its input generator, among checks and other code."""

from __future__ import annotations

import ast
from collections.abc import Iterator

REFERENCE, GENERATOR, CHECK = "ref_kernel", "generate_input", "check_implementation"
SUITE_MODULES = ("utils", "task")
"""Modules of the suite, which the judge does not run."""
REPLACED = {
    "DeterministicContext": "contextlib.nullcontext",
    "DisableCuDNNTF32": "contextlib.nullcontext",
    "input_t": "object",
    "output_t": "object",
}
"""Names of the suite that change no value: types, and contexts that turn off TF32."""


def reference_part(source: str) -> str:
    """Return the reference, the generator and what they use, in the words of the file.

    Names in `REPLACED` are defined before them. A file with wrong syntax is returned whole.
    """
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return source
    bound = [set(_bound(node)) - REPLACED.keys() for node in body]
    needed, known = {REFERENCE, GENERATOR}, 0
    while len(needed) > known:
        known = len(needed)
        for names, node in zip(bound, body, strict=True):
            if names & needed:
                needed |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    lines = source.splitlines(keepends=True)
    kept = [
        "".join(lines[_first(node) - 1 : node.end_lineno]).strip("\n")
        for names, node in zip(bound, body, strict=True)
        if names & needed and not _is_import_of_suite(node)
    ]
    replaced = [f"{name} = {value}" for name, value in REPLACED.items() if name in needed]
    head = ["import contextlib", "\n".join(replaced)] if replaced else []
    return "\n\n".join([*head, *kept]) + "\n"


def _bound(node: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement at the top of a file binds."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Import | ast.ImportFrom):
        for alias in node.names:
            yield alias.asname or alias.name.partition(".")[0]
    else:
        for child in ast.walk(node):
            if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
                yield child.id


def _first(node: ast.stmt) -> int:
    """Return the number of a statement's first line, which is that of its first decorator."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def _is_import_of_suite(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module in SUITE_MODULES


def check_uses_reference(source: str) -> bool:
    """Return whether the file's check, if it has one, uses the reference."""
    checks = [node for node in ast.parse(source).body if CHECK in set(_bound(node))]
    names = {n.id for node in checks for n in ast.walk(node) if isinstance(n, ast.Name)}
    return not checks or REFERENCE in names
