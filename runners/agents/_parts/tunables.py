"""Tunables that a source declares in its comments, beside the definition that is changed.

// arena: tune BLOCK 8 16 32            above  #define BLOCK 16
# arena: tune BLOCK 256 512             above  BLOCK = 256
// arena: tune-flags "-O2" "-O3"        beside // arena: flags -O2
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

_CONSTANT = re.compile(r"^[ \t]*(?://|#) arena: tune (\w+) (.+)$", re.MULTILINE)
_FLAG_CHOICES = re.compile(r"^(//|#) arena: tune-flags (.+)$", re.MULTILINE)
_FLAGS = re.compile(r"^(?://|#) arena: flags ?(.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Constant:
    """A named constant: `#define NAME value` or `NAME = value`."""

    name: str
    values: tuple[str, ...]

    @property
    def _line(self) -> re.Pattern[str]:
        name = re.escape(self.name)
        pattern = rf"^(\s*#define {name}\s+|\s*{name}\s*(?::[^=]+)?=\s*)(\S+)"
        return re.compile(pattern, re.MULTILINE)

    def get(self, source: str) -> str:
        """Return its value in `source`. Raises ValueError for one never defined."""
        found = self._line.search(source)
        if found is None:
            raise ValueError(f"{self.name} is declared as tunable but never defined")
        return found[2]

    def set(self, source: str, value: str) -> str:
        """Return `source` with another value."""
        return self._line.sub(lambda found: found[1] + value, source, count=1)


@dataclass(frozen=True)
class Flags:
    """Compiler flags that a source requests; `comment` is the comment sign of its language."""

    comment: str
    values: tuple[str, ...]
    name: str = "compiler flags"

    def get(self, source: str) -> str:
        """Return the flags in `source`, empty if it requests none."""
        found = _FLAGS.search(source)
        return found[1].strip() if found else ""

    def set(self, source: str, value: str) -> str:
        """Return `source` with other flags."""
        line = f"{self.comment} arena: flags {value}".rstrip()
        if _FLAGS.search(source):
            return _FLAGS.sub(lambda _: line, source, count=1)
        return f"{line}\n{source}"


Tunable = Constant | Flags


def tunables(source: str) -> tuple[Tunable, ...]:
    """Return the tunables of `source`, flags first. Raises ValueError for one never defined."""
    flags = [Flags(found[1], _words(found[2])) for found in _FLAG_CHOICES.finditer(source)]
    constants = [Constant(found[1], _words(found[2])) for found in _CONSTANT.finditer(source)]
    for constant in constants:
        constant.get(source)
    return (*flags, *constants)


def _words(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(shlex.split(text)))
