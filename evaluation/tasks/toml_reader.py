"""TOML reader whose errors name the file, the key and the remedy."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NoReturn

from evaluation.errors import TaskError

Check = Callable[[Any], bool]


class Table:
    """A table of a TOML file.

    Every method removes the key that it reads, and `finish` refuses the rest: a misspelt key is an
    error. All raise TaskError.
    """

    def __init__(self, path: Path, data: Mapping[str, Any], where: str = "") -> None:
        self.path = path
        self.where = where
        self._left = dict(data)

    @classmethod
    def read(cls, path: Path) -> Table:
        try:
            return cls(path, tomllib.loads(read_text(path)))
        except tomllib.TOMLDecodeError as error:
            raise TaskError(f"{path}: not TOML: {error}") from None

    def fail(self, key: str, advice: str) -> NoReturn:
        raise TaskError(f"{self.path}: {self._name(key)}: {advice}")

    def has(self, key: str) -> bool:
        return key in self._left

    def is_list(self, key: str) -> bool:
        return isinstance(self._left.get(key), list)

    def discard(self, key: str) -> None:
        """Leave a key unread that does not matter here."""
        self._left.pop(key, None)

    def names(self) -> tuple[str, ...]:
        return tuple(self._left)

    def string(self, key: str) -> str:
        return str(self._value(key, "a string that is not empty", _is_string))

    def option(self, key: str, options: Iterable[str]) -> str:
        """Return a string that is one of `options`."""
        value, known = self.string(key), tuple(options)
        if value not in known:
            self.fail(key, f"must be one of {', '.join(known)}; got {value!r}")
        return value

    def number(self, key: str) -> int | float:
        return self._value(key, "a number", _is_number)  # type: ignore[no-any-return]

    def positive(self, key: str) -> float:
        value = float(self.number(key))
        if not 0 < value < float("inf"):
            self.fail(key, f"must be a number above 0, got {value!r}")
        return value

    def integer(self, key: str) -> int:
        kind = "an integer of at least 1"
        return int(self._value(key, kind, lambda value: type(value) is int and value > 0))

    def flag(self, key: str) -> bool:
        return bool(self._value(key, "true or false", lambda value: type(value) is bool))

    def items(
        self, key: str, kind: str, check: Check = lambda item: True, least: int = 1
    ) -> tuple[Any, ...]:
        """Return the items of a list that is not empty unless `least` is 0; `kind` names them."""

        def is_list(value: Any) -> bool:
            return isinstance(value, list) and len(value) >= least and all(map(check, value))

        wanted = f"a list of {kind}" + (" that is not empty" if least else "")
        return tuple(self._value(key, wanted, is_list))

    def strings(self, key: str) -> tuple[str, ...]:
        return self.items(key, "strings", _is_string)

    def numbers(self, key: str) -> tuple[int | float, ...]:
        return self.items(key, "numbers", _is_number)

    def table(self, key: str) -> Table:
        return Table(self.path, self._value(key, "a table", _is_table), self._name(key))

    def tables(self, key: str) -> tuple[Table, ...]:
        return tuple(
            Table(self.path, value, f"{self._name(key)}[{number}]")
            for number, value in enumerate(self.items(key, "tables", _is_table))
        )

    def rest(self) -> dict[str, Any]:
        """Return all keys that were not read, as they are."""
        rest, self._left = self._left, {}
        return rest

    def finish(self) -> None:
        """Refuse keys that were not read."""
        for key in self._left:
            self.fail(key, "unknown key; remove it or correct its spelling")

    def _value(self, key: str, kind: str, check: Check) -> Any:
        if key not in self._left:
            self.fail(key, f"missing; add {kind}")
        value = self._left.pop(key)
        if not check(value):
            self.fail(key, f"must be {kind}, got {value!r}")
        return value

    def _name(self, key: str) -> str:
        return f"{self.where}.{key}" if self.where else key


def read_text(path: Path) -> str:
    """Return the text of a file of a task. Raises TaskError."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise TaskError(f"{path}: no such file; add it") from None
    except UnicodeDecodeError:
        raise TaskError(f"{path}: not UTF-8; save it as UTF-8") from None
    except OSError as error:
        raise TaskError(f"{path}: {error.strerror}; make it a file that can be read") from None


def _is_string(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)


def _is_table(value: Any) -> bool:
    return isinstance(value, dict)
