"""The short form of a task from the fields of a form: `task.toml` and `reference.py`."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields

from arena.curation.files import BadFiles, check_title
from arena.curation.validation import problems_of, reference_problems
from evaluation.tasks.spec import CATEGORIES

LANGUAGES = ("triton", "cuda", "cpp", "hip")
MAX_LEVEL = 3
EXAMPLE: Mapping[str, str] = {
    "name": "clipped_relu",
    "title": "Clipped ReLU",
    "category": "Activation",
    "families": "vision",
    "level": "1",
    "arguments": """\
{ name = "x", role = "input", shape = ["rows", "cols"] },
{ name = "out", role = "output", shape = ["rows", "cols"] },
{ name = "limit", role = "scalar", dtype = "float32" },
""",
    "domain": """\
dtypes = ["float32", "float16", "bfloat16"]
rows = [1, 65536]
cols = [1, 16384]
limit = { choices = [6.0, 20.0] }
""",
    "models": """\
mobilenet-v2 = { rows = 8192, cols = 1280, limit = 6.0, source = "MobileNetV2: last layer" }
deepspeech = { rows = 4096, cols = 2048, limit = 20.0, source = "Deep Speech: hidden layers" }
mobilenet-v1 = { rows = 8192, cols = 1024, limit = 6.0, source = "MobileNet: last layer" }
""",
    "reference": '''"""Clip `x` to the range from 0 to `limit`: out = min(max(x, 0), limit)."""


def reference(x, limit):
    return x.clamp(0, limit)
''',
}
"""Fields that are a task by themselves, which an author changes."""
FORMS = {
    "arguments": "Each line is a table in braces and ends with a comma.",
    "domain": "Each line is a key, an equals sign and a value.",
    "models": "Each line is a name, an equals sign and a table in braces.",
}
"""Form of the fields that are lines of TOML."""
READ_AS = "draft"
"""Name under which the files are read; that of the form is not checked yet."""
_PLACE = re.compile(
    r"(?P<field>families|arguments|domain|models)(\[(?P<number>\d+)\]|\.(?P<key>[^.:]+))?"
)
_LINE = re.compile(r"\(at line (\d+), column (\d+)\)")


@dataclass(frozen=True)
class ShortForm:
    """Fields of the form. Arguments, domain and models are lines of TOML."""

    title: str
    category: str
    families: str
    level: str
    languages: tuple[str, ...]
    arguments: str
    domain: str
    models: str
    reference: str

    def files(self) -> dict[str, str]:
        """Return the files of the task. Raises BadFiles with a message for each wrong field."""
        title = check_title(self.title)
        files = {} if (wrong := dict(self._wrong())) else self._files(title)
        if wrong := wrong or dict(self._meaningless(files)):
            raise BadFiles(" ".join(f"{name}: {text}" for name, text in wrong.items()), "", wrong)
        return files

    def _files(self, title: str) -> dict[str, str]:
        families = [each.strip() for each in self.families.split(",") if each.strip()]
        table = (
            f"title = {_quoted(title)}\n"
            f"category = {_quoted(self.category)}\n"
            f"families = {_listed(families)}\n"
            f"level = {self.level}\n"
            f"languages = {_listed(self.languages)}\n"
            f"arguments = [\n{_lines(self.arguments)}]\n\n"
            f"[domain]\n{_lines(self.domain)}\n"
            f"[models]\n{_lines(self.models)}"
        )
        return {"task.toml": table, "reference.py": _lines(self.reference)}

    def _wrong(self) -> Iterator[tuple[str, str]]:
        """Yield the names of wrong fields, each with what is wrong."""
        if self.category not in CATEGORIES:
            yield "category", f"{self.category[:80]!r} is no category. Choose one of the list."
        if self.level not in map(str, range(1, MAX_LEVEL + 1)):
            yield "level", f"{self.level[:20]!r} is no level. Choose 1 to {MAX_LEVEL}."
        if not self.languages or not set(self.languages) <= set(LANGUAGES):
            yield "languages", f"A task needs a language. Choose among {', '.join(LANGUAGES)}."
        for name in FORMS:
            if problem := _toml_problem(name, _lines(getattr(self, name))):
                yield name, problem
        for found in reference_problems(self.reference):
            yield "reference", str(found)

    def _meaningless(self, files: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        """Yield the fields that can be parsed and make no task, each with what is wrong."""
        for found in problems_of(READ_AS, files):  # without a tolerance, which a worker fits later
            if found.path == "reference.py":
                yield "reference", str(found)
            elif place := _PLACE.match(found.message):
                line = self._line_of(**place.groupdict())
                yield place["field"], f"{found.message}{f' (at line {line})' if line else ''}."

    def _line_of(self, field: str, number: str | None, key: str | None) -> int:
        """Return the line of a field's table of that number, or of its key; 0 where none is."""
        starts = r"\s*\{" if number else rf"\s*[\"']?{re.escape(key or '')}[\"']?\s*="
        lines = _lines(getattr(self, field)).splitlines()
        found = [at for at, line in enumerate(lines, 1) if re.match(starts, line)]
        return next(iter(found[int(number or 0) :]), 0)


TEXTS = tuple(each.name for each in fields(ShortForm) if each.name != "languages")
"""Fields that are one text; of the languages several are chosen."""


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _listed(texts: Iterable[str]) -> str:
    return f"[{', '.join(map(_quoted, texts))}]"


def _lines(text: str) -> str:
    """Return the lines of a field, which a browser sends with another end."""
    lines = text.replace("\r\n", "\n").rstrip("\n")
    return f"{lines}\n" if lines else ""


def _toml_problem(name: str, lines: str) -> str:
    """Return why lines are not those of a table of `task.toml`; empty where they are.

    A line that the message names is that of the field.
    """
    opening, closing = ("arguments = [", "]") if name == "arguments" else (f"[{name}]", "")
    try:
        keys = tomllib.loads(f"{opening}\n{lines}{closing}").keys()
    except RecursionError:
        return "Not TOML: nested too deeply."
    except ValueError as error:
        text = _LINE.sub(_line_of_field, str(error)).replace("end of document", "its end")
        return f"Not TOML: {text}. {FORMS[name]}"
    return "" if keys == {name} else f"It holds more than the {name}. {FORMS[name]}"


def _line_of_field(found: re.Match[str]) -> str:
    """Return a place within a field, above which the file has one line more."""
    return f"(at line {int(found[1]) - 1}, column {found[2]})"
