"""Patches of our own code in tests, and private names that they use: two numbers that only fall."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.test_house import ROOT, tracked

MAX_PATCHES = 202
MAX_PRIVATE_NAMES = 69
SLACK = 10
"""A ceiling further above the number than this is to be lowered."""
SETTERS = ("setattr", "setitem", "delattr", "delitem")
PATCHERS = ("patch", "mock.patch", "patch.object", "mock.patch.object", "patch.dict")
OWN = ("self", "cls", "super()")
"""Names of a class in its own methods are no matter of another's."""
PUBLIC = {"_exit", "_meta", "_registry", "_default_manager", "_getframe", "_sleep"}
"""Documented, or without a public counterpart, in Python, Django and PyTorch."""
SUBMISSIONS = (
    "tests/evaluation/hostile/tricks/",
    "tests/evaluation/kinds/module/candidates/",
    "tests/gpu/hostile/",
    "tests/gpu/honest/",
)


def patches(tree: ast.Module) -> Iterator[ast.Call]:
    """Yield each replacement of an attribute or an item, whoever's it is."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            if ("." in called and called.rpartition(".")[2] in SETTERS) or called in PATCHERS:
                yield node


def private_names(tree: ast.Module) -> Iterator[str]:
    """Yield private names of other classes and modules: used, imported or patched."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) not in OWN:
            yield node.attr
        elif isinstance(node, ast.ImportFrom):
            yield from (each.name for each in node.names)
    for call in patches(tree):
        for word in call.args:
            if isinstance(word, ast.Constant) and isinstance(word.value, str):
                yield word.value.rpartition(".")[2]


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in PUBLIC


def count(source: str) -> tuple[int, int]:
    """Return the numbers of patches and of private names."""
    tree = ast.parse(source)
    return sum(1 for _ in patches(tree)), sum(map(is_private, private_names(tree)))


def test_patches_and_private_names_only_become_fewer() -> None:
    found = {
        str(path.relative_to(ROOT)): count(path.read_text())
        for path in tracked("tests/*.py")
        if not str(path.relative_to(ROOT)).startswith(SUBMISSIONS)
    }
    for index, (what, ceiling) in enumerate(
        (("patches", MAX_PATCHES), ("private names", MAX_PRIVATE_NAMES))
    ):
        total = sum(numbers[index] for numbers in found.values())
        most = sorted(found, key=lambda path: -found[path][index])[:5]
        assert total <= ceiling, f"{total} {what}: pass an argument instead; most are in {most}"
        assert total > ceiling - SLACK, f"{total} {what}: lower the ceiling of {ceiling}"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("monkeypatch.setattr(plans, 'FINAL', plan)", (1, 0)),
        ("monkeypatch.setattr(module, '_private', 1)", (1, 1)),
        ("monkeypatch.setitem(sys.modules, 'pynvml', None)", (1, 0)),
        ("mock.patch('arena.pages.runs.runs._count')", (1, 1)),
        ("setattr(settings, name, 1)", (0, 0)),
        ("monkeypatch.setenv('HOME', '/')", (0, 0)),
        ("module._private()", (0, 1)),
        ("self._own = os._exit", (0, 0)),
        ("from module import _private", (0, 1)),
        ("module.__wrapped__", (0, 0)),
    ],
)
def test_kinds_of_patches_and_private_names(line: str, expected: tuple[int, int]) -> None:
    assert count(line) == expected
