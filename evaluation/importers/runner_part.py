"""Task runners of AgentKernelArena: functions of a reference, among commands and timing."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from evaluation.importers.placeless import Placeless, loaded

TEST = "run_correctness"
"""The function that draws inputs, calls the kernel, and compares its results."""
LOADER = "load_module"
RESERVED = "reference inputs cost module init_inputs get_drawn flat magnitude exact".split()
"""Names that mean something in a written reference."""


def is_runner(source: str) -> bool:
    """Return whether a file is a task runner."""
    return f"def {TEST}(" in source


def runner_part(source: str) -> str:
    """Return the functions that the test calls, and what they use, for any device.

    Calls that choose a device are left out, as are comments. Other files are returned whole.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return source
    body = tree.body
    functions = {n.name: n for n in body if isinstance(n, ast.FunctionDef)}
    if TEST not in functions:
        return source
    values = {
        t.id: n for n in body if isinstance(n, ast.Assign) for t in n.targets
        if isinstance(t, ast.Name)
    }  # fmt: skip
    needed = {n for n in loaded(functions[TEST]) if n in functions and n != LOADER}
    known = 0
    while len(needed) > known:
        known = len(needed)
        for name in [n for n in needed if n in functions or n in values]:
            found = loaded(functions.get(name) or values[name])
            needed |= {n for n in found if n in functions or n in values}
    names = renamed([*functions, *values])
    drop = Placeless(names)
    kept = ["\n".join(dict.fromkeys(["import torch", *_imports(tree)]))]
    for node in body:
        if isinstance(node, ast.FunctionDef) and node.name in needed:
            node.name = names.get(node.name, node.name)
            kept.append(ast.unparse(ast.fix_missing_locations(drop.visit(node))))
        elif isinstance(node, ast.Assign) and set(loaded(node, stored=True)) & needed:
            kept.append(ast.unparse(node))
    return "\n\n".join(kept) + "\n"


def renamed(names: Iterable[str]) -> dict[str, str]:
    """Return the names that a runner's functions get instead of reserved ones."""
    return {name: f"{name}_of_suite" for name in names if name in RESERVED}


def _imports(tree: ast.Module) -> list[str]:
    """Return the imports of PyTorch and of `math`, wherever they stand."""
    nodes = [n for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom)]
    found = sorted(map(ast.unparse, nodes))
    return [text for text in found if text.split()[1].partition(".")[0] in ("torch", "math")]
