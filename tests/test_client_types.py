"""The client's types are those of the API's OpenAPI description, and it needs no library."""

from __future__ import annotations

import ast
import runpy
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_types_of_the_client_are_those_of_the_api() -> None:
    from arena.api.root import api

    made = runpy.run_path(str(ROOT / "scripts" / "client-types"))
    schemas = api.get_openapi_schema()["components"]["schemas"]
    stored = (ROOT / "arena_client" / "types.py").read_text()
    assert made["types"](schemas) == stored, "run scripts/client-types > arena_client/types.py"


def test_client_imports_the_standard_library_alone() -> None:
    for path in (ROOT / "arena_client").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [each.name for each in node.names] if isinstance(node, ast.Import) else []
            for name in names:
                top = name.partition(".")[0]
                assert top == "arena_client" or top in sys.stdlib_module_names, (path, name)
