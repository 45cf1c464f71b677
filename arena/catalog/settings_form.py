"""Form fields of an agent's settings, made from the JSON Schema of its harness."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms

from arena.catalog.agent_settings import OBJECT, settings_problems

MAX_LINE = 200
"""A text that can be longer gets a box of several lines."""


class SettingsForm(forms.Form):
    """Settings of one harness; of a harness without a schema, one field for a JSON object."""

    def __init__(self, schema: Mapping[str, Any], *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self._schema = schema
        self.fields.update(settings_fields(schema) if schema else {OBJECT: _any_object()})
        if not schema and self.initial:
            self.initial = {OBJECT: self.initial}

    def settings(self) -> Any:
        """Return the settings, without those equal to their default. Raises: ValueError."""
        if not self.is_valid():
            raise ValueError(f"the form is not valid: {self.errors.as_json()}")
        return self._chosen(self.cleaned_data)

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        for name, message in settings_problems(self._chosen(cleaned), self._schema).items():
            setting = name.partition(".")[0]
            if setting not in self.errors:
                self.add_error(setting if setting in self.fields else None, message)
        return cleaned

    def _chosen(self, cleaned: Mapping[str, Any]) -> Any:
        if self._schema:
            return settings_of(cleaned, self._schema)
        value = cleaned.get(OBJECT)
        return {} if value is None else value


def settings_fields(schema: Mapping[str, Any]) -> dict[str, forms.Field]:
    """Return a field for each setting, by its name, with its default as the initial value."""
    required = schema.get("required", ())
    properties = schema.get("properties", {})
    return {
        name: _field(_resolved(part, schema), schema, name in required)
        for name, part in properties.items()
    }


def settings_of(cleaned_data: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings in a valid form; those equal to their default are left out."""
    chosen = {}
    for name, part in schema.get("properties", {}).items():
        part = _resolved(part, schema)
        value, default = cleaned_data.get(name), part.get("default")
        empty = value is None or (value in ("", []) and default is None)
        if not empty and not _same(value, default):
            chosen[name] = value
    return chosen


def _same(value: Any, default: Any) -> bool:
    """Return whether two values are equal in JSON, where true is not 1."""
    return bool(value == default) and isinstance(value, bool) == isinstance(default, bool)


def _resolved(part: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema with its reference followed, and with the part of it that is not null."""
    found = dict(part)
    for name in ("anyOf", "oneOf", "allOf"):
        options = [_resolved(option, schema) for option in found.get(name, ())]
        types = [option for option in options if option.get("type") != "null"]
        if len(types) == 1:
            found = types[0] | {key: value for key, value in found.items() if key != name}
            found["nullable"] = len(types) < len(options) or types[0].get("nullable", False)
    if reference := found.pop("$ref", ""):
        target = schema.get("$defs", {}).get(reference.rpartition("/")[2], {})
        found = _resolved(target, schema) | found
    return found


def _any_object() -> forms.Field:
    return forms.JSONField(
        required=False,
        label="Settings",
        help_text="A JSON object. The harness does not describe its settings.",
        widget=forms.Textarea({"rows": 4}),
    )


def _field(part: Mapping[str, Any], schema: Mapping[str, Any], required: bool) -> forms.Field:
    common: dict[str, Any] = {
        "required": required,
        "help_text": part.get("description", ""),
        "initial": part.get("default"),
    }
    if title := part.get("title"):
        made_from_name = title == title.title()
        common["label"] = title.capitalize() if made_from_name else title
    if "const" in part:
        return _choice([part["const"]], common, part)
    if "enum" in part:
        return _choice(part["enum"], common, part)
    kind = part.get("type")
    if kind == "boolean":
        return forms.BooleanField(**common | {"required": False})
    if kind == "integer":
        return forms.IntegerField(**common, **_bounds(part, 1))
    if kind == "number":
        return forms.FloatField(**common, **_bounds(part, 0))
    if kind == "string":
        return _text(part, common)
    if kind == "array":
        items = _resolved(part.get("items", {}), schema)
        if "enum" in items:
            choices = [(value, value) for value in items["enum"]]
            boxes = forms.CheckboxSelectMultiple
            return forms.MultipleChoiceField(choices=choices, widget=boxes, **common)
        if items.get("type") == "string":
            return LinesField(**common)
    return forms.JSONField(**common)


class LinesField(forms.Field):
    """A list of texts, one a line."""

    widget = forms.Textarea

    def __init__(self, **more: Any) -> None:
        help_text = f"{more.pop('help_text', '')} One per line.".strip()
        super().__init__(help_text=help_text, **more)
        self.widget.attrs["rows"] = 3

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(value) if isinstance(value, list) else value

    def to_python(self, value: Any) -> list[str]:
        return [line.strip() for line in (value or "").splitlines() if line.strip()]


def _choice(
    values: list[Any], common: Mapping[str, Any], part: Mapping[str, Any]
) -> forms.TypedChoiceField:
    by_text = {str(value): value for value in values if value not in (None, "")}
    optional = part.get("nullable") or None in values or "" in values
    blank = optional or "default" not in part
    choices = [("", "Default")] if blank else []
    choices += [(text, text) for text in by_text]
    return forms.TypedChoiceField(
        choices=choices, coerce=by_text.__getitem__, empty_value=None, **common
    )


def _bounds(part: Mapping[str, Any], step: int) -> dict[str, Any]:
    """Return the bounds of a number; `step` is the distance from an exclusive one."""
    bounds: dict[str, Any] = {}
    for name, inclusive, exclusive, inward in (
        ("min_value", "minimum", "exclusiveMinimum", step),
        ("max_value", "maximum", "exclusiveMaximum", -step),
    ):
        if inclusive in part:
            bounds[name] = part[inclusive]
        elif exclusive in part:
            bounds[name] = part[exclusive] + inward
    return bounds


def _text(part: Mapping[str, Any], common: Mapping[str, Any]) -> forms.CharField:
    longest = part.get("maxLength")
    lengths: dict[str, Any] = {
        "min_length": part.get("minLength"),
        "max_length": longest,
        "empty_value": "",
    }
    if longest is not None and longest > MAX_LINE:
        return TextField(**common, **lengths)
    return forms.CharField(**common, **lengths)


class TextField(forms.CharField):
    """A text of several lines, kept as it is written, with the line ends of Linux."""

    widget = forms.Textarea

    def __init__(self, **more: Any) -> None:
        super().__init__(strip=False, **more)
        self.widget.attrs["rows"] = 4

    def to_python(self, value: Any) -> str:
        text = super().to_python(value) or ""
        return text.replace("\r\n", "\n")
