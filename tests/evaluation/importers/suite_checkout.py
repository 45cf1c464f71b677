"""A checkout in the form of KernelBench, with problems written here."""

from __future__ import annotations

import subprocess
from pathlib import Path

LICENCE = "MIT License\n\nPermission is hereby granted, free of charge, to everybody.\n"
PROBLEM = '''\
import torch
import torch.nn as nn


class Model(nn.Module):
    """{doc}"""

    def __init__(self, features, factor):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.factor = factor

    def forward(self, x):
        return {result}


batch = 64
features = 96
factor = 2.0
{top}

def get_inputs():
    {before}
    return [torch.rand(batch, features)]


def get_init_inputs():
    return [features, factor]
'''


def problem(
    result: str, doc: str = "Scales the columns.", before: str = "pass", top: str = ""
) -> str:
    return PROBLEM.format(result=result, doc=doc, before=before, top=top)


SCALED = problem("x * self.weight * self.factor")


def commit(root: Path, files: dict[str, str], message: str = "change") -> None:
    """Write files into a checkout, which is made if missing, and commit them."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    if not (root / ".git").exists():
        git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", message)


def git(root: Path, *arguments: str) -> None:
    who = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *who, "-C", str(root), *arguments], check=True, capture_output=True)


def path_of(number: int, name: str, level: int = 1) -> str:
    return f"KernelBench/level{level}/{number}_{name}.py"
