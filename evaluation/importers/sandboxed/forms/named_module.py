"""UNTRUSTED: problems of KernelBench's form whose module has the name of its file.

`py_10190_FusedLeakyReLU.py` has `class FusedLeakyReLU`. Its `get_inputs` yields several
configurations, of which the first is the published one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from evaluation.importers.files import Files
from evaluation.importers.sandboxed.forms.kernelbench import MODEL
from evaluation.importers.sandboxed.observation import Unsupported


def sources(files: Files, name: str) -> Iterator[str]:
    """Yield the file with its module under the name of KernelBench's form. Raises Unsupported."""
    classes = [node.name for node in ast.parse(files.source).body if isinstance(node, ast.ClassDef)]
    named = [each for each in classes if name == each or name.endswith(f"_{each}")]
    if not named:
        raise Unsupported(f"has no class with the name of its file, {name}")
    longest = max(named, key=len)
    yield files.source if longest == MODEL else f"{files.source}\n\n{MODEL} = {longest}\n"
