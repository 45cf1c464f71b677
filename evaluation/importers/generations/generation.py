"""One generation: a source that a model wrote for a problem of a suite, and the claim on it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from evaluation.types import from_json, to_json

_TRITON = re.compile(r"^\s*(?:import|from)\s+triton\b", re.MULTILINE)
_OTHER = re.compile(r"^\s*(?:import|from)\s+(?:tilelang|cutlass|cupy|numba|jax)\b", re.MULTILINE)
_CUDA = re.compile(r"\bload_inline\b|\bcpp_extension\b|__global__")
_TORCH = re.compile(r"^\s*(?:import|from)\s+torch\b", re.MULTILINE)


@dataclass(frozen=True)
class Claim:
    """Published result of a generation; None where its collection has none."""

    right: bool | None = None
    speedup: float | None = None
    hardware: str = ""
    baseline: str = ""


@dataclass(frozen=True)
class Generation:
    """A source with its place in its collection.

    `source` is its address at the commit of the collection. `level` and `problem` are the numbers
    of the suite.
    """

    collection: str
    model: str
    suite: str
    level: int
    problem: int
    sample: int
    source: str
    text: str = field(repr=False)
    claim: Claim = Claim()

    @cached_property
    def sha256(self) -> str:
        """Return the hash of the source."""
        return hashlib.sha256(self.text.encode(errors="replace")).hexdigest()

    @cached_property
    def language(self) -> str:
        """Return `triton`, `cuda`, `torch` or `other`, by what the source imports and contains."""
        for language, pattern in (
            ("other", _OTHER),
            ("triton", _TRITON),
            ("cuda", _CUDA),
            ("torch", _TORCH),
        ):
            if pattern.search(self.text):
                return language
        return "other"

    @property
    def key(self) -> tuple[str, str, str, int, int, int, str]:
        """Return the identity of the generation among all collections."""
        numbers = self.level, self.problem, self.sample
        return self.collection, self.model, self.suite, *numbers, self.sha256

    @property
    def name(self) -> str:
        """Return the generation for a person."""
        return f"{self.model} {self.level}/{self.problem} sample {self.sample}"

    def to_json(self) -> dict[str, Any]:
        data: dict[str, Any] = to_json(self)
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Generation:
        return from_json(cls, data)
