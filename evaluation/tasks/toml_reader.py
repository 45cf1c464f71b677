"""TOML reader that names every mistake: the file, the key, the remedy."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from evaluation.errors import TaskError


class Table:
    """A table of a TOML file.

    Every method takes a key out, and `finish` refuses the rest, so that a misspelt key is an error.
    """

    def __init__(self, path: Path, data: Mapping[str, Any], where: str = "") -> None:
        self.path = path
        self.where = where
        self._left = dict(data)

    @classmethod
    def read(cls, path: Path) -> Table:
        try:
            return cls(path, tomllib.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            raise TaskError(f"{path}: no such file; every operator folder needs one") from None
        except UnicodeDecodeError:
            raise TaskError(f"{path}: not UTF-8; save it as UTF-8") from None
        except tomllib.TOMLDecodeError as error:
            raise TaskError(f"{path}: not TOML: {error}") from None

    def fail(self, key: str, advice: str) -> NoReturn:
        raise TaskError(f"{self.path}: {self._name(key)}: {advice}")

    def has(self, key: str) -> bool:
        return key in self._left

    def names(self) -> tuple[str, ...]:
        return tuple(self._left)

    def text(self, key: str) -> str:
        value = self._take(key, "a text")
        if not isinstance(value, str) or not value.strip():
            self.fail(key, f"must be a text that is not empty, got {value!r}")
        return value

    def number(self, key: str) -> int | float:
        value = self._take(key, "a number")
        if not _is_number(value):
            self.fail(key, f"must be a number, got {value!r}")
        return value  # type: ignore[no-any-return]  # _is_number narrows at run time only

    def positive(self, key: str) -> float:
        value = float(self.number(key))
        if not 0 < value < float("inf"):
            self.fail(key, f"must be a number above 0, got {value!r}")
        return value

    def integer(self, key: str, least: int = 1) -> int:
        value = self._take(key, "an integer")
        if type(value) is not int or value < least:
            self.fail(key, f"must be an integer of at least {least}, got {value!r}")
        return value

    def items(self, key: str, kind: str) -> Sequence[Any]:
        value = self._take(key, f"a list of {kind}")
        if not isinstance(value, list) or not value:
            self.fail(key, f"must be a list of {kind} that is not empty, got {value!r}")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        values = self.items(key, "texts")
        for value in values:
            if not isinstance(value, str) or not value:
                self.fail(key, f"must hold texts only, got {value!r}")
        return tuple(values)

    def numbers(self, key: str) -> tuple[int | float, ...]:
        values = self.items(key, "numbers")
        for value in values:
            if not _is_number(value):
                self.fail(key, f"must hold numbers only, got {value!r}")
        return tuple(values)

    def table(self, key: str) -> Table:
        value = self._take(key, "a table")
        if not isinstance(value, dict):
            self.fail(key, f"must be a table, got {value!r}")
        return Table(self.path, value, self._name(key))

    def tables(self, key: str) -> tuple[Table, ...]:
        values = self.items(key, "tables")
        for value in values:
            if not isinstance(value, dict):
                self.fail(key, f"must hold tables only, got {value!r}")
        return tuple(
            Table(self.path, value, f"{self._name(key)}[{i}]") for i, value in enumerate(values)
        )

    def finish(self) -> None:
        for key in self._left:
            self.fail(key, "unknown key; remove it or correct its spelling")

    def _take(self, key: str, kind: str) -> Any:
        if key not in self._left:
            self.fail(key, f"missing; add {kind}")
        return self._left.pop(key)

    def _name(self, key: str) -> str:
        return f"{self.where}.{key}" if self.where else key


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
